package import NearshareBase
package import NearshareInterfaces

extension InMemorySource {
    /// The entries and the offer of `content`.
    package init(_ content: MemoryContent) {
        self.init(content.entries.map { Entry($0.header, content: $0.bytes) }, offer: content.offer)
    }
}

/// The in-memory counterpart of an inbox's sink. It can block at a position until ``release()``.
package final class InMemorySink: ResourceSink, Sendable {
    package enum End: Sendable, Hashable {
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
    /// Yields a value each time a write begins to wait.
    package let held: AsyncStream<Void>

    /// - Parameters:
    ///   - kept: what an earlier try has left.
    ///   - holdsAfter: so many bytes are taken before it waits for ``release()``.
    package init(kept: MemoryReceiver = MemoryReceiver(), holdsAfter: Int = .max) {
        state = Monitor(State(receiver: kept, holdsAfter: holdsAfter))
        (held, heldContinuation) = AsyncStream.makeStream()
    }

    /// Ends the wait, and lets all further writes pass.
    package func release() {
        state.update { $0.holdsAfter = .max }
    }

    package var received: MemoryReceiver { state.withLock { $0.receiver } }
    package var end: End? { state.withLock { $0.end } }

    package func resumePoint() throws(StorageError) -> ResumePoint { state.withLock { $0.receiver.resumePoint } }

    package func resume(at point: ResumePoint) throws(StorageError) {
        state.withLock { $0.receiver.start(completeEntries: point.completeEntries, offset: point.partialSize) }
    }

    package func begin(_ entry: EntryHeader, at offset: UInt64, entriesDigest: [UInt8]) throws(StorageError) {
        state.withLock { $0.receiver.begin(entry, at: offset, digest: entriesDigest) }
    }

    package func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        if state.withLock({ $0.written >= $0.holdsAfter }) { heldContinuation.yield() }
        state.wait { $0.written >= $0.holdsAfter ? nil : () }
        state.withLock { state in
            state.receiver.content(bytes)
            state.written += bytes.count
        }
    }

    package func withdraw(_ entry: EntryHeader) throws(StorageError) {
        state.withLock { $0.receiver.withdraw(entry) }
    }

    package func endEntry() throws(StorageError) {
        state.withLock { $0.receiver.endEntry() }
    }

    package func finish() throws(StorageError) -> [DeliveredItem] {
        state.withLock { $0.end = .finished }
        return []
    }

    package func suspend() { state.withLock { $0.end = .suspended } }
    package func discard() { state.withLock { $0.end = .discarded } }
}
