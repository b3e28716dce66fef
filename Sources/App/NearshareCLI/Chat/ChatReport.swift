internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// Output of a piped conversation on standard output.
struct ChatReport: Sendable {
    let conversation: Conversation
    /// The peer's name, escaped for a terminal.
    let name: String
    let reporter: any CommandReporter
    /// Whether text output has received lines, and warnings of refused ones. Without it the command's failure names these.
    let showsMessages: Bool

    func emit(_ event: ControlEvent) {
        reporter.emit(Self.fields(event, of: conversation).map { [$0] } ?? []) {
            guard showsMessages, case .chatMessage(let message, _) = event, message.conversation == conversation else { return }
            for line in Self.lines(message, called: name) { Console.writeWrappedResult(line) }
        }
    }

    func emitAccepted(_ id: String, line: UInt64) {
        reporter.emit("accepted", ["id": .string(id), "line": .number(line)]) {}
    }

    func emitRefused(_ failure: ControlFailure, line: UInt64) {
        reporter.emit("refused", ["line": .number(line), "reason": .string(failure.description)]) {
            if showsMessages { Console.warn("not sent: \(TextLayout.sanitized(failure.description))") }
        }
    }

    /// The rows of a message as text, escaped wherever the output goes: it may be piped on to a terminal (T7).
    /// - Parameter keepsJoiners: true for a file, which keeps the joiners of emoji.
    static func lines(_ message: ChatMessage, called name: String, keepsJoiners: Bool = false) -> [String] {
        var author = "you"
        if let id = message.author {
            let isPublic = message.conversation == .publicRoom
            author = message.authorName.map { isPublic ? $0.tagged(id) : $0.shown(of: id) } ?? (isPublic ? id.hex : name)
        }
        let time = LocalTime(message.when)
        var lines = message.text.lines.enumerated().map { index, line in
            (index == 0 ? "\(time.clock) \(author): " : "    ") + TextLayout.escaped(line, keepsJoiners: keepsJoiners)
        }
        if let written = message.written {
            lines[lines.count - 1] += " (\(LocalTime(written).text(of: "written", beside: time)))"
        }
        return lines
    }

    /// The name and the members of the JSON event. Contacts and notices belong to every conversation.
    /// - Returns: nil for events of other conversations, and for those that are not reported.
    static func fields(_ event: ControlEvent, of conversation: Conversation) -> JSONEvents.Event? {
        switch event {
        case .chatMessage(let message, _):
            guard message.conversation == conversation else { return nil }
            return ("chat_message", ChatMessageRenderer.jsonMembers(message))
        case .chatMessageChanged(let id, conversation, let status, let reason):
            return (
                "chat_message_changed",
                [
                    "conversation": .string(conversation.text), "id": .string(id), "status": .string(status.jsonValue),
                    "reason": JSONValue(reason),
                ]
            )
        case .contacts(let contacts):
            return ("contacts", ["contacts": .array(contacts.map { .object(KnownPeerRenderer.jsonMembers($0)) })])
        case .transfer(let transfer):
            guard conversation == transfer.conversation else { return nil }
            return (
                "transfer",
                [
                    "transfer": .string(transfer.id.hex), "incoming": .bool(transfer.isIncoming),
                    "name": .string(transfer.name),
                    "done": .number(transfer.done), "total": JSONValue(transfer.total),
                    "outcome": JSONValue(transfer.outcome?.word), "detail": JSONValue(transfer.detail),
                ]
            )
        case .notice(let text, _, _): return ("notice", ["text": .string(text)])
        case .chatMessageChanged, .lifetimeChanged, .messagesExpired, .messageChanged, .received, .receiving: return nil
        }
    }
}
