internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// Output of a piped conversation on standard output.
struct ChatReport: Sendable {
    let conversation: Conversation
    /// The peer's name, escaped for a terminal.
    let name: String
    let isJSON: Bool
    /// Text output includes received lines.
    let showsEntries: Bool

    func emit(_ event: ControlEvent) {
        if isJSON {
            if let (word, fields) = Self.fields(event, of: conversation) { JSONEvents.emit(word, fields) }
        } else if showsEntries, case .entry(let entry, _) = event, entry.conversation == conversation {
            for line in Self.lines(entry, called: name) { Console.writeResult(line) }
        }
    }

    func accepted(_ id: String, line: UInt64) {
        if isJSON { JSONEvents.emit("accepted", ["id": .text(id), "line": .number(line)]) }
    }

    func refused(_ failure: ControlFailure, line: UInt64) {
        if isJSON { JSONEvents.emit("refused", ["line": .number(line), "reason": .text(failure.description)]) }
    }

    /// Text output of a line, escaped also where the output is piped on to a terminal (T7).
    static func lines(_ entry: ChatMessage, called name: String) -> [String] {
        var author = "you"
        if let id = entry.author {
            let isPublic = entry.conversation == .publicRoom
            author = entry.authorName.map { isPublic ? $0.tagged(id) : $0.shown(of: id) } ?? (isPublic ? id.hex : name)
        }
        let clock = LocalTime(entry.when).clock
        return TextLayout.lines(of: entry.text).enumerated().map { index, line in
            (index == 0 ? "\(clock) \(author): " : "    ") + TextLayout.escaped(line)
        }
    }

    /// - Returns: nil for events of other conversations.
    static func fields(_ event: ControlEvent, of conversation: Conversation) -> (String, [String: JSONValue])? {
        switch event {
        case .entry(let entry, _):
            guard entry.conversation == conversation else { return nil }
            return ("line", ChatMessageRenderer.jsonMembers(entry))
        case .marked(let id, conversation, let mark, let reason):
            return (
                "mark",
                [
                    "conversation": .text(conversation.text), "id": .text(id), "mark": .text(mark.word),
                    "reason": JSONValue(reason),
                ]
            )
        case .contacts(let contacts): return ("people", ["people": .list(contacts.map { .object(fields($0)) })])
        case .transfer(let transfer):
            guard conversation == .peer(transfer.peer) else { return nil }
            return (
                "transfer",
                [
                    "transfer": .text(transfer.id.hex), "incoming": .flag(transfer.isIncoming), "name": .text(transfer.name),
                    "done": .number(transfer.done), "total": JSONValue(transfer.total),
                    "outcome": JSONValue(transfer.outcome?.word), "detail": JSONValue(transfer.detail),
                ]
            )
        case .notice(let text): return ("notice", ["text": .text(text)])
        case .marked, .messageChanged, .received: return nil
        }
    }

    private static func fields(_ person: Contact) -> [String: JSONValue] {
        [
            "id": .text(person.id.hex), "name": .text(person.name.claimed), "standing": .text(person.trustStatus.label),
            "friend": .flag(person.isFriend), "near": .flag(person.isNear),
            "software": .text(person.software.rawValue),
        ]
    }
}

extension MessageStatus {
    /// The JSON value of the state.
    var word: String {
        switch self {
        case .waiting: "waiting"
        case .sent: "sent"
        case .delivered: "delivered"
        case .read: "read"
        case .failed: "failed"
        }
    }
}
