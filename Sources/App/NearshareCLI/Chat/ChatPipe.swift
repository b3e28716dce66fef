internal import Nearshare
internal import NearshareService

/// What becomes of the lines that came by a pipe, as a value.
struct ChatPipe: Sendable {
    let conversation: Conversation
    /// What each line has to come to.
    let goal: MessageStatus
    /// Lines that the node has, and how far they have come, by their ids.
    private(set) var open: [String: MessageStatus] = [:]
    private(set) var reachedCount = 0
    /// Why lines will not arrive.
    private(set) var failures: [String] = []
    private(set) var hasEnded = false
    /// Marks of lines whose ids are not known yet: an event may overtake the answer.
    private var early: [String: MessageStatus] = [:]
    private var reasons: [String: String] = [:]

    /// As many lines' marks are kept while one answer is awaited.
    private static let maximumEarly = 10_000

    init(_ conversation: Conversation, goal: MessageStatus) {
        self.conversation = conversation
        self.goal = goal
    }

    var isDone: Bool { hasEnded && open.isEmpty }

    /// The node has taken a line.
    mutating func accepted(_ id: String) {
        open[id] = .waiting
        if let mark = early.removeValue(forKey: id) { self.mark(id, mark) }
    }

    /// The node has not taken it.
    mutating func refused(_ reason: String) {
        failures.append(reason)
    }

    /// No line follows.
    mutating func end() {
        hasEnded = true
    }

    mutating func take(_ event: ControlEvent) {
        switch event {
        case .marked(let id, conversation, let mark, let reason):
            if let reason, open[id] != nil { reasons[id] = reason }
            self.mark(id, mark)
        case .entry(let entry): take(entry)
        default: break
        }
    }

    /// Lines as the node has stored them: an event may have been lost.
    mutating func take(_ entry: ChatMessage) {
        if entry.isOurs, entry.conversation == conversation { mark(entry.id, entry.status) }
    }

    private mutating func mark(_ id: String, _ mark: MessageStatus) {
        guard let known = open[id] else {
            if hasEnded || early.count >= Self.maximumEarly { early.removeAll() }
            if mark > (early[id] ?? .waiting) { early[id] = mark }
            return
        }
        guard mark > known else { return }
        if mark == .failed {
            open[id] = nil
            failures.append(reasons.removeValue(forKey: id) ?? "it could not be delivered")
        } else if mark >= goal {
            open[id] = nil
            reachedCount += 1
        } else {
            open[id] = mark
        }
    }

    /// What is to be complained about.
    /// - Parameters:
    ///   - name: the receiver's, fit for a terminal.
    ///   - isNear: the receiver is there, so only they can be waited for.
    ///   - seconds: that were waited, when they were not enough.
    func failure(name: String, isNear: Bool = false, timedOutAfter seconds: Double? = nil) -> CommandFailure? {
        if let reason = failures.first {
            let count = failures.count
            let text = TerminalText.escaped(reason, columns: 400)
            guard reachedCount + open.count > 0 else { return CommandFailure(.failure, "not sent: \(text)") }
            return CommandFailure(.partly, "\(count) of \(count + reachedCount + open.count) lines were not sent: \(text)")
        }
        guard seconds != nil, !open.isEmpty else { return nil }
        let waiting = open.values.count { $0 == .waiting }
        let lines = open.count == 1 ? "the message" : "\(open.count) messages"
        let (verb, object) = open.count == 1 ? ("waits", "it") : ("wait", "them")
        guard waiting > 0 else {
            return CommandFailure(
                .timedOut, "\(lines) went out, but \(name) has not acknowledged so far; a longer --timeout waits longer")
        }
        let reason =
            if case .everybody = conversation {
                "nobody is near who could hear \(object); kept, and sent when somebody comes"
            } else if isNear {
                "\(name) is near, but has not taken \(object) so far; kept, and sent again when they are there"
            } else {
                "\(name) is not near, and nobody who carries \(object); kept, and sent when somebody comes"
            }
        return CommandFailure(.timedOut, "\(lines) \(verb): \(reason)")
    }
}
