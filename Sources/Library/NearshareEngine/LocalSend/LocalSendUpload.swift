internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareHTTP
internal import NearshareInterfaces
internal import NearshareLocalSend

/// Stores the files of an accepted session. The thread of a connection writes its file, while the threads of other connections
/// wait for their turn. A file that does not arrive whole fails without the others.
final class LocalSendUpload: Sendable {
    private struct State {
        /// Whether a thread uses the sink.
        var isBusy = false
        var outcome: TransferOutcome?
        /// The time at which a thread last stopped using the sink, or that of the beginning.
        var lastUse: MonotonicInstant
        /// The connection of the current file.
        var link: (any StreamLink)?
        /// The content of all files, measured while more of a file is awaited.
        var progress: ProgressMeter
    }

    /// Used by the thread whose turn it is.
    private final class Sink: @unchecked Sendable {
        let sink: any ResourceSink
        var digest = EntriesDigest()
        var hasBegun = false
        /// Content of the complete files.
        var byteCount: UInt64 = 0
        /// The complete files.
        var stored: [EntryHeader] = []

        init(_ sink: any ResourceSink) {
            self.sink = sink
        }
    }

    /// Reads the content of one file, and passes it on in pieces.
    typealias ContentReader = (
        (UnsafeRawBufferPointer) throws(LocalSendConnection.ConnectionEnd) -> Void
    ) throws(LocalSendConnection.ConnectionEnd) -> Void

    /// The end of one file.
    enum FileEnd: Sendable, Equatable {
        case stored
        /// The content does not have its checksum.
        case mismatch
        /// The connection has ended, or there was more or less content than was offered.
        case broken
        /// The file is not accepted, or the session has ended, or ends because of this file.
        case failed
    }

    let offer: LocalSendOffer
    /// The accepted part; nil for all files.
    let part: OfferPart?
    let transfer: Transfer
    private let sink: Sink
    private let state: Monitor<State>
    private let clock: @Sendable () -> MonotonicInstant
    /// Fulfilled once.
    let result = Promise<TransferResult>()

    init(
        _ offer: LocalSendOffer, part: OfferPart?, transfer: Transfer, sink: any ResourceSink,
        clock: @escaping @Sendable () -> MonotonicInstant
    ) {
        (self.offer, self.part, self.transfer, self.clock) = (offer, part, transfer, clock)
        self.sink = Sink(sink)
        var progress = ProgressMeter(now: clock())
        progress.suspend(now: clock())
        state = Monitor(State(lastUse: clock(), progress: progress))
    }

    /// Ends the session before its content is complete.
    func end(_ outcome: TransferOutcome, detail: String? = nil) {
        let link = state.update { state in
            if state.outcome == nil { state.outcome = outcome }
            return state.link
        }
        sink.sink.cancel()
        link?.close()
        result.fulfil(TransferResult(outcome: outcome, detail: detail))
    }

    /// The bytes a second that arrive in the session; nil before there is an average, and while this side stores what has arrived.
    func transferRate(now: MonotonicInstant) -> Int? { state.withLock { $0.progress.rate(now: now) } }

    private func awaitContent() { state.withLock { $0.progress.resume(now: clock()) } }

    /// - Returns: whether the session has not ended.
    private func recordArrival(_ byteCount: Int = 0) -> Bool {
        state.withLock { state in
            state.progress.record(byteCount, now: clock())
            state.progress.suspend(now: clock())
            return state.outcome == nil
        }
    }

    /// Waits until no thread has stored a file for as long as `timeout`.
    /// - Returns: false when the task is cancelled first.
    func awaitSilence(of timeout: Duration) async -> Bool {
        while !Task.isCancelled {
            let (isBusy, lastUse) = state.withLock { ($0.isBusy, $0.lastUse) }
            let remaining = (isBusy ? clock() : lastUse) + timeout - clock()
            guard remaining > .zero else { return true }
            try? await Task.sleep(for: remaining)
        }
        return false
    }

    /// Removes what was received, as soon as no thread writes it. Blocks.
    func discard() {
        state.wait { $0.isBusy ? nil : () }
        sink.sink.discard()
    }

    // MARK: The connections' threads

    /// Stores a file, after those of other connections that came first.
    /// - Parameters:
    ///   - number: the position of the file in the offer.
    ///   - link: closed when the session ends meanwhile.
    func store(_ number: Int, from link: (any StreamLink)?, _ read: ContentReader) -> FileEnd {
        let hasTurn = state.wait { state -> Bool? in
            guard state.outcome == nil else { return false }
            guard !state.isBusy else { return nil }
            (state.isBusy, state.link) = (true, link)
            return true
        }
        guard hasTurn else { return .failed }
        defer { state.update { ($0.isBusy, $0.link, $0.lastUse) = (false, nil, clock()) } }
        do throws(StorageError) {
            let file = offer.files[number]
            return try storeFile(part.map { $0.renumbered(file.header) } ?? file.header, file.digest, read)
        } catch {
            end(.failed(TransferFailure(error), at: .local), detail: error.description)
            return .failed
        }
    }

