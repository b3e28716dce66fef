package import NearshareBase

/// The framing of messages on a byte stream: length u32, then that many bytes (`docs/PROTOCOL.md`, section 12.4).
package struct MessageFraming: Sendable {
    /// Limit on a framed message: a session message with the fields of a ``MessageChannel``.
    package static let maximumByteCount = SessionMessage.maximumByteCount + 24

    /// The start of an incomplete message.
    private var buffer: [UInt8] = []

    /// Starts at the beginning of a stream.
    package init() {}

    /// Appends a framed message to the bytes of a stream.
    /// - Parameter message: At most ``maximumByteCount`` bytes.
    package static func append(_ message: [UInt8], to bytes: inout [UInt8]) {
        // Safe: the type of the message throws for more.
        precondition(message.count <= maximumByteCount)
        withUnsafeBytes(of: UInt32(message.count).bigEndian) { bytes.append(contentsOf: $0) }
        bytes.append(contentsOf: message)
    }

    /// Processes bytes of the stream.
    /// - Returns: The messages that these bytes complete.
    /// - Throws: ``MalformedInput`` for a length above ``maximumByteCount``, before the message is buffered.
    package mutating func receive(_ bytes: some Collection<UInt8>) throws(MalformedInput) -> [[UInt8]] {
        // Usually the bytes are whole messages, and the buffer is empty.
        if buffer.isEmpty { buffer = Array(bytes) } else { buffer.append(contentsOf: bytes) }
        var messages: [[UInt8]] = []
        var position = 0
        while let length = UInt32(bigEndianBytes: buffer[position...].prefix(4)) {
            let count = Int(length)
            guard count <= Self.maximumByteCount else {
                throw MalformedInput("message: it is longer than \(Self.maximumByteCount) bytes")
            }
            guard buffer.count - position - 4 >= count else { break }
            messages.append(Array(buffer[position + 4..<position + 4 + count]))
            position += 4 + count
        }
        buffer.removeFirst(position)
        return messages
    }

    /// Whether no message is incomplete, so that the stream may end.
    package var isBetweenMessages: Bool { buffer.isEmpty }
}
