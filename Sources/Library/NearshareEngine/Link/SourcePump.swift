internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces

/// Several content records in one block of memory, unencrypted, ready to be sealed in place and written at once.
struct FilledBlock: ~Copyable {
    let bytes: UnsafeMutableRawBufferPointer
    /// Size of each frame in bytes, without header and tag of its record; the records are contiguous.
    let frames: [Int]
    /// Whether the block contains the end mark.
    let isLast: Bool
}

/// Reads the content of one transfer on a dedicated thread, packs it into records and passes them to the link, within the
/// receiver's window. It uses a single block of memory: the same thread fills it, seals it and writes it to the link while it
/// is still in the processor's cache.
final class SourcePump: Sendable {
    private struct State {
        /// The end of the receiver's window, in bytes of the content stream.
        var limit: UInt64 = 0
        var isStopped = false
        /// Used by the pump's thread, but may be cancelled from any.
        var reader: SingleThreaded<any ResourceReader>?
        var failure: StorageError?
        /// A failure that the reader reports outside of a call; see ``ResourceReader/onFailure(_:)``.
        var readerFailure: StorageError?
        var changedNames = ChangedNames()
        var isOutputClosed = false
        var isComparing = false
        /// The listed files whose digests the receiver asks for; nil until it asks.
        var candidates: FileSet?
        /// The listed files that the receiver has already, or has in a newer version; nil before it has reported them.
        var present: (identical: FileSet, newer: FileSet)?
        /// The receiver's resume point of a transfer that compares files; nil before it has arrived.
        var point: ResumePoint?
        /// Counts of the compared files, for the result; nil before the comparison has ended.
        var compared: ComparedFiles?
        /// Whether the receiver knows withdrawn entries.
        var allowsWithdrawal = false
        /// The first entry that was withdrawn, and all of them.
        var withdrawal: StorageError?
        var missing: MissingFiles?
        var source: any ResourceSource
        /// Whether the receiver has selected what was not offered.
        var isSelectionInvalid = false
        /// Whether the receiver has not continued in time.
        var isStalled = false
    }

    let wireID: TransferID
    let transfer: Transfer
    private let rateLimit: TransmissionLimit?
    private let clock: @Sendable () -> MonotonicInstant
    private let state: Monitor<State>

    init(
        wireID: TransferID, transfer: Transfer, source: any ResourceSource, rateLimit: TransmissionLimit? = nil,
        clock: @escaping @Sendable () -> MonotonicInstant
    ) {
        self.rateLimit = rateLimit
        self.wireID = wireID
        self.transfer = transfer
        state = Monitor(State(source: source))
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
        reader?.value.cancel()
    }

    var isStopped: Bool { state.withLock { $0.isStopped } }

    /// Records the receiver's report; it cannot have changed more names than there are.
    func recordChangedNames(_ names: ChangedNames) {
        state.update { $0.changedNames = names.limited(to: $0.source.offer.entryCount) }
    }

    /// Records that the program that reads the receiver's output has closed it.
    func recordClosedOutput() { state.update { $0.isOutputClosed = true } }

    /// The detail of a transfer whose receiver's output was closed.
    private static let closedOutputText =
        "the receiver writes to standard output, and the program that reads it there has closed the pipe; what was not read is lost"

    /// Restricts the transfer to the entries that the receiver has selected, before anything is read.
    func select(_ selection: EntrySelection) {
        let counts: OfferPart.Counts? = state.update { state in
            guard let part = OfferPart(selection, of: state.source.offer, listed: state.source.contents) else {
                state.isSelectionInvalid = true
                return nil
            }
            state.source = PartSource(part, of: state.source)
            return part.counts
        }
        if let counts { transfer.select(counts) }
    }

    /// Lets the pump pass over entries that cannot be read, before anything is read.
    func allowWithdrawal() { state.update { $0.allowsWithdrawal = true } }

    /// Marks the transfer as one that compares files before its resume point is known. The caller starts the pump.
    func beginComparison() { state.update { $0.isComparing = true } }