    /// - Parameter header: nil for a file that is not accepted.
    private func storeFile(
        _ header: EntryHeader?, _ digest: [UInt8]?, _ read: ContentReader
    ) throws(StorageError) -> FileEnd {
        guard let header else { return .failed }
        try begin(header)
        let size = header.size ?? 0
        var count: UInt64 = 0
        var hasher = SHA256Hasher()
        var failure: StorageError?
        do throws(LocalSendConnection.ConnectionEnd) {
            awaitContent()
            defer { _ = recordArrival() }
            try read { (content) throws(LocalSendConnection.ConnectionEnd) in
                defer { awaitContent() }
                guard UInt64(content.count) <= size - count, recordArrival(content.count) else {
                    throw LocalSendConnection.ConnectionEnd()
                }
                do throws(StorageError) {
                    try sink.sink.write(content)
                } catch {
                    failure = error
                    throw LocalSendConnection.ConnectionEnd()
                }
                if digest != nil { hasher.update(content) }
                count += UInt64(content.count)
                transfer.recordProgress(to: sink.byteCount + count, entries: UInt64(sink.stored.count))
            }
        } catch {
            if let failure { throw failure }
            // The connection has ended, or there is more content than was offered.
            guard state.withLock({ $0.outcome == nil }) else { return .failed }
            return try abandonFile(.broken)
        }
        guard count == size else { return try abandonFile(.broken) }
        if let digest, hasher.finalize() != digest { return try abandonFile(.mismatch) }
        try sink.sink.endEntry()
        sink.byteCount += size
        sink.stored.append(header)
        transfer.recordProgress(to: sink.byteCount, entries: UInt64(sink.stored.count))
        return .stored
    }

    private func abandonFile(_ end: FileEnd) throws(StorageError) -> FileEnd {
        try sink.sink.abandonEntry()
        transfer.recordProgress(to: sink.byteCount, entries: UInt64(sink.stored.count))
        return end
    }

    private func begin(_ header: EntryHeader) throws(StorageError) {
        if !sink.hasBegun {
            sink.hasBegun = true
            transfer.enter(.moving)
            // Nothing of an earlier session can be resumed.
            _ = try sink.sink.resumePoint()
            try sink.sink.resume(at: .start)
        }
        for count in 1..<max(header.path.count, 1) {
            let folder = EntryHeader(
                item: header.item, kind: .folder, path: Array(header.path.prefix(count)), size: 0, modified: nil,
                permissions: nil)
            sink.digest.append(folder)
            try sink.sink.enterFolder(folder, entriesDigest: sink.digest.bytes)
        }
        sink.digest.append(header)
        try sink.sink.begin(header, at: 0, entriesDigest: sink.digest.bytes)
    }

    /// Gives the files their final names, after the last file has ended.
    /// - Parameters:
    ///   - missing: the numbers of the accepted files that are not stored.
    ///   - acceptedCount: the number of accepted files.
    ///   - failure: the outcome when no file is stored.
    /// - Returns: whether the files that have arrived have their final names, also where others are missing.
    func finish(missing: [Int] = [], acceptedCount: Int = 1, orFail failure: TransferResult? = nil) -> Bool {
        let hasTurn = state.wait { state -> Bool? in
            guard state.outcome == nil else { return false }
            guard !state.isBusy else { return nil }
            state.isBusy = true
            return true
        }
        guard hasTurn else { return false }
        defer { state.update { $0.isBusy = false } }
        guard missing.isEmpty || !sink.stored.isEmpty else {
            let failure = failure ?? TransferResult(outcome: .interrupted)
            end(failure.outcome, detail: failure.detail)
            return false
        }
        transfer.enter(.finishing)
        do throws(StorageError) {
            let names = missing.compactMap { offer.files[$0].header.path.last }
            let missingFiles = MissingFiles(names, of: acceptedCount)
            let delivered = missing.isEmpty ? try sink.sink.finish() : try sink.sink.finish(only: sink.stored)
            // Missing files have not arrived as they were offered.
            let outcome = missing.isEmpty ? TransferOutcome.completed : .failed(.sourceChanged, at: .remote)
            state.withLock { if $0.outcome == nil { $0.outcome = outcome } }
            result.fulfil(
                TransferResult(
                    outcome: outcome, detail: missingFiles?.sentence, delivered: delivered,
                    changedNames: sink.sink.changedNames, missing: missingFiles))
            return true
        } catch {
            end(.failed(TransferFailure(error), at: .local), detail: error.description)
            return false
        }
    }
}
