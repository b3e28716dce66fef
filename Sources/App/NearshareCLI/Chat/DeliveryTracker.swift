internal import Nearshare
internal import NearshareService

/// The delivery states of the lines of a piped conversation. A value.
struct DeliveryTracker: Sendable {
    let conversation: Conversation
    /// The state that each line has to reach.
    let goal: MessageStatus
    /// States of the accepted lines that have not reached the goal, by id.
    private(set) var open: [String: MessageStatus] = [:]
    private(set) var reachedCount = 0
    /// Reasons of the lines that failed.
    private(set) var failures: [String] = []
    private(set) var hasEnded = false
    /// States of lines whose ids are not known yet: an event may arrive before the reply.
    private var early: [String: MessageStatus] = [:]
    private var reasons: [String: String] = [:]

    /// Limit on early states.
    private static let maximumEarly = 10_000

    init(_ conversation: Conversation, goal: MessageStatus) {
        self.conversation = conversation
        self.goal = goal
    }

    var isDone: Bool { hasEnded && open.isEmpty }

    /// Records that the node has accepted a line.
    mutating func accepted(_ id: String) {
        open[id] = .waiting
        if let mark = early.removeValue(forKey: id) { self.mark(id, mark) }
    }

    /// Records that the node has rejected a line.
    mutating func refused(_ reason: String) {
        failures.append(reason)
    }

    /// Records the end of the input.
    mutating func end() {
        hasEnded = true
    }

    mutating func handle(_ event: ControlEvent) {
        switch event {
        case .marked(let id, conversation, let mark, let reason):
            if let reason, open[id] != nil { reasons[id] = reason }
            self.mark(id, mark)
        case .entry(let entry): update(with: entry)
        default: break
        }
    }

    /// Reads the state that the node has stored: an event may have been lost.
    mutating func update(with entry: ChatMessage) {
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
            failures.append(reasons.removeValue(forKey: id) ?? "could not be delivered")
        } else if mark >= goal {
            open[id] = nil
            reachedCount += 1
        } else {
            open[id] = mark
        }
    }

    /// The failure of the command; nil for success.
    /// - Parameters:
    ///   - name: the receiver's name, escaped for a terminal.
    ///   - isNear: whether the receiver is in range.
    ///   - seconds: the timeout, when it has expired.
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
        let (verb, object) = open.count == 1 ? ("is", "it") : ("are", "them")
        guard waiting > 0 else {
            return CommandFailure(
                .timedOut, "\(lines) \(verb) sent, but not acknowledged by \(name); use a longer --timeout to wait longer")
        }
        let reason =
            if case .publicRoom = conversation {
                "no peers nearby; stored, and sent when a peer is in range"
            } else if isNear {
                "\(name) is near, but has not accepted \(object); stored, and sent again later"
            } else {
                "neither \(name) nor a relaying node is in range; stored, and sent when one is"
            }
        return CommandFailure(.timedOut, "\(lines) \(verb) not sent yet: \(reason)")
    }
}
