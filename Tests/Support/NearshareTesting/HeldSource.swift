package import NearshareBase
package import NearshareInterfaces

/// A source in memory whose content is not there before ``release()``.
package final class HeldSource: ResourceSource {
    private final class Reader: ResourceReader {
        private let inner: any ResourceReader
        private let source: HeldSource

        init(_ inner: any ResourceReader, of source: HeldSource) {
            self.inner = inner
            self.source = source
        }

        func nextEntry() throws(StorageError) -> EntryHeader? { try inner.nextEntry() }

        func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
            source.heldContinuation.yield()
            source.isReleased.wait { $0 ? () : nil }
            return try inner.read(into: buffer)
        }

        func seek(to offset: UInt64) throws(StorageError) { try inner.seek(to: offset) }

        func cancel() {
            source.release()
            inner.cancel()
        }
    }

    private let content: InMemorySource
    private let isReleased = Monitor(false)
    private let heldContinuation: AsyncStream<Void>.Continuation
    /// Yields a value each time a read begins to wait.
    package let held: AsyncStream<Void>

    package init(_ content: MemoryContent) {
        self.content = InMemorySource(content)
        (held, heldContinuation) = AsyncStream.makeStream()
    }

    package var offer: Offer { content.offer }

    package func makeReader() throws(StorageError) -> any ResourceReader { Reader(try content.makeReader(), of: self) }

    /// Lets this and all further reads return content.
    package func release() { isReleased.update { $0 = true } }
}
