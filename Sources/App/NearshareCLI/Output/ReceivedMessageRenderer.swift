internal import Nearshare
internal import NearshareBundles
internal import NearshareService
internal import NearshareTerminal

/// Renders received messages as text and as JSON.
enum ReceivedMessageRenderer {
    static func jsonMembers(_ message: ReceivedMessage) -> [String: JSONValue] {
        var members: [String: JSONValue] = [
            "number": .number(UInt64(max(0, message.number))), "id": .string(message.id.hex),
            "from": JSONValue(message.sender?.hex),
            "name": JSONValue(message.senderName?.claimed), "trust": JSONValue(message.trustStatus?.label),
            "signer": .string(message.signer.hex),
            "broadcast": .bool(message.isBroadcast), "created": .integer(message.created.milliseconds),
            "received": .integer(message.received.milliseconds), "hops": .number(UInt64(max(0, message.hops))),
        ]
        switch message.content {
        case .structured(let value): members["content"] = StructuredJSON.json(value)
        case .besideFile(let value, let name):
            members["content"] = StructuredJSON.json(value)
            members["file"] = .string(name)
        case .other: members["content"] = .null
        }
        return members
    }

    static func line(_ message: ReceivedMessage) -> String {
        var author = message.shownSender ?? "unknown key \(message.signer.hex)"
        if message.isBroadcast { author += " to everyone" }
        let content =
            switch message.content {
            case .structured(let value): text(value)
            case .besideFile(let value, let name): "\(text(value))  [\(NameText.shown(name, columns: 255))]"
            case .other: "(unknown kind of content)"
            }
        return "\(message.received.localText)  \(author): \(content)"
    }

    /// The text of a chat message, or the value as JSON; escaped for a terminal.
    private static func text(_ value: StructuredValue) -> String {
        // A value with other members than those of a chat message is not one.
        guard let content = ChatContent(value), content.value == value else {
            return TextLayout.escaped(StructuredJSON.text(value))
        }
        switch content {
        case .line(_, let text, _):
            // Further lines are indented, so that none can pass for a message of its own.
            return text.lines.map { TextLayout.escaped($0) }.joined(separator: "\n    ")
        case .part(_, let index, let count, let text, _): return "\(TextLayout.escaped(text))  (\(index + 1) of \(count))"
        case .read: return TextLayout.escaped(StructuredJSON.text(value))
        }
    }
}
