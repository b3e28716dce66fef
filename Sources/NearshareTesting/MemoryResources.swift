public import NearshareBase
public import NearshareEdges

/// The in-memory twin of files to send.
public struct MemorySource: ResourceSource {
    private let content: MemoryContent

    public init(_ content: MemoryContent) {
        self.content = content
    }

    public var offer: Offer { content.offer }

    public func makeReader() throws(StorageError) -> any ResourceReader { MemoryReader(content) }
}

private final class MemoryReader: ResourceReader {
    private var provider: MemoryProvider

    init(_ content: MemoryContent) {
        provider = MemoryProvider(content)
    }

    func nextEntry() throws(StorageError) -> EntryHeader? { provider.nextEntry() }
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int { provider.read(into: buffer) }
    func seek(to offset: UInt64) throws(StorageError) { provider.seek(to: offset) }
    func cancel() {}
}

/// The in-memory twin of an inbox's sink. It can be made slow: it then stops at a point until it is let go on.
public final class MemorySink: ResourceSink, Sendable {
    public enum End: Sendable, Hashable {
        case finished
        case suspended
        case discarded
    }

    private struct State {
        var receiver: MemoryReceiver
        var holdsAfter: Int
        var written = 0
        var end: End?
    }

    private let state: Monitor<State>
    private let heldContinuation: AsyncStream<Void>.Continuation
    /// Gives a value each time that a write begins to wait.
    public let held: AsyncStream<Void>

    /// - Parameters:
    ///   - kept: what an earlier try has left.
    ///   - holdsAfter: so many bytes are taken before it waits for ``goOn()``.
    public init(kept: MemoryReceiver = MemoryReceiver(), holdsAfter: Int = .max) {
        state = Monitor(State(receiver: kept, holdsAfter: holdsAfter))
        (held, heldContinuation) = AsyncStream.makeStream()
    }

    public func goOn() {
        state.update { $0.holdsAfter = .max }
    }

    public var received: MemoryReceiver { state.withLock { $0.receiver } }
    public var end: End? { state.withLock { $0.end } }

    public func resumePoint() throws(StorageError) -> ResumePoint { state.withLock { $0.receiver.resumePoint } }

    public func resume(at point: ResumePoint) throws(StorageError) {
        state.withLock { $0.receiver.start(completeEntries: point.completeEntries, offset: point.partialSize) }
    }

    public func begin(_ entry: EntryHeader, at offset: UInt64, entriesDigest: [UInt8]) throws(StorageError) {
        state.withLock { $0.receiver.begin(entry, at: offset, digest: entriesDigest) }
    }

    public func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        if state.withLock({ $0.written >= $0.holdsAfter }) { heldContinuation.yield() }
        state.wait { $0.written >= $0.holdsAfter ? nil : () }
        state.withLock { state in
            state.receiver.content(bytes)
            state.written += bytes.count
        }
    }

    public func endEntry() throws(StorageError) {
        state.withLock { $0.receiver.endEntry() }
    }

    public func finish() throws(StorageError) -> [DeliveredItem] {
        state.withLock { $0.end = .finished }
        return []
    }

    public func suspend() { state.withLock { $0.end = .suspended } }
    public func discard() { state.withLock { $0.end = .discarded } }
}