    /// Passes the receiver's resume point to a pump that compares files.
    /// - Returns: false where none are compared: the caller starts the pump.
    func receive(_ point: ResumePoint) -> Bool {
        state.update { state in
            if state.isComparing { state.point = point }
            return state.isComparing
        }
    }

    func receive(candidates: FileSet) { state.update { $0.candidates = candidates } }

    func receivePresent(identical: FileSet, newer: FileSet) { state.update { $0.present = (identical, newer) } }

    /// Ends the transfer, and reports the outcome to its handle, with the failure of the source if there was one.
    func end(_ outcome: TransferOutcome) {
        stop()
        let state = state.withLock { $0 }
        guard outcome == .completed else {
            let detail = state.isOutputClosed ? Self.closedOutputText : state.failure?.description
            return transfer.end(TransferResult(outcome: outcome, detail: detail))
        }
        var result = TransferResult(outcome: outcome, changedNames: state.changedNames, compared: state.compared)
        if let missing = state.missing {
            result.missing = missing
            result.outcome = .failed(.sourceChanged, at: .local)
            let reason = state.withdrawal.map { first in
                // A sentence about the first file would be read as one about all of them.
                missing.count > 1 && first.code == .changed
                    ? "they were changed, moved or removed, or can no longer be read; send them again" : first.description
            }
            result.detail = ([missing.sentence] + (reason.map { [$0] } ?? [])).joined(separator: "; ")
        }
        transfer.end(result)
    }

    // MARK: The pump's thread

    /// Runs until all content has been sent, the pump is stopped, or the source fails.
    /// - Parameters:
    ///   - point: nil for a pump that first compares files.
    ///   - send: writes a block to the link; false when no more is wanted.
    func run(from point: ResumePoint?, send: (borrowing FilledBlock) -> Bool) throws(SourcePumpError) {
        do throws(SourcePumpError) {
            try pump(from: point, send: send)
        } catch .violation(let what) {
            throw .violation(what)
        } catch .stalled {
            throw .stalled
        } catch .source(let error) {
            // A stopped reader throws as a consequence of the stop, not of a failure.
            let (isEcho, isStalled) = state.withLock { state in
                if !state.isStopped { state.failure = error }
                return (state.isStopped, state.isStalled)
            }
            if !isEcho { throw isStalled ? .stalled : .source(error) }
        }
    }

    private func pump(
        from given: ResumePoint?, send: (borrowing FilledBlock) -> Bool
    ) throws(SourcePumpError) {
        guard !state.withLock({ $0.isSelectionInvalid }) else {
            throw .violation(MalformedInput("a selection of what was not offered, or not listed"))
        }
        let blocks = ContentBlocks(of: wireID, clock: clock)
        var present = PresentFiles.none
        var point = given
        if given == nil { (point, present) = try compareFiles(blocks, send: send) }
        // nil where the pump was stopped during the comparison.
        guard let point else { return }
        do throws(StorageError) {
            var provider = try openReader()
            var start = StartPoint.beginning
            if point != .start {
                if let found = try StartPoint.find(point, in: &provider) {
                    start = found
                } else {
                    provider = try openReader()
                }
            }
            var content = OutgoingContent(
                from: start, present: present, withdrawsEntries: state.withLock { $0.allowsWithdrawal })
            let counter = state.withLock { EntryCounter(of: $0.source.offer, listed: $0.source.contents) }
            transfer.recordResume(
                after: content.contentByteCount, entries: counter.count(upTo: content.finishedEntryCount))
            let recordProgress = { (content: OutgoingContent) in
                self.transfer.recordProgress(
                    to: content.contentByteCount, entries: counter.count(upTo: content.finishedEntryCount))
            }
            rateLimit?.restart(now: clock())
            while !content.isFinished {
                let sent = blocks.sent
                guard let allowance = try waitForAllowance(sent: sent, rateLimit) else { return }
                defer { rateLimit?.charge(blocks.sent - sent) }
                let isSent = try blocks.send(
                    upTo: allowance, isFinished: { content.isFinished }, isLast: true,
                    fill: { (buffer) throws(StorageError) in
                        let count = try content.fill(buffer, from: &provider)
                        // A transfer of which nothing remains is no transfer to the receiver: the source fails instead.
                        if content.isFinished, content.isAllWithdrawn, let withdrawal = provider.firstWithdrawal {
                            throw withdrawal
                        }
                        // The receipt may arrive as soon as the last block is sent.
                        if content.isFinished {
                            state.update { state in
                                state.compared?.unsentByteCount = content.presentByteCount
                                (state.missing, state.withdrawal) = (content.missing, provider.firstWithdrawal)
                            }
                            recordProgress(content)
                        }
                        return count
                    }, to: send)
                guard isSent else { return }
                if !content.isFinished { recordProgress(content) }
            }
        } catch {
            throw .source(error)
        }
        transfer.enter(.finishing)
    }

