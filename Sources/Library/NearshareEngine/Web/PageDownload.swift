internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces
internal import NearshareWeb

/// The content that one browser receives, in sealed chunks that it fetches, or without encryption.
final class PageDownload: Sendable {
    /// The content of a page, which each of its browsers may receive.
    struct Content: Sendable {
        let sources: [any ResourceSource]
        let rateLimit: TransmissionLimit?

        /// - Parameter sources: of one entry each.
        init(_ sources: [any ResourceSource], rateLimit: TransmissionLimit?) {
            (self.sources, self.rateLimit) = (sources, rateLimit)
        }

        var share: PageShare { PageShare(sources.compactMap(\.offer.items.first).map { PageShare.Item($0) }) }

        /// The size of all items; nil for standard input.
        var totalSize: UInt64? {
            sources.reduce(UInt64?(0)) { sum, source in
                sum.flatMap { sum in source.offer.totalSize.map { sum.addingClamped($0) } }
            }
        }
    }

    private struct State {
        /// The bytes of each item that the browser has asked for, or received without encryption.
        var doneByteCounts: [UInt64]
        var links: [ObjectIdentifier: any StreamLink] = [:]
        var lastUse: MonotonicInstant
        var isEnded = false
    }

    /// Timeout of a silent browser, such as that of a phone with a locked screen, after which its transfer ends. Until then another
    /// request of the browser needs no second answer.
    static let silenceTimeout = Duration.seconds(600)

    let transfer: Transfer
    private let items: [PageItemReader]
    private let rateLimit: TransmissionLimit?
    private let clock: @Sendable () -> MonotonicInstant
    private let state: Monitor<State>

    init(_ content: Content, transfer: Transfer, clock: @escaping @Sendable () -> MonotonicInstant) {
        (self.transfer, self.clock) = (transfer, clock)
        items = content.sources.map { PageItemReader($0) }
        rateLimit = content.rateLimit
        state = Monitor(State(doneByteCounts: content.sources.map { _ in 0 }, lastUse: clock()))
    }

    /// The time at which the transfer ends if the browser stays silent.
    var silenceDeadline: MonotonicInstant { state.withLock { $0.lastUse } + Self.silenceTimeout }

    /// Reads a chunk of an item.
    /// - Parameter item: from 1.
    /// - Returns: nil for one that does not exist.
    func chunk(_ index: UInt32, of item: UInt32) throws(StorageError) -> (content: [UInt8], isLast: Bool)? {
        guard let chunk = try items[Int(item) - 1].chunk(at: index) else { return nil }
        waitForRate(chunk.content.count)
        record(UInt64(index) * UInt64(PageShare.chunkByteCount) + UInt64(chunk.content.count), of: item)
        return chunk
    }

    /// Writes a part of an item to a connection.
    /// - Returns: whether all of it was written.
    func write(_ bytes: Range<UInt64>, of item: UInt32, to connection: PageConnection) -> Bool {
        let link = connection.link
        let isOpen = state.update { state in
            if !state.isEnded { state.links[ObjectIdentifier(link)] = link }
            return !state.isEnded
        }
        guard isOpen else { return false }
        defer { state.update { $0.links[ObjectIdentifier(link)] = nil } }
        var position = bytes.lowerBound
        do {
            let reader = try items[Int(item) - 1].makeReader(from: position)
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: PageShare.chunkByteCount, alignment: 64)
            defer { buffer.deallocate() }
            while position < bytes.upperBound {
                let requestedCount = Int(min(UInt64(buffer.count), bytes.upperBound - position))
                let count = try reader.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<requestedCount]))
                guard count > 0 else { return false }
                waitForRate(count)
                try connection.write(UnsafeRawBufferPointer(rebasing: buffer[..<count])) { acceptedCount in
                    position += UInt64(acceptedCount)
                    connection.touch()
                    record(position, of: item)
                }
            }
            return true
        } catch {
            return false
        }
    }

    /// Records that the browser has an item whole.
    func recordReceipt(of item: UInt32) { items[Int(item) - 1].release() }

    /// Ends reading and writing.
    func end() {
        let links = state.update { state in
            state.isEnded = true
            defer { state.links = [:] }
            return Array(state.links.values)
        }
        for link in links { link.close() }
        for item in items { item.cancel() }
    }

    private func record(_ byteCount: UInt64, of item: UInt32) {
        let now = clock()
        let sum: UInt64 = state.update { state in
            state.lastUse = now
            state.doneByteCounts[Int(item) - 1] = max(state.doneByteCounts[Int(item) - 1], byteCount)
            return state.doneByteCounts.reduce(0) { $0.addingClamped($1) }
        }
        transfer.recordProgress(to: sum, entries: 0)
    }

    /// Waits until a number of bytes may be sent.
    private func waitForRate(_ count: Int) {
        guard let time = rateLimit?.reserve(UInt64(count), now: clock()) else { return }
        state.waitUntilReady { state -> MonitorWait<Void> in
            !state.isEnded && clock() < time ? .waiting(untilNanoseconds: time.nanoseconds) : .ready(())
        }
    }
}

