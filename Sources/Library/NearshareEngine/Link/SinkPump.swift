internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces

/// Stores the content of one transfer on a dedicated thread, so that a slow disk holds back its own sender only.
final class SinkPump: Sendable {
    private struct State {
        var pieces: [Piece] = []
        var ending: TransferOutcome?
    }

    /// Used by the pump's thread alone.
    private struct Sink: @unchecked Sendable {
        let sink: any ResourceSink
    }

    /// The pump's reports to its link.
    struct Link: Sendable {
        var resumePoint: @Sendable (ResumePoint) -> Void
        /// Bytes of the content stream that are stored, counted from its start.
        var stored: @Sendable (UInt64) -> Void
        /// Whether the received content may be stored. The transfer cannot be cancelled afterwards.
        var mayFinish: @Sendable () -> Bool
        var finished: @Sendable (ChangedNames) -> Void
        var failed: @Sendable (CancelReason) -> Void
        var violated: @Sendable (MalformedInput) -> Void
    }

    /// Limit on queued pieces: a peer that sends its content in tiny pieces is slowed down here.
    private static let maximumPieces = 1024

    let wireID: TransferID
    let transfer: Transfer
    private let offer: Offer
    private let sink: Sink
    private let keepsPartial: Bool
    private let state = Monitor(State())

    init(wireID: TransferID, transfer: Transfer, offer: Offer, sink: any ResourceSink, keepsPartial: Bool) {
        self.wireID = wireID
        self.transfer = transfer
        self.offer = offer
        self.sink = Sink(sink: sink)
        self.keepsPartial = keepsPartial
    }

    // MARK: From other threads

    /// Queues received content; blocks while the sink is too far behind.
    func take(_ pieces: [Piece]) {
        state.wait { state -> Void? in
            if state.ending != nil { return () }
            guard state.pieces.count < Self.maximumPieces else { return nil }
            state.pieces += pieces
            return ()
        }
    }

    /// Ends the transfer: no more content arrives.
    func end(_ outcome: TransferOutcome) {
        state.update { state in
            if state.ending == nil { state.ending = outcome }
        }
    }

    // MARK: The pump's thread

    /// Runs until the transfer has ended, and reports the outcome to its handle.
    func run(_ link: Link) {
        var detail: String?
        var delivered: [DeliveredItem] = []
        do throws(IncomingContentError<StorageError>) {
            delivered = try store(link)
        } catch {
            switch error {
            case .violation(let what):
                detail = what.description
                link.violated(what)
            case .receiver(let failure):
                detail = failure.description
                link.failed(CancelReason(failure))
            }
        }
        let outcome: TransferOutcome = state.wait { $0.ending }
        if outcome != .completed {
            if keepsPartial, outcome.keepsPartial {
                sink.sink.suspend()
            } else {
                sink.sink.discard()
            }
        }
        let names = outcome == .completed ? sink.sink.changedNames : ChangedNames()
        transfer.end(TransferResult(outcome: outcome, detail: detail, delivered: delivered, changedNames: names))
    }

    private func store(_ link: Link) throws(IncomingContentError<StorageError>) -> [DeliveredItem] {
        transfer.enter(.comparing)
        let point: ResumePoint
        do {
            point = try sink.sink.resumePoint()
        } catch {
            throw .receiver(error)
        }
        link.resumePoint(point)
        var content = IncomingContent(offer: offer, resumePoint: point)
        var receiver = SinkReceiver(sink: sink.sink, asked: point)
        var total: UInt64 = 0
        var hasStarted = false
        while let pieces = nextPieces() {
            for piece in pieces {
                try content.consume(piece.bytes, into: &receiver)
                total += UInt64(piece.range.count)
            }
            if !hasStarted {
                hasStarted = true
                transfer.resumes(after: content.resumedByteCount, entries: content.finishedEntryCount)
            }
            transfer.moved(to: content.contentByteCount, entries: content.finishedEntryCount)
            link.stored(total)
            guard content.isComplete else { continue }
            // Cancelled or interrupted concurrently: the outcome is about to arrive.
            guard link.mayFinish() else { return [] }
            transfer.enter(.finishing)
            let delivered: [DeliveredItem]
            do {
                delivered = try sink.sink.finish()
            } catch {
                throw .receiver(error)
            }
            // The transfer is complete from here on, whatever happens to the link.
            state.update { $0.ending = .completed }
            link.finished(sink.sink.changedNames)
            return delivered
        }
        return []
    }

    private func nextPieces() -> [Piece]? {
        state.waitUntilReady { state -> MonitorWait<[Piece]?> in
            // Content received before the end is still stored, so that a repeated transfer resumes after it.
            guard state.pieces.isEmpty else {
                defer { state.pieces = [] }
                return .ready(state.pieces)
            }
            return state.ending == nil ? .waiting() : .ready(nil)
        }
    }
}

extension CancelReason {
    init(_ failure: StorageError) {
        switch failure.code {
        case .noSpace: self = .noSpace
        case .overLimit, .refused: self = .refused
        case .changed: self = .sourceChanged
        case .notFound, .noPermission, .failed: self = .storageFailed
        }
    }
}

/// Adapts a resource sink to the content stream.
private struct SinkReceiver: ContentReceiver {
    let sink: any ResourceSink
    let asked: ResumePoint

    mutating func start(completeEntries: UInt64, offset: UInt64) throws(StorageError) {
        // The sender resumes where it was asked to, or from the beginning; anything else has been rejected before.
        let goesOn = completeEntries == asked.completeEntries && offset == asked.partialSize
        try sink.resume(at: goesOn ? asked : .start)
    }

    mutating func begin(_ header: EntryHeader, at offset: UInt64, digest: [UInt8]) throws(StorageError) {
        try sink.begin(header, at: offset, entriesDigest: digest)
    }

    mutating func content(_ bytes: UnsafeRawBufferPointer) throws(StorageError) { try sink.write(bytes) }

    mutating func endEntry() throws(StorageError) { try sink.endEntry() }
}
