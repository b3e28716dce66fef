/// The reason why an operation on a stream failed.
public enum StreamError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The stream was closed locally, or its link has ended.
    case notOpen
    /// The peer has reset the stream.
    case reset(StreamResetReason)
    /// Too many streams are open on the link.
    case tooMany
    /// The program has finished its direction.
    case finished

    public var description: String {
        switch self {
        case .notOpen: "the stream is closed"
        case .reset(.cancelled): "the peer has reset the stream"
        case .reset(.refused): "the peer does not accept streams of this name"
        case .reset(.streamLimit): "the peer has too many open streams"
        case .tooMany: "too many streams are open; close some first"
        case .finished: "this direction of the stream is already finished"
        }
    }
}
