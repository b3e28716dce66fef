internal import Nearshare
package import NearshareDBus

/// The features of a notification server that change how notifications are written (Desktop Notifications Specification 1.2,
/// GetCapabilities).
package struct NotificationCapabilities: Sendable, Hashable {
    /// Buttons.
    package var hasActions: Bool
    /// The body is markup, in which `&` and `<` have a meaning.
    package var hasBodyMarkup: Bool
    /// A field for an answer (an extension of KDE).
    package var hasInlineReply: Bool

    package init(hasActions: Bool, hasBodyMarkup: Bool, hasInlineReply: Bool) {
        (self.hasActions, self.hasBodyMarkup, self.hasInlineReply) = (hasActions, hasBodyMarkup, hasInlineReply)
    }

    package init(_ names: [String]) {
        self.init(
            hasActions: names.contains("actions"), hasBodyMarkup: names.contains("body-markup"),
            hasInlineReply: names.contains("inline-reply"))
    }
}

/// A notification of the desktop. Its texts are bounded and without control characters, but not markup (T6).
package struct DesktopNotification: Sendable, Hashable {
    package enum Urgency: UInt8, Sendable {
        /// Listed, without a pop-up where the desktop distinguishes.
        case low = 0
        case normal = 1
    }

    package struct Action: Sendable, Hashable {
        package var key: String
        package var label: String

        package init(key: String, label: String) {
            (self.key, self.label) = (key, label)
        }
    }

    /// The key with which a server shows a field for an answer.
    package static let replyKey = "inline-reply"

    package var summary: String
    package var lines: [String]
    package var actions: [Action] = []
    package var urgency = Urgency.normal
    /// A category of the specification, such as "transfer.complete".
    package var category: String
    /// The progress of a transfer, in per cent; nil for none.
    package var progress: Int32?
    /// Whether the notification stays on the screen until the user answers.
    package var staysOpen = false
    /// The id of the notification that it replaces; 0 for none.
    package var replacedID: UInt32 = 0

    /// Limits on summary and body, in columns and lines: desktops have none of their own.
    private static let maximumSummaryColumns = 120
    private static let maximumLineColumns = 240
    private static let maximumLineCount = 12

    /// - Parameters:
    ///   - summary: plain text in every server.
    ///   - lines: of the body.
    package init(_ summary: String, _ lines: [String], category: String) {
        self.summary = TerminalText.sanitized(summary, columns: Self.maximumSummaryColumns)
        self.lines = lines.prefix(Self.maximumLineCount).map {
            TerminalText.sanitized($0, columns: Self.maximumLineColumns)
        }
        self.category = category
    }

    /// The arguments of `Notify`.
    package func arguments(_ capabilities: NotificationCapabilities) -> [DBusValue] {
        let body = lines.joined(separator: "\n")
        var hints: [String: DBusValue] = [
            "urgency": .byte(urgency.rawValue), "category": .string(category),
            "desktop-entry": .string("org.nearshare.nearshare"),
        ]
        if let progress { hints["value"] = .int32(progress) }
        let shown = actions.filter { $0.key != Self.replyKey || capabilities.hasInlineReply }
        return [
            .string("nearshare"), .uint32(replacedID), .string("org.nearshare.nearshare"), .string(summary),
            .string(capabilities.hasBodyMarkup ? Self.markup(body) : body), .strings(shown.flatMap { [$0.key, $0.label] }),
            .dictionary(hints), .int32(staysOpen ? 0 : -1),
        ]
    }

    /// The text as markup that shows it unchanged.
    package static func markup(_ text: String) -> String {
        text.unicodeScalars.reduce(into: "") { markup, scalar in
            switch scalar {
            case "&": markup += "&amp;"
            case "<": markup += "&lt;"
            case ">": markup += "&gt;"
            case "\"": markup += "&quot;"
            case "'": markup += "&apos;"
            default: markup.unicodeScalars.append(scalar)
            }
        }
    }
}