    /// Lists the files of the source, and sends the digests that the receiver asks for.
    /// - Returns: the receiver's resume point, nil when the pump was stopped; and the files whose content is not sent.
    private func compareFiles(
        _ blocks: ContentBlocks, send: (borrowing FilledBlock) -> Bool
    ) throws(SourcePumpError) -> (ResumePoint?, PresentFiles) {
        var files = OutgoingFileList(of: state.withLock { $0.source.offer })
        guard try sendPart(of: &files, blocks, send: send) else { return (nil, .none) }
        let candidates = try waitForReceiver { state -> MonitorWait<FileSet?> in
            if let candidates = state.candidates { return .ready(candidates) }
            return state.present == nil && state.point == nil ? .waiting() : .ready(nil)
        }
        if let candidates {
            guard candidates.count == files.list.count else {
                throw .violation(MalformedInput("candidates of another number of files than was listed"))
            }
            files.begin(hashing: candidates)
            guard try sendPart(of: &files, blocks, send: send) else { return (nil, .none) }
            // The receiver waits for the digests that are missing.
            guard !files.hasLostFiles else { throw .source(ReaderProvider.changed) }
        }
        let point = try waitForReceiver { state -> MonitorWait<ResumePoint?> in
            state.point.map { .ready($0) } ?? .waiting()
        }
        guard let point, let (identical, newer) = state.withLock({ $0.present }) else { return (point, .none) }
        guard identical.count == files.list.count,
            candidates.map({ identical.isSubset(of: $0) }) ?? (identical.memberCount == 0)
        else { throw .violation(MalformedInput("present files that were not listed or not compared")) }
        let present = PresentFiles(list: files.list, identical: identical, newer: newer)
        state.update { $0.compared = present.counts }
        return (point, present)
    }

    /// Sends the list or the digests.
    /// - Returns: false when the pump was stopped.
    private func sendPart(
        of files: inout OutgoingFileList, _ blocks: ContentBlocks, send: (borrowing FilledBlock) -> Bool
    ) throws(SourcePumpError) -> Bool {
        do throws(StorageError) {
            var provider = try openReader()
            while !files.isPartFinished {
                // Without the rate limit, which is one of content: what is read to be compared is not limited.
                guard let allowance = try waitForAllowance(sent: blocks.sent) else { return false }
                let isSent = try blocks.send(
                    upTo: allowance, isFinished: { files.isPartFinished }, isLast: false,
                    fill: { (buffer) throws(StorageError) in try files.fill(buffer, from: &provider) }, to: send)
                guard isSent else { return false }
            }
            return true
        } catch {
            throw .source(error)
        }
    }

    private func openReader() throws(StorageError) -> ReaderProvider {
        let (source, allowsWithdrawal) = state.withLock { ($0.source, $0.allowsWithdrawal) }
        let reader = try source.makeReader()
        let isStopped = state.update { state in
            state.reader = SingleThreaded(reader)
            return state.isStopped
        }
        reader.onFailure { [weak self] error in self?.state.update { $0.readerFailure = error } }
        if isStopped { reader.cancel() }
        if allowsWithdrawal { reader.allowWithdrawal() }
        return ReaderProvider(reader: reader, offer: source.offer, contents: source.contents)
    }

