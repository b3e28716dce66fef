internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces

/// Several content records in one block of memory, unencrypted, ready to be sealed in place and written at once.
struct FilledBlock: ~Copyable {
    let bytes: UnsafeMutableRawBufferPointer
    /// Size of each frame in bytes; the records are contiguous.
    let frames: [Int]
    /// Whether the block contains the end mark.
    let isLast: Bool
}

/// Reads the content of one transfer on a dedicated thread, packs it into records and passes them to the link, within the
/// receiver's window. It uses a single block of memory: the same thread fills it, seals it and writes it to the link while it
/// is still in the processor's cache.
final class SourcePump: Sendable {
    private struct State {
        var limit: UInt64 = 0
        var isStopped = false
        var reader: Reader?
        var failure: StorageError?
        var changedNames = ChangedNames()
    }

    /// Used by the pump's thread alone, but may be cancelled from any thread.
    private struct Reader: @unchecked Sendable {
        let reader: any ResourceReader
    }

    let wireID: TransferID
    let transfer: Transfer
    private let source: any ResourceSource
    private let clock: @Sendable () -> MonotonicInstant
    private let state = Monitor(State())

    init(
        wireID: TransferID, transfer: Transfer, source: any ResourceSource, clock: @escaping @Sendable () -> MonotonicInstant
    ) {
        self.wireID = wireID
        self.transfer = transfer
        self.source = source
        self.clock = clock
    }

    // MARK: From other threads

    func allow(upTo limit: UInt64) {
        state.update { $0.limit = max($0.limit, limit) }
    }

    func stop() {
        let reader = state.update { state in
            state.isStopped = true
            return state.reader
        }
        reader?.reader.cancel()
    }

    var isStopped: Bool { state.withLock { $0.isStopped } }

    /// Records the receiver's report; it cannot have changed more names than there are.
    func recordChangedNames(_ names: ChangedNames) {
        state.update { $0.changedNames = names.limited(to: source.offer.entryCount) }
    }

    /// Ends the transfer, and reports the outcome to its handle, with the failure of the source if there was one.
    func end(_ outcome: TransferOutcome) {
        stop()
        let (failure, names) = state.withLock { ($0.failure, outcome == .completed ? $0.changedNames : ChangedNames()) }
        transfer.end(TransferResult(outcome: outcome, detail: failure?.description, changedNames: names))
    }

    // MARK: The pump's thread

    /// Runs until all content has been sent, the pump is stopped, or the source fails.
    /// - Parameter send: writes a block to the link; false when no more is wanted.
    func run(from point: ResumePoint, send: (borrowing FilledBlock) -> Bool) throws(StorageError) {
        do {
            try pump(from: point, send: send)
        } catch {
            // A stopped reader throws as a consequence of the stop, not of a failure.
            let isEcho = state.withLock { state in
                if !state.isStopped { state.failure = error }
                return state.isStopped
            }
            if !isEcho { throw error }
        }
    }

    private func pump(from point: ResumePoint, send: (borrowing FilledBlock) -> Bool) throws(StorageError) {
        var provider = try openReader()
        var start = StartPoint.beginning
        if point != .start {
            if let found = try StartPoint.find(point, in: &provider) {
                start = found
            } else {
                provider = try openReader()
            }
        }
        var content = OutgoingContent(from: start)
        transfer.resumes(after: content.contentByteCount, entries: content.finishedEntryCount)
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: BlockSize.maximumByteCount, alignment: 64)
        defer { bytes.deallocate() }
        var size = BlockSize()
        var sent: UInt64 = 0
        while !content.isFinished {
            guard let allowance = waitForAllowance(sent: sent) else { return }
            var left = min(allowance, UInt64(size.contentByteCount))
            var frames: [Int] = []
            var position = 0
            while left > 0, !content.isFinished {
                let header = position + RecordFormat.headerByteCount
                let body = header + RecordFormat.contentHeaderByteCount
                let room = min(RecordFormat.maximumContentByteCount, Int(clamping: left))
                let count = try content.fill(
                    UnsafeMutableRawBufferPointer(rebasing: bytes[body..<body + room]), from: &provider)
                guard count > 0 else { break }
                bytes[header] = FrameType.content
                bytes.storeBytes(of: wireID.rawValue.bigEndian, toByteOffset: header + 1, as: UInt64.self)
                frames.append(RecordFormat.contentHeaderByteCount + count)
                position = body + count + RecordFormat.tagByteCount
                left -= UInt64(count)
                sent += UInt64(count)
                // A source of unknown size returns what it has; the block is not held back for more.
                if count < room { break }
            }
            let begun = clock()
            guard send(FilledBlock(bytes: bytes, frames: frames, isLast: content.isFinished)) else { return }
            size.adapt(toTime: clock() - begun)
            transfer.moved(to: content.contentByteCount, entries: content.finishedEntryCount)
        }
        transfer.enter(.finishing)
    }

    private func openReader() throws(StorageError) -> ReaderProvider {
        let reader = try source.makeReader()
        let isStopped = state.update { state in
            state.reader = Reader(reader: reader)
            return state.isStopped
        }
        if isStopped { reader.cancel() }
        return ReaderProvider(reader: reader, offer: source.offer)
    }

    /// Waits until more content may be sent.
    /// - Returns: the number of bytes of the content stream that may be sent; nil when the pump is to stop.
    private func waitForAllowance(sent: UInt64) -> UInt64? {
        state.waitUntilReady { state -> MonitorWait<UInt64?> in
            if state.isStopped { return .ready(nil) }
            return state.limit > sent ? .ready(state.limit - sent) : .waiting()
        }
    }
}

/// Size of one write to a link, adapted to its speed: at most the size of a processor cache, and less on a slow link, where a
/// control frame would wait behind it for seconds.
struct BlockSize {
    private static let records = 4
    private static let minimum = 16 << 10
    private static let maximum = records * RecordFormat.maximumContentByteCount
    static let maximumByteCount = records * RecordFormat.maximumRecordByteCount

    private(set) var contentByteCount = maximum

    /// Adapts the size.
    /// - Parameter time: the time that writing the last block took.
    mutating func adapt(toTime time: Duration) {
        if time > .milliseconds(200) {
            contentByteCount = max(Self.minimum, contentByteCount / 2)
        } else if time < .milliseconds(50) {
            contentByteCount = min(Self.maximum, contentByteCount * 2)
        }
    }
}

/// Adapts a resource reader to the content stream, and checks it against the offer: a folder that has changed since then is a
/// failure of the source, not a violation for the receiver to find.
private struct ReaderProvider: ContentProvider {
    let reader: any ResourceReader
    let offer: Offer
    private var entryCount: UInt64 = 0
    private var byteCount: UInt64 = 0

    init(reader: any ResourceReader, offer: Offer) {
        self.reader = reader
        self.offer = offer
    }

    mutating func nextEntry() throws(StorageError) -> EntryHeader? {
        let header = try reader.nextEntry()
        if let header {
            entryCount += 1
            byteCount += header.size ?? 0
        }
        let isBeyond = entryCount > offer.entryCount || byteCount > offer.totalSize ?? .max
        let isShort = header == nil && (entryCount < offer.entryCount || byteCount < offer.totalSize ?? 0)
        guard !isBeyond, !isShort else {
            throw StorageError(.changed, "the content has changed since it was offered; send it again")
        }
        return header
    }

    mutating func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
        try reader.read(into: buffer)
    }

    mutating func seek(to offset: UInt64) throws(StorageError) { try reader.seek(to: offset) }
}
