internal import NearshareBase
internal import NearshareEdges
internal import NearshareSession
internal import NearshareWire

/// Several content records in one block, plain, ready to be sealed in place and written at once.
struct FilledBlock: Sendable {
    let pump: SourcePump
    let block: Block
    /// Bytes of each frame; record n stands right behind record n-1.
    let frames: [Int]
    let contentDone: UInt64
    let entriesDone: UInt64
    /// The end mark is in it.
    let isLast: Bool
}

/// Reads one transfer's content on a thread of its own and packs it into records, as far as the receiver's window and
/// the link allow: never more than ``blocksAhead`` blocks.
final class SourcePump: Sendable {
    private struct State {
        var limit: UInt64 = 0
        var blocksOut = 0
        var isStopped = false
        var reader: Reader?
        var failure: StorageError?
    }

    /// A reader is used by the pump's thread alone, but may be cancelled from any.
    private struct Reader: @unchecked Sendable {
        let reader: any ResourceReader
    }

    /// One that is being written to the link, one that waits for it, one that is being filled.
    private static let blocksAhead = 3
    /// Records in a block: enough that the cost of a system call does not show.
    static let recordsPerBlock = 4

    let wireID: TransferID
    let transfer: Transfer
    private let source: any ResourceSource
    private let pool: BlockPool
    private let state = Monitor(State())

    init(wireID: TransferID, transfer: Transfer, source: any ResourceSource, pool: BlockPool) {
        self.wireID = wireID
        self.transfer = transfer
        self.source = source
        self.pool = pool
    }

    // MARK: From other threads

    func allow(upTo limit: UInt64) {
        state.update { $0.limit = max($0.limit, limit) }
    }

    /// The writer is done with a block.
    func blockReturned() {
        state.update { $0.blocksOut -= 1 }
    }

    func stop() {
        let reader = state.update { state in
            state.isStopped = true
            return state.reader
        }
        reader?.reader.cancel()
    }

    var isStopped: Bool { state.withLock { $0.isStopped } }

    /// The transfer is over; its handle learns how, and why when the source was at fault.
    func end(_ outcome: TransferOutcome) {
        stop()
        let failure = state.withLock { $0.failure }
        transfer.end(TransferResult(outcome: outcome, detail: failure?.description))
    }

    // MARK: The pump's thread

    /// Runs until everything has been handed over, it is stopped, or the source fails.
    func run(from point: ResumePoint, deliver: (FilledBlock) -> Void) throws(StorageError) {
        do {
            try pump(from: point, deliver: deliver)
        } catch {
            // What a stopped reader throws is only the echo of the stop.
            let isEcho = state.withLock { state in
                if !state.isStopped { state.failure = error }
                return state.isStopped
            }
            if !isEcho { throw error }
        }
    }

    private func pump(from point: ResumePoint, deliver: (FilledBlock) -> Void) throws(StorageError) {
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
        var sent: UInt64 = 0
        while !content.isFinished {
            guard let allowance = waitForAllowance(sent: sent) else { return }
            let block = pool.take()
            var frames: [Int] = []
            var position = 0
            var left = allowance
            while frames.count < Self.recordsPerBlock, left > 0, !content.isFinished {
                let body = position + RecordFormat.headerByteCount + RecordFormat.contentHeaderByteCount
                let room = min(RecordFormat.maximumContentByteCount, Int(clamping: left))
                let count = try content.fill(
                    UnsafeMutableRawBufferPointer(rebasing: block.bytes[body..<body + room]), from: &provider)
                guard count > 0 else { break }
                block.bytes[position + RecordFormat.headerByteCount] = FrameType.content
                block.bytes.storeBytes(
                    of: wireID.rawValue.bigEndian, toByteOffset: position + RecordFormat.headerByteCount + 1, as: UInt64.self)
                frames.append(RecordFormat.contentHeaderByteCount + count)
                position = body + count + RecordFormat.tagByteCount
                left -= UInt64(count)
                sent += UInt64(count)
                // A source of unknown size gives what it has; it should not wait for more to come.
                if count < room { break }
            }
            deliver(
                FilledBlock(
                    pump: self, block: block, frames: frames, contentDone: content.contentByteCount,
                    entriesDone: content.finishedEntryCount, isLast: content.isFinished))
        }
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

    /// - Returns: bytes of the content stream that may be sent; nil when the pump is to stop.
    private func waitForAllowance(sent: UInt64) -> UInt64? {
        let allowance: UInt64? = state.wait { state -> UInt64?? in
            if state.isStopped { return .some(nil) }
            guard state.limit > sent, state.blocksOut < Self.blocksAhead else { return nil }
            state.blocksOut += 1
            return .some(state.limit - sent)
        }
        return allowance
    }

    static func blockByteCount() -> Int { recordsPerBlock * RecordFormat.maximumRecordByteCount }
}

/// A resource's reader as the content stream sees it, held to what was offered: a folder that gained or lost something since
/// is a changed source, and not for the receiver to complain about.
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
            throw StorageError(.changed, "what is being sent has changed since it was offered; send it again")
        }
        return header
    }

    mutating func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
        try reader.read(into: buffer)
    }

    mutating func seek(to offset: UInt64) throws(StorageError) { try reader.seek(to: offset) }
}