    /// Waits for the receiver's part of the comparison (R5).
    /// - Returns: nil also when the pump is to stop.
    private func waitForReceiver<Result>(
        _ body: (State) -> MonitorWait<Result?>
    ) throws(SourcePumpError) -> Result? {
        let deadline = clock() + DirectLimits.stepTimeout
        let result: Swift.Result<Result?, StorageError> = state.waitWithDeadlines { state, _ in
            if state.isStopped { return .ready(.success(nil)) }
            if let failure = state.readerFailure { return .ready(.failure(failure)) }
            if case .ready(let result) = body(state) { return .ready(.success(result)) }
            guard clock() < deadline else { return .ready(.failure(Self.stall(&state))) }
            return .waiting(untilNanoseconds: deadline.nanoseconds)
        }
        do { return try result.get() } catch { throw .source(error) }
    }

    private static func stall(_ state: inout State) -> StorageError {
        state.isStalled = true
        return StorageError(.failed, "the receiver has accepted it, but takes nothing any more")
    }

    /// Waits until the receiver's window and the rate limit have room for more.
    /// - Returns: the number of bytes of the content stream that may be sent; nil when the pump is to stop.
    private func waitForAllowance(
        sent: UInt64, _ rateLimit: TransmissionLimit? = nil
    ) throws(StorageError) -> UInt64? {
        let deadline = clock() + DirectLimits.creditTimeout
        return try state.waitWithDeadlines { state, _ -> MonitorWait<Result<UInt64?, StorageError>> in
            if state.isStopped { return .ready(.success(nil)) }
            if let failure = state.readerFailure { return .ready(.failure(failure)) }
            guard state.limit > sent else {
                guard clock() < deadline else { return .ready(.failure(Self.stall(&state))) }
                return .waiting(untilNanoseconds: deadline.nanoseconds)
            }
            switch rateLimit?.allowance(now: clock()) {
            case nil: return .ready(.success(state.limit - sent))
            case .bytes(let count): return .ready(.success(min(state.limit - sent, UInt64(count))))
            case .later(let time): return .waiting(untilNanoseconds: time.nanoseconds)
            }
        }.get()
    }
}

/// The reason why a pump has stopped.
enum SourcePumpError: Error {
    /// The source failed.
    case source(StorageError)
    /// The receiver has violated the protocol.
    case violation(MalformedInput)
    /// The receiver has accepted, and does not continue (R5).
    case stalled
}

/// The single block of memory of a pump, which it fills with records and sends.
private final class ContentBlocks {
    private let wireID: TransferID
    private let clock: @Sendable () -> MonotonicInstant
    private let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: BlockSize.maximumByteCount, alignment: 64)
    private var size = BlockSize()
    /// Bytes of the content stream that were sent.
    private(set) var sent: UInt64 = 0

    init(of wireID: TransferID, clock: @escaping @Sendable () -> MonotonicInstant) {
        (self.wireID, self.clock) = (wireID, clock)
    }

    deinit { bytes.deallocate() }

    /// Fills and sends one block.
    /// - Parameters:
    ///   - isLast: whether the transfer's content ends where the filling is finished.
    ///   - fill: returns the number of bytes; fewer than there is room for when there are no more for now.
    /// - Returns: false when no more is wanted.
    // Not inlined: the optimiser of Swift 6.3 crashes when it inlines the closures' typed errors.
    @inline(never)
    func send(
        upTo allowance: UInt64, isFinished: () -> Bool, isLast: Bool,
        fill: (UnsafeMutableRawBufferPointer) throws(StorageError) -> Int, to send: (borrowing FilledBlock) -> Bool
    ) throws(StorageError) -> Bool {
        var left = min(allowance, UInt64(size.contentByteCount))
        var frames: [Int] = []
        var position = 0
        while left > 0, !isFinished() {
            let headerOffset = position + RecordFormat.headerByteCount
            let contentOffset = headerOffset + RecordFormat.contentHeaderByteCount
            let requestedCount = min(RecordFormat.maximumContentByteCount, Int(clamping: left))
            let count = try fill(UnsafeMutableRawBufferPointer(rebasing: bytes[contentOffset..<contentOffset + requestedCount]))
            guard count > 0 else { break }
            bytes[headerOffset] = FrameType.content
            bytes.storeBytes(of: wireID.rawValue.bigEndian, toByteOffset: headerOffset + 1, as: UInt64.self)
            frames.append(RecordFormat.contentHeaderByteCount + count)
            position = contentOffset + count + RecordFormat.tagByteCount
            left -= UInt64(count)
            sent += UInt64(count)
            // A source of unknown size returns what it has; the block is not held back for more.
            if count < requestedCount { break }
        }
        guard !frames.isEmpty else { return true }
        let start = clock()
        guard send(FilledBlock(bytes: bytes, frames: frames, isLast: isLast && isFinished())) else { return false }
        size.adapt(toTime: clock() - start)
        return true
    }
}

