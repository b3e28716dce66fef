/// The reason why a stream is reset. The raw values are those of the wire format.
public enum StreamResetReason: UInt8, Sendable, Hashable {
    /// The program no longer uses the stream.
    case cancelled = 0
    /// No program accepts streams of this name or purpose.
    case refused = 1
    /// Too many streams are open.
    case tooMany = 2
}
