internal import Nearshare
internal import NearshareBundles

/// Joins the parts of long chat lines, so that a list shows each line as one message.
struct ChatPartJoiner: Sendable {
    private struct Line: Sendable {
        let sender: PeerID
        let id: String
        let count: Int
        /// The time from which the parts are messages of their own.
        let deadline: MonotonicInstant
        /// The parts that have arrived, by their index.
        var parts: [Int: (message: ReceivedMessage, text: String)] = [:]
        /// Whether the parts were returned as messages of their own, so that later ones are returned at once.
        var isShown = false

        /// The messages of the parts, in the order of arrival.
        var messages: [ReceivedMessage] { parts.values.map(\.message).sorted { $0.number < $1.number } }
    }

    /// The lines of which parts are missing, the oldest first: those that are shown precede the others.
    private var lines: [Line] = []
    private let timeout: Duration

    /// Limit on the lines of which parts are missing. Beyond it, the parts of the oldest one are messages of their own.
    static let capacity = 16

    /// - Parameter timeout: time from the first part of a line until its parts are messages of their own.
    init(timeout: Duration) { self.timeout = timeout }

    /// The time of the next call of ``drainExpired(at:)``; nil while no line waits for its parts.
    var deadline: MonotonicInstant? { lines.first { !$0.isShown }?.deadline }

    /// Adds the next message.
    /// - Returns: the messages to show now. A line that is whole has the number and the times of the part that came last.
    mutating func add(_ message: ReceivedMessage, at now: MonotonicInstant) -> [ReceivedMessage] {
        // A value with other members than those of a part is not one.
        guard let sender = message.sender, case .structured(let value) = message.content, let content = ChatContent(value),
            content.value == value, case .part(let id, let index, let count, let text, _) = content
        else { return [message] }
        guard let position = lines.firstIndex(where: { $0.sender == sender && $0.id == id && $0.count == count }) else {
            var line = Line(sender: sender, id: id, count: count, deadline: now + timeout)
            line.parts[index] = (message, text)
            lines.append(line)
            guard lines.count > Self.capacity else { return [] }
            let oldest = lines.removeFirst()
            return oldest.isShown ? [] : oldest.messages
        }
        if let first = lines[position].parts[index] {
            // A repetition; another text in its place is a message of its own, so that the sender hides neither.
            return first.text.utf8.elementsEqual(text.utf8) ? [] : [message]
        }
        lines[position].parts[index] = (message, text)
        let isWhole = lines[position].parts.count == count
        if lines[position].isShown {
            if isWhole { lines.remove(at: position) }
            return [message]
        }
        guard isWhole else { return [] }
        let texts = lines.remove(at: position).parts.sorted { $0.key < $1.key }.map(\.value.text)
        var whole = message
        whole.content = .structured(ChatContent.line(id: id, text: texts.joined()).value)
        return [whole]
    }

    /// Returns the parts of all lines that are not whole, each once, in the order of arrival.
    mutating func drain() -> [ReceivedMessage] { show { _ in true } }

    /// Returns the parts of the lines whose time is over, each once, in the order of arrival.
    mutating func drainExpired(at now: MonotonicInstant) -> [ReceivedMessage] { show { $0.deadline <= now } }

    private mutating func show(where isDue: (Line) -> Bool) -> [ReceivedMessage] {
        var messages: [ReceivedMessage] = []
        for position in lines.indices where !lines[position].isShown && isDue(lines[position]) {
            lines[position].isShown = true
            messages += lines[position].messages
        }
        return messages.sorted { $0.number < $1.number }
    }
}
