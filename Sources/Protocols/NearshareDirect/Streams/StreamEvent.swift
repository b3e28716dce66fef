/// An event on the streams of a link.
package enum StreamEvent: Sendable, Hashable {
    /// The peer has opened a stream.
    case opened(StreamID, StreamPurpose, StreamName)
    /// Bytes, or the end, can be read.
    case readable(StreamID)
    /// The stream has room to write again.
    case writable(StreamID)
    /// All bytes and the end were sent.
    case finished(StreamID)
    /// The peer has reset the stream; no further event follows.
    case reset(StreamID, StreamResetReason)
}
