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
        var listFiles: @Sendable () -> Void
        var requestDigests: @Sendable (FileSet) -> Void
        var reportPresent: @Sendable (_ identical: FileSet, _ newer: FileSet) -> Void
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
    private let features: TransferFeatures
    private let contents: [EntryHeader]
    private let sink: Sink
    private let keepsPartial: Bool
    private let state = Monitor(State())

    /// - Parameters:
    ///   - offer: what was accepted; of a part, the part as an offer of its own.
    ///   - contents: its first entries, as they were listed.
    ///   - features: the abilities of the sender.
    init(
        of offer: Offer, contents: [EntryHeader], features: TransferFeatures, wireID: TransferID, transfer: Transfer,
        sink: any ResourceSink, keepsPartial: Bool
    ) {
        self.wireID = wireID
        self.transfer = transfer
        self.offer = offer
        (self.features, self.contents) = (features, contents)
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
        // Hashing a large file would hold up the end.
        if outcome != .completed { sink.sink.cancel() }
    }

    // MARK: The pump's thread

    /// Runs until the transfer has ended, and reports the outcome to its handle.
    func run(_ link: Link) {
        var detail: String?
        var delivered: [DeliveredItem] = []
        var compared: ComparedFiles?
        do throws(IncomingContentError<StorageError>) {
            (delivered, compared) = try store(link)
        } catch {
            switch error {
            case .violation(let what):
                detail = what.description
                link.violated(what)
            case .receiver(let failure):
                // A sink that was cancelled throws as a consequence of the end.
                if state.withLock({ $0.ending }) == nil { detail = failure.description }
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
        transfer.end(
            TransferResult(outcome: outcome, detail: detail, delivered: delivered, changedNames: names, compared: compared))
    }

    private func store(
        _ link: Link
    ) throws(IncomingContentError<StorageError>) -> (delivered: [DeliveredItem], compared: ComparedFiles?) {
        transfer.enter(.comparing)
        let point: ResumePoint
        do {
            point = try sink.sink.resumePoint()
        } catch {
            throw .receiver(error)
        }
        var total: UInt64 = 0
        var present = PresentFiles.none
        if features.contains(.listsFiles), sink.sink.comparesFiles {
            guard let files = try compareFiles(link, total: &total) else { return ([], nil) }
            present = files
        }
        do {
            try sink.sink.checkSpace()
        } catch {
            throw .receiver(error)
        }
        link.resumePoint(point)
        var content = IncomingContent(offer: offer, resumePoint: point, present: present, contents: contents)
        var receiver = SinkReceiver(sink: sink.sink, asked: point)
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
            guard link.mayFinish() else { return ([], nil) }
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
            return (delivered, present.counts)
        }
        return ([], nil)
    }

    /// Compares the files of the offer with those that are present.
    /// - Parameter total: the bytes of the content stream so far.
    /// - Returns: the files that need not be sent; nil when the transfer has ended meanwhile.
    private func compareFiles(
        _ link: Link, total: inout UInt64
    ) throws(IncomingContentError<StorageError>) -> PresentFiles? {
        link.listFiles()
        var files = IncomingFileList(of: offer)
        var comparer = SinkComparer(sink: sink.sink)
        while !files.isComplete {
            guard let pieces = nextPieces() else { return nil }
            for piece in pieces {
                try files.consume(piece.bytes, with: &comparer)
                total += UInt64(piece.range.count)
            }
            link.stored(total)
            guard files.isListed else { continue }
            files.beginComparison()
            if !files.isComplete { link.requestDigests(files.candidates) }
        }
        let (identical, newer) = files.answer
        link.reportPresent(identical, newer)
        return files.presentFiles
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
        case .overLimit: self = .tooLarge
        case .refused: self = .refused
        case .changed: self = .sourceChanged
        case .notFound, .noPermission, .failed: self = .storageFailed
        }
    }
}

/// Adapts a resource sink to the comparison of files.
private struct SinkComparer: FileComparer {
    let sink: any ResourceSink

    mutating func compare(
        _ header: EntryHeader, encodedHeader: [UInt8], number: UInt64
    ) throws(StorageError) -> FilePresence {
        try sink.compare(header, encodedHeader: encodedHeader, number: number)
    }

    mutating func decide(number: UInt64, digest: [UInt8]) throws(StorageError) -> FilePresence {
        try sink.decide(number: number, digest: digest)
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

    mutating func keepPresent(_ header: EntryHeader, number: UInt64, digest: [UInt8]) throws(StorageError) {
        try sink.keepPresent(header, number: number, entriesDigest: digest)
    }

    mutating func content(_ bytes: UnsafeRawBufferPointer) throws(StorageError) { try sink.write(bytes) }

    mutating func endEntry() throws(StorageError) { try sink.endEntry() }
}
