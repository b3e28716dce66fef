internal import Nearshare

/// Output of a chat line outside a chat, as text or JSON.
enum ChatLine {
    /// Whether a line is shown outside of a conversation: a line from a peer that was not received as a message already.
    static func isShown(_ entry: ChatMessage) -> Bool {
        !entry.isOurs && (BundleID(hex: entry.id) == nil || entry.conversation == .publicRoom)
    }

    static func lines(_ entry: ChatMessage) -> [String] {
        let author = entry.authorName?.shown ?? entry.author?.hex ?? "me"
        let audience = entry.conversation == .publicRoom ? " to everyone" : ""
        return entry.text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            "\(author)\(audience): \(TerminalText.escaped(String(line), columns: 4_096))"
        }
    }

    static func describe(_ entry: ChatMessage) -> [String: JSONValue] {
        [
            "number": .number(UInt64(max(0, entry.number))), "id": .text(entry.id),
            "conversation": .text(entry.conversation.text), "from": JSONValue(entry.author?.hex),
            "name": JSONValue(entry.authorName?.claimed), "text": .text(entry.text), "when": .integer(entry.when.milliseconds),
            "mark": .text("\(entry.status)"),
        ]
    }
}
