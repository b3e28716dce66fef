package import NearshareBase

/// Messages on a byte stream, one behind the other: length u32, then so many bytes (`docs/PROTOCOL.md`, section 11).
package struct MessageFraming: Sendable {
    /// A message and what a channel says of it.
    package static let maximumByteCount = SessionMessage.maximumByteCount + 24

    private var held: [UInt8] = []

    /// At the beginning of a stream.
    package init() {}

    /// Adds one message to what goes out on the stream.
    /// - Parameter message: at most ``maximumByteCount`` bytes.
    package static func append(_ message: [UInt8], to bytes: inout [UInt8]) {
        precondition(message.count <= maximumByteCount)
        withUnsafeBytes(of: UInt32(message.count).bigEndian) { bytes.append(contentsOf: $0) }
        bytes.append(contentsOf: message)
    }

    /// - Returns: the messages that are complete with these bytes.
    /// - Throws: when one is said to be longer than ``maximumByteCount``, before it is awaited.
    package mutating func receive(_ bytes: some Collection<UInt8>) throws(MalformedInput) -> [[UInt8]] {
        // Most often whole messages come.
        if held.isEmpty { held = Array(bytes) } else { held.append(contentsOf: bytes) }
        var messages: [[UInt8]] = []
        var position = 0
        while held.count - position >= 4 {
            let count = held[position..<position + 4].reduce(0) { $0 << 8 | Int($1) }
            guard count <= Self.maximumByteCount else {
                throw MalformedInput("message: it is longer than \(Self.maximumByteCount) bytes")
            }
            guard held.count - position - 4 >= count else { break }
            messages.append(Array(held[position + 4..<position + 4 + count]))
            position += 4 + count
        }
        held.removeFirst(position)
        return messages
    }

    /// Nothing is missing of a message: where a stream may end.
    package var isBetweenMessages: Bool { held.isEmpty }
}
