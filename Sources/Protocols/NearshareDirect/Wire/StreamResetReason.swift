/// The reason why a stream is reset. The raw values are those of the wire format (docs/PROTOCOL.md, section 11); other values
/// count as ``cancelled``.
package enum StreamResetReason: UInt8, Sendable, Hashable {
    /// The program no longer uses the stream.
    case cancelled = 0
    /// No program accepts streams of this name or purpose.
    case refused = 1
    /// The limit on open streams is reached.
    case streamLimit = 2
}
