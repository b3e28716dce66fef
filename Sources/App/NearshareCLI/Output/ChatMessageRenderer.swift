internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// Renders chat messages as lines of text and as JSON.
enum ChatMessageRenderer {
    /// Whether a message is shown outside of a conversation.
    static func isShown(_ message: ChatMessage, isShownAsBundle: Bool) -> Bool { !message.isLocal && !isShownAsBundle }

    /// The lines of a message that is shown outside of a conversation. Each line is escaped on access, as most lines of a long text
    /// are not shown. Any peer can claim any name, so a part of the id follows the name (K2).
    static func lines(_ message: ChatMessage) -> some Sequence<String> {
        var author = "you"
        if let id = message.author { author = message.authorName?.tagged(id) ?? id.hex }
        if message.conversation == .publicRoom { author += " to everyone" }
        let name = author
        return message.text.lines.lazy.map { "\(name): \(TextLayout.escaped($0))" }
    }

    static func jsonMembers(_ message: ChatMessage) -> [String: JSONValue] {
        [
            "number": .number(UInt64(max(0, message.number))), "id": .string(message.id),
            "conversation": .string(message.conversation.text), "from": JSONValue(message.author?.hex),
            "name": JSONValue(message.authorName?.claimed), "text": .string(message.text),
            "when": .integer(message.when.milliseconds), "status": .string(message.status.jsonValue),
        ]
    }
}

extension MessageStatus {
    /// The JSON value of the state.
    var jsonValue: String {
        switch self {
        case .waiting: "waiting"
        case .sent: "sent"
        case .delivered: "delivered"
        case .read: "read"
        case .failed: "failed"
        }
    }
}