/// Reads one item in chunks, which a browser fetches roughly in order. The latest chunks are kept: a browser fetches several at a
/// time, and repeats those whose response was lost.
private final class PageItemReader: Sendable {
    /// Used by one thread at a time, but cancelled from any.
    private struct Reader: @unchecked Sendable {
        let reader: any ResourceReader
    }

    private struct State {
        var reader: Reader?
        /// The index of the chunk that the reader reads next.
        var next: UInt32 = 0
        var kept: [(index: UInt32, content: [UInt8])] = []
        /// The number of chunks, once it is known.
        var count: UInt32?
    }

    /// Limit on chunks in memory: one more than a browser fetches at a time.
    private static let maximumKeptCount = 4

    private let source: any ResourceSource
    private let size: UInt64?
    private let state: Monitor<State>
    /// Apart from the state, whose lock is held while a stream is read.
    private let current = Monitor<Reader?>(nil)

    init(_ source: any ResourceSource) {
        self.source = source
        size = source.offer.totalSize
        var state = State()
        let chunkSize = UInt64(PageShare.chunkByteCount)
        state.count = size.map { max(1, UInt32(clamping: $0 / chunkSize + ($0 % chunkSize == 0 ? 0 : 1))) }
        self.state = Monitor(state)
    }

    /// A reader of the source's entry at an offset.
    func makeReader(from offset: UInt64) throws(StorageError) -> any ResourceReader {
        let reader = try source.makeReader()
        guard try reader.nextEntry() != nil else { throw StorageError(.changed, "the content has changed; send it again") }
        if offset > 0 { try reader.seek(to: offset) }
        return reader
    }

    /// - Returns: nil for a chunk that does not exist.
    func chunk(at index: UInt32) throws(StorageError) -> (content: [UInt8], isLast: Bool)? {
        try state.update { (state) throws(StorageError) -> ([UInt8], Bool)? in
            if let kept = state.kept.first(where: { $0.index == index }) { return (kept.content, index + 1 == state.count) }
            guard state.count.map({ index < $0 }) ?? true else { return nil }
            let isNear = index >= state.next && index - state.next < Self.maximumKeptCount
            // A stream cannot be read from another offset, and throws.
            if state.reader == nil || !isNear {
                let reader = Reader(reader: try makeReader(from: UInt64(index) * UInt64(PageShare.chunkByteCount)))
                (state.reader, state.next) = (reader, index)
                current.update { $0 = reader }
            }
            while state.next <= index, state.count.map({ state.next < $0 }) ?? true { try readNext(&state) }
            guard let last = state.kept.last, last.index == index else { return nil }
            return (last.content, index + 1 == state.count)
        }
    }

    private func readNext(_ state: inout State) throws(StorageError) {
        guard let reader = state.reader?.reader else { return }
        let limit = PageShare.maximumInMemoryByteCount / UInt64(PageShare.chunkByteCount)
        guard size != nil || UInt64(state.next) < limit else {
            throw StorageError(
                .overLimit,
                "a page takes at most \(PageShare.maximumInMemoryByteCount.formattedByteCount) of standard input; send a file instead"
            )
        }
        var content = [UInt8](repeating: 0, count: PageShare.chunkByteCount)
        var count = 0
        while count < content.count {
            let added = try Self.read(into: &content, from: count, reader)
            if added == 0 { break }
            count += added
        }
        content.removeLast(content.count - count)
        if size == nil, count < PageShare.chunkByteCount { state.count = state.next + 1 }
        state.kept.append((state.next, content))
        if state.kept.count > Self.maximumKeptCount { state.kept.removeFirst() }
        state.next += 1
    }

    private static func read(
        into content: inout [UInt8], from start: Int, _ reader: any ResourceReader
    ) throws(StorageError) -> Int {
        var result = Result<Int, StorageError>.success(0)
        content.withUnsafeMutableBytes { bytes in
            do throws(StorageError) {
                result = .success(try reader.read(into: UnsafeMutableRawBufferPointer(rebasing: bytes[start...])))
            } catch {
                result = .failure(error)
            }
        }
        return try result.get()
    }

    /// Frees the memory of an item that the browser has.
    func release() {
        state.update { state in (state.kept, state.reader) = ([], nil) }
        current.update { $0 = nil }
    }

    func cancel() {
        current.withLock { $0 }?.reader.cancel()
        source.cancel()
    }
}