/// Size of one write to a link, adapted to its speed: at most a part of a processor cache, and less on a slow link, where a
/// control frame would wait behind it for seconds.
struct BlockSize {
    private static let recordCount = 2
    private static let minimumByteCount = 16 << 10
    private static let maximumContentByteCount = recordCount * RecordFormat.maximumContentByteCount
    static let maximumByteCount = recordCount * RecordFormat.maximumRecordByteCount

    private(set) var contentByteCount = maximumContentByteCount

    /// Adapts the size.
    /// - Parameter time: the time that writing the last block took.
    mutating func adapt(toTime time: Duration) {
        if time > .milliseconds(200) {
            contentByteCount = max(Self.minimumByteCount, contentByteCount / 2)
        } else if time < .milliseconds(50) {
            contentByteCount = min(Self.maximumContentByteCount, contentByteCount * 2)
        }
    }
}

/// Adapts a resource reader to the content stream, and checks it against the offer: a folder that has changed since then is a
/// failure of the source, not a violation for the receiver to find.
private struct ReaderProvider: ContentProvider {
    let reader: any ResourceReader
    let offer: Offer
    let contents: [EntryHeader]
    private var entryCount: UInt64 = 0
    private var byteCount: UInt64 = 0
    /// The size of the current entry, in bytes; nil for an unknown one.
    private var entrySize: UInt64?
    /// The place in the current entry.
    private var position: UInt64 = 0
    /// The reason why the first entry was withdrawn.
    private(set) var firstWithdrawal: StorageError?

    init(reader: any ResourceReader, offer: Offer, contents: [EntryHeader]) {
        self.contents = contents
        self.reader = reader
        self.offer = offer
    }

    static let changed = StorageError(.changed, "the content has changed since it was offered; send it again")

    /// The failure of a source that no longer has an entry as it was offered.
    private static func changed(_ entry: EntryHeader) -> StorageError {
        let path = entry.path.map(\.shown).joined(separator: "/")
        return StorageError(.changed, "\(path) was changed, moved or removed after it was offered; send it again")
    }

    mutating func nextEntry() throws(StorageError) -> EntryHeader? {
        let header = try reader.nextEntry()
        if let header {
            let expected = entryCount < UInt64(contents.count) ? contents[Int(entryCount)] : nil
            if let expected, expected != header.listed { throw Self.changed(expected) }
            entryCount += 1
            byteCount += header.size ?? 0
        }
        let isBeyond = entryCount > offer.entryCount || byteCount > offer.totalSize ?? .max
        let isShort = header == nil && (entryCount < offer.entryCount || byteCount < offer.totalSize ?? 0)
        guard !isBeyond, !isShort else {
            throw Self.changed
        }
        (entrySize, position) = (header?.size, 0)
        recordWithdrawal()
        return header
    }

    var isWithdrawn: Bool { reader.withdrawal != nil }

    mutating func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
        let count = try reader.read(into: buffer)
        position += UInt64(count)
        guard count == 0, !buffer.isEmpty else { return count }
        recordWithdrawal()
        // Readers throw for a file that has shrunk; the content stream of one that does not could not be continued.
        guard isWithdrawn || position >= entrySize ?? 0 else { throw Self.changed }
        return 0
    }

    private mutating func recordWithdrawal() { firstWithdrawal = firstWithdrawal ?? reader.withdrawal }

    mutating func seek(to offset: UInt64) throws(StorageError) {
        try reader.seek(to: offset)
        position = offset
    }
}
