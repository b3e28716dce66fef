internal import Nearshare
internal import NearshareBundles

/// Joins the parts of long chat lines, so that a list shows each line as one message.
struct ChatPartJoiner: Sendable {
    private struct Line: Sendable {
        let sender: PeerID
        let id: String
        let count: Int
        /// The parts that have arrived, by their index.
        var parts: [Int: (message: ReceivedMessage, text: String)] = [:]

        /// The messages of the parts, in the order of arrival.
        var messages: [ReceivedMessage] { parts.values.map(\.message).sorted { $0.number < $1.number } }
    }

    /// The lines of which parts are missing, the oldest first.
    private var lines: [Line] = []

    /// Limit on the lines of which parts are missing. Beyond it, the parts of the oldest one are messages of their own.
    static let capacity = 16

    /// Adds the next message.
    /// - Returns: the messages to show now. A line that is whole has the number and the times of the part that came last.
    mutating func add(_ message: ReceivedMessage) -> [ReceivedMessage] {
        // A value with other members than those of a part is not one.
        guard let sender = message.sender, case .structured(let value) = message.content, let content = ChatContent(value),
            content.value == value, case .part(let id, let index, let count, let text, _) = content
        else { return [message] }
        guard let position = lines.firstIndex(where: { $0.sender == sender && $0.id == id && $0.count == count }) else {
            var line = Line(sender: sender, id: id, count: count)
            line.parts[index] = (message, text)
            lines.append(line)
            return lines.count > Self.capacity ? lines.removeFirst().messages : []
        }
        lines[position].parts[index] = (message, text)
        guard lines[position].parts.count == count else { return [] }
        let texts = lines.remove(at: position).parts.sorted { $0.key < $1.key }.map(\.value.text)
        var whole = message
        whole.content = .structured(ChatContent.line(id: id, text: texts.joined()).value)
        return [whole]
    }

    /// Removes the parts of the lines that are not whole, in the order of arrival.
    mutating func drain() -> [ReceivedMessage] {
        defer { lines = [] }
        return lines.flatMap(\.messages).sorted { $0.number < $1.number }
    }
}
