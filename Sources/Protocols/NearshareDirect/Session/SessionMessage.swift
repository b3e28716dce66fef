/// A message of a session, as a program sends and receives it.
public struct SessionMessage: Sendable, Hashable {
    /// The kind of content. The raw values are those of the wire format.
    package enum Kind: UInt8, Sendable, Hashable {
        /// Bytes whose format the programs have agreed on.
        case bytes = 0
        /// A structured value.
        case structured = 1
        /// A value of a named channel, which the receiving program has not opened.
        case channel = 2
    }

    /// Limit on a message. Larger content is sent over a stream or a transfer.
    package static let maximumByteCount = 1 << 20

    /// The kind of content.
    package var kind: Kind
    /// The content, at most 1 MiB: what the program sends, or the encoding of a structured value.
    public var bytes: [UInt8]

    /// Creates a message of bytes whose format the programs have agreed on.
    public init(bytes: [UInt8]) {
        self.init(kind: .bytes, bytes: bytes)
    }

    package init(kind: Kind, bytes: [UInt8]) {
        self.kind = kind
        self.bytes = bytes
    }

    /// The cost of the message in a window. The fixed part bounds the number of short messages.
    var windowByteCount: Int { bytes.count + Self.windowOverheadByteCount }

    static let windowOverheadByteCount = 64
}
