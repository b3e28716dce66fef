/// The reason why an operation on a stream failed.
public enum StreamError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The stream was closed on this side, or finished for writing, or its link has ended.
    case notOpen
    /// The peer has reset the stream.
    case reset
    /// The peer's program does not accept streams of this name.
    case refused
    /// Too many streams are open on the link.
    case tooMany

    public var description: String {
        switch self {
        case .notOpen: "the stream is closed"
        case .reset: "the peer has reset the stream"
        case .refused: "the peer does not accept streams of this name"
        case .tooMany: "too many streams are open; close some first"
        }
    }

    init(_ reason: StreamResetReason) {
        switch reason {
        case .cancelled: self = .reset
        case .refused: self = .refused
        case .streamLimit: self = .tooMany
        }
    }
}
