public import NearshareBase
internal import NearshareDirect

/// An ordered stream of bytes between two programs, in both directions. Each direction has a flow-control window of 256 KiB:
/// writing waits for the reader. A stream ends with the link that carries it.
///
/// Releasing it without ``finish()`` resets the stream; after ``finish()`` all written bytes still arrive.
public final class ByteStream: Sendable {
    /// The member at the other end.
    public let member: PeerID
    /// The name that the opening program chose, at most 255 bytes. A peer's is untrusted: escape it with
    /// `TerminalText.escaped(_:columns:)` before showing it on a terminal.
    public var name: String { streamName.text }
    let streamName: StreamName
    let id: StreamID
    private let streams: LinkStreams

    init(_ id: StreamID, _ name: StreamName, _ streams: LinkStreams, with member: PeerID) {
        self.id = id
        streamName = name
        self.member = member
        self.streams = streams
    }

    deinit { release() }

    /// Waits for bytes.
    /// - Parameter limit: the largest number of bytes to return, by default 64 KiB; less than 1 counts as 1.
    /// - Returns: 1 to `limit` bytes; nil at the end, also when it is read again. Bytes that arrived before the link ended
    ///   can still be read.
    /// - Throws: `StreamError.reset` when the other side has cut the stream, `.refused` or `.tooMany` when it has not accepted it,
    ///   `.notOpen` when this side has cut it or its link has ended; `CancellationError`.
    public func read(upTo limit: Int = 64 << 10) async throws -> [UInt8]? {
        try await streams.read(id, upTo: Swift.max(limit, 1))
    }

    /// Waits until the flow-control window has accepted all bytes.
    /// - Throws: as ``read(upTo:)``; `StreamError.notOpen` also after ``finish()``.
    public func write(_ bytes: [UInt8]) async throws {
        try await streams.write(bytes, on: id)
    }

    /// Ends the outgoing direction: the other side reads all that was written, then the end. Reading remains possible.
    public func finish() {
        streams.finish(id)
    }

    // MARK: Without waiting

    func read(_ onBytes: @escaping LinkStreams.ReadHandler) throws(MalformedInput) { try streams.read(id, onBytes) }

    func writeWithoutBlocking(
        _ bytes: ArraySlice<UInt8>, wakesWriter: Bool = true, onChange: @escaping LinkStreams.Waker
    ) throws(StreamError) -> Int {
        try streams.writeWithoutBlocking(bytes, on: id, wakesWriter: wakesWriter, onChange: onChange)
    }

    /// Resets a stream that the program does not accept.
    func refuse() {
        streams.reset(id, because: .refused)
    }

    /// Waits until the peer has reset the stream, or the stream, its link or the task has ended.
    /// - Returns: whether the peer has reset it.
    func waitUntilReset() async -> Bool { await streams.waitUntilReset(id) }

    // MARK: On threads that may block

    func readBlocking(upTo limit: Int) throws(StreamError) -> [UInt8]? { try streams.readBlocking(id, upTo: limit) }

    func writeBlocking(_ bytes: ArraySlice<UInt8>) throws(StreamError) { try streams.writeBlocking(bytes, on: id) }

    /// Ends reading, and writing as well; bytes written before ``finish()`` are still sent.
    func release() { streams.abandon(id) }

    /// Ends both directions at once; bytes in flight are lost.
    public func cut() {
        streams.reset(id, because: .cancelled)
    }
}

extension ByteStream: AsyncSequence {
    private struct Portions: AsyncIteratorProtocol {
        let stream: ByteStream

        mutating func next() async throws -> [UInt8]? { try await stream.read() }
    }

    /// The bytes in portions as they arrive, until the end.
    public func makeAsyncIterator() -> some AsyncIteratorProtocol<[UInt8], any Error> { Portions(stream: self) }
}
