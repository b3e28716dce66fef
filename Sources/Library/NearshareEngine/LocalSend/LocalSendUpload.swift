internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareHTTP
internal import NearshareInterfaces
internal import NearshareLocalSend

/// Stores the files of an accepted session. Each is written by the thread of its connection; the others wait for their turn.
final class LocalSendUpload: Sendable {
    private struct State {
        /// Whether a thread uses the sink.
        var isBusy = false
        var ending: TransferOutcome?
        var lastArrival: MonotonicInstant
        /// The connection of the present file.
        var link: (any StreamLink)?
    }

    /// Used by the thread whose turn it is.
    private final class Sink: @unchecked Sendable {
        let sink: any ResourceSink
        var digest = EntriesDigest()
        var hasBegun = false
        /// Content of the complete files.
        var byteCount: UInt64 = 0
        var fileCount: UInt64 = 0

        init(_ sink: any ResourceSink) {
            self.sink = sink
        }
    }

    /// The end of one file.
    enum FileEnd: Sendable, Equatable {
        case stored
        /// The content does not have its checksum.
        case mismatch
        /// The session has ended, or ends with this.
        case failed
    }

    /// The time for which a sender may send no file, before the content is discarded.
    static let silenceTimeout = Duration.seconds(120)

    let offer: LocalSendOffer
    let transfer: Transfer
    private let sink: Sink
    private let state: Monitor<State>
    private let clock: @Sendable () -> MonotonicInstant
    /// Fulfilled once.
    let result = Promise<TransferResult>()

    init(
        _ offer: LocalSendOffer, transfer: Transfer, sink: any ResourceSink, clock: @escaping @Sendable () -> MonotonicInstant
    ) {
        (self.offer, self.transfer, self.clock) = (offer, transfer, clock)
        self.sink = Sink(sink)
        state = Monitor(State(lastArrival: clock()))
    }

    /// Ends the session before its content is complete.
    func end(_ outcome: TransferOutcome, detail: String? = nil) {
        let link = state.update { state in
            if state.ending == nil { state.ending = outcome }
            return state.link
        }
        sink.sink.cancel()
        link?.close()
        result.fulfil(TransferResult(outcome: outcome, detail: detail))
    }

    /// Ends the session when its sender is silent for too long.
    func awaitSilence() async {
        while !Task.isCancelled {
            let (isBusy, lastArrival) = state.withLock { ($0.isBusy, $0.lastArrival) }
            let remaining = (isBusy ? clock() : lastArrival) + Self.silenceTimeout - clock()
            guard remaining > .zero else { return end(.interrupted) }
            try? await Task.sleep(for: remaining)
        }
    }

    /// Removes what was received, when no thread uses it any more. Blocks.
    func discard() {
        state.wait { $0.isBusy ? nil : () }
        sink.sink.discard()
    }

    // MARK: The connections' threads

    /// Stores a file.
    /// - Parameters:
    ///   - link: closed when the session ends meanwhile.
    ///   - read: passes on the content in pieces.
    func store(
        _ number: Int, from link: (any StreamLink)?,
        _ read: ((UnsafeRawBufferPointer) throws(LocalSendConnection.ConnectionEnd) -> Void) throws(LocalSendConnection
            .ConnectionEnd) -> Void
    ) -> FileEnd {
        let isTurn = state.wait { state -> Bool? in
            guard state.ending == nil else { return false }
            guard !state.isBusy else { return nil }
            (state.isBusy, state.link) = (true, link)
            return true
        }
        guard isTurn else { return .failed }
        defer { state.update { ($0.isBusy, $0.link, $0.lastArrival) = (false, nil, clock()) } }
        do throws(StorageError) {
            return try storeFile(offer.files[number], read)
        } catch {
            end(.failed(TransferFailure(error), at: .local), detail: error.description)
            return .failed
        }
    }

    private func storeFile(
        _ file: LocalSendOffer.File,
        _ read: ((UnsafeRawBufferPointer) throws(LocalSendConnection.ConnectionEnd) -> Void) throws(LocalSendConnection
            .ConnectionEnd) -> Void
    ) throws(StorageError) -> FileEnd {
        try begin(file.header)
        let size = file.header.size ?? 0
        var count: UInt64 = 0
        var hasher = SHA256Hasher()
        var failure: StorageError?
        do throws(LocalSendConnection.ConnectionEnd) {
            try read { (content) throws(LocalSendConnection.ConnectionEnd) in
                guard UInt64(content.count) <= size - count, state.withLock({ $0.ending == nil }) else {
                    throw LocalSendConnection.ConnectionEnd()
                }
                do throws(StorageError) {
                    try sink.sink.write(content)
                } catch {
                    failure = error
                    throw LocalSendConnection.ConnectionEnd()
                }
                if file.digest != nil { hasher.update(content) }
                count += UInt64(content.count)
                transfer.moved(to: sink.byteCount + count, entries: sink.fileCount)
            }
        } catch {
            if let failure { throw failure }
            // The connection has ended, or there is more content than was offered.
            end(.interrupted)
            return .failed
        }
        guard count == size else {
            end(.interrupted)
            return .failed
        }
        if let digest = file.digest, hasher.finalize() != digest {
            try sink.sink.abandonEntry()
            return .mismatch
        }
        try sink.sink.endEntry()
        sink.byteCount += size
        sink.fileCount += 1
        transfer.moved(to: sink.byteCount, entries: sink.fileCount)
        return .stored
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

    /// Gives the files their final names, after the last one.
    /// - Returns: whether that succeeded.
    func finish() -> Bool {
        let isTurn = state.wait { state -> Bool? in
            guard state.ending == nil else { return false }
            guard !state.isBusy else { return nil }
            state.isBusy = true
            return true
        }
        guard isTurn else { return false }
        defer { state.update { $0.isBusy = false } }
        transfer.enter(.finishing)
        do throws(StorageError) {
            let delivered = try sink.sink.finish()
            state.withLock { if $0.ending == nil { $0.ending = .completed } }
            result.fulfil(
                TransferResult(outcome: .completed, delivered: delivered, changedNames: sink.sink.changedNames))
            return true
        } catch {
            end(.failed(TransferFailure(error), at: .local), detail: error.description)
            return false
        }
    }
}
