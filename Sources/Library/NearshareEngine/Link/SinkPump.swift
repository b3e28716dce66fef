internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces

/// Stores the content of one transfer, so that a slow disk holds back its own sender only.
///
/// The thread that reads the link also stores what it has read while the disk is fast: no thread is woken, and the bytes
/// are still in its processor's cache. The pump's own thread prepares and finishes. When storing takes longer than
/// ``stallTime``, the two threads exchange their tasks: the pump's thread reads on, the other one stores from then on.
///
///     preparing ──► idle ◄──► storing (by either thread) ──failure──► ended
///                     └──── all stored ────► finishing ─────────────────┘
final class SinkPump: Sendable {
    private enum Phase {
        /// The files are compared, and the resume point is found.
        case preparing
        case idle(ContentInProgress)
        case storing
        /// The sink moves what it has stored to its destination.
        case finishing
        case ended(Ending)
    }

    private struct Ending {
        /// The reason of a failure, for the user.
        var detail: String?
        var delivered: [DeliveredItem] = []
        var compared: ComparedFiles?
        var missing: MissingFiles?
    }

    private struct State {
        var phase = Phase.preparing
        /// Content that waits for the pump's thread.
        var pieces: [Piece] = []
        var outcome: TransferOutcome?
        /// Whether the reading thread stores what it has read; false for good once it was held up.
        var storesDirectly = true
        var stallWatch = StallWatch()

        /// Whether content is dropped.
        var hasEnded: Bool {
            if case .ended = phase { return true }
            return outcome != nil
        }
    }

    /// The observation of a reading thread that stores, which the disk may hold up.
    private struct StallWatch {
        /// Reads the link on, in place of the thread that stores what it has read; nil while no reading thread is storing.
        var resumeReading: (@Sendable () -> Void)?
        /// Number of blocks that a reading thread has begun to store.
        var begunCount: UInt64 = 0
        /// The number at the last look, and the time of the next look; nil while no content arrives.
        var lastLook: (count: UInt64, next: MonotonicInstant)?
    }

    /// The next task of the pump's thread.
    private enum Work {
        case store(ContentInProgress, [Piece])
        case finish(ContentInProgress)
        case readOn(@Sendable () -> Void)
        case report(TransferOutcome, Ending)
    }

    /// The calls from the pump to its link, most of them reports.
    struct Reports: Sendable {
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
        var closeForViolation: @Sendable (MalformedInput) -> Void
    }

    /// Limit on queued pieces: a peer that sends its content in tiny pieces is slowed down.
    private static let maximumPieces = 1024
    /// Time after which the reading thread does not wait for the disk any longer; noticed after twice this time at most.
    private static let stallTime = Duration.milliseconds(100)

    let wireID: TransferID
    let transfer: Transfer
    /// The accepted content; of a part, the part as an offer of its own.
    private let offer: Offer
    /// The abilities of the sender.
    private let features: TransferFeatures
    /// The first entries, as the sender has listed them.
    private let listedEntries: [EntryHeader]
    private let counter: EntryCounter
    /// Used by the thread that prepares, stores or finishes. Another one may call `cancel()` meanwhile.
    private let sink: SingleThreaded<any ResourceSink>
    private let keepsPartial: Bool
    private let clock: @Sendable () -> MonotonicInstant
    private let state = Monitor(State())

    /// - Parameter part: the accepted part of the offer; nil for all of it.
    init(
        of offer: TransferOffer, part: OfferPart? = nil, transfer: Transfer, sink: any ResourceSink, keepsPartial: Bool,
        clock: @escaping @Sendable () -> MonotonicInstant
    ) {
        (wireID, features) = (offer.id, offer.features)
        let (accepted, listed) = (part?.offer ?? offer.offer, part?.contents ?? offer.contents)
        (self.offer, listedEntries) = (accepted, listed)
        counter = EntryCounter(of: accepted, listed: listed)
        (self.transfer, self.keepsPartial, self.clock) = (transfer, keepsPartial, clock)
        self.sink = SingleThreaded(sink)
    }

    // MARK: From other threads

    /// Queues received content; blocks while the sink is too far behind.
    func receive(_ pieces: [Piece]) {
        state.wait { state -> Void? in
            // Nothing makes room any more.
            if state.hasEnded { return () }
            guard state.pieces.count < Self.maximumPieces else { return nil }
            state.pieces += pieces
            return ()
        }
    }

    /// Stores received content on the calling thread, which reads the link; queues it where that is not possible.
    /// - Parameter resumeReading: reads on in place of the caller, called by another thread if storing takes too long.
    /// - Returns: whether the caller is to read on. Otherwise another thread does, and the caller must call ``work()``.
    func storeOnReadingThread(_ pieces: [Piece], resumeReading: @escaping @Sendable () -> Void) -> Bool {
        var content: ContentInProgress?
        _ = state.updateQuietly { state in
            guard state.storesDirectly, state.outcome == nil, state.pieces.isEmpty, case .idle(let idle) = state.phase,
                !idle.isComplete
            else { return false }
            content = idle
            state.phase = .storing
            state.stallWatch.resumeReading = resumeReading
            state.stallWatch.begunCount += 1
            guard state.stallWatch.lastLook == nil else { return false }
            state.stallWatch.lastLook = (state.stallWatch.begunCount, clock() + Self.stallTime)
            return true
        }
        guard let content else {
            receive(pieces)
            return true
        }
        let phase = store(pieces, in: content)
        var isReader = false
        _ = state.updateQuietly { state in
            state.phase = phase
            isReader = state.stallWatch.resumeReading.take() != nil
            guard state.outcome == nil, case .idle(let content) = phase else { return true }
            return content.isComplete
        }
        return isReader
    }

    /// Ends the transfer: no more content arrives.
    func end(_ outcome: TransferOutcome) {
        state.update { state in
            if state.outcome == nil { state.outcome = outcome }
        }
        // Hashing a large file would hold up the end.
        if outcome != .completed { sink.value.cancel() }
    }

    // MARK: The pump's thread

    /// Runs until the transfer has ended, and reports the outcome to its handle; or until the link has ended that this thread
    /// reads by then.
    func run(_ reports: Reports) {
        let phase: Phase
        do throws(IncomingContentError<StorageError>) {
            phase = try prepare(reports).map { .idle($0) } ?? .ended(Ending())
        } catch {
            phase = fail(error, reports)
        }
        state.update { $0.phase = phase }
        work()
    }

    /// Stores queued content, and finishes the transfer.
    func work() {
        while true {
            switch nextWork() {
            case .store(let content, let pieces):
                let phase = store(pieces, in: content)
                state.update { $0.phase = phase }
            case .finish(let content):
                let phase = finish(content)
                state.update { $0.phase = phase }
            case .readOn(let read): return read()
            case .report(let outcome, let ending): return report(outcome, ending)
            }
        }
    }

    private func nextWork() -> Work {
        state.waitWithDeadlines { state, hasTimedOut in
            switch state.phase {
            case .idle(let content) where content.isComplete:
                state.phase = .finishing
                return .ready(.finish(content))
            case .idle(let content) where !state.pieces.isEmpty:
                // Content received before the end is still stored, so that a repeated transfer resumes after it.
                let pieces = state.pieces
                state.pieces = []
                state.phase = .storing
                return .ready(.store(content, pieces))
            case .idle:
                if let outcome = state.outcome { return .ready(.report(outcome, Ending())) }
            case .ended(let ending):
                if let outcome = state.outcome { return .ready(.report(outcome, ending)) }
            case .preparing, .storing, .finishing: break
            }
            guard let look = state.stallWatch.lastLook else { return .waiting() }
            let now = clock()
            guard hasTimedOut || now >= look.next else { return .waiting(untilNanoseconds: look.next.nanoseconds) }
            if look.count == state.stallWatch.begunCount {
                state.stallWatch.lastLook = nil
                guard let resumeReading = state.stallWatch.resumeReading.take() else { return .waiting() }
                state.storesDirectly = false
                return .ready(.readOn(resumeReading))
            }
            let next = now + Self.stallTime
            state.stallWatch.lastLook = (state.stallWatch.begunCount, next)
            return .waiting(untilNanoseconds: next.nanoseconds)
        }
    }

    private func report(_ outcome: TransferOutcome, _ ending: Ending) {
        if outcome != .completed {
            if keepsPartial, outcome.keepsPartial {
                sink.value.suspend()
            } else {
                sink.value.discard()
            }
        }
        var result = TransferResult(
            outcome: outcome, detail: ending.detail, delivered: ending.delivered, compared: ending.compared)
        if outcome == .completed {
            result.changedNames = sink.value.changedNames
            if let missing = ending.missing {
                result.outcome = .failed(.sourceChanged, at: .remote)
                (result.missing, result.detail) = (missing, missing.sentence)
            }
        }
        transfer.end(result)
        sink.value.removeDiscarded()
    }

    private func fail(_ error: IncomingContentError<StorageError>, _ reports: Reports) -> Phase {
        var ending = Ending()
        switch error {
        case .violation(let what):
            ending.detail = what.description
            reports.closeForViolation(what)
        case .receiver(let failure):
            // A sink that was cancelled throws as a consequence of the end.
            if state.withLock({ $0.outcome }) == nil { ending.detail = failure.description }
            reports.failed(failure.code == .outputClosed ? .outputClosed : CancelReason(TransferFailure(failure)))
        }
        return .ended(ending)
    }

    // MARK: Content

    /// - Returns: nil when the transfer has ended meanwhile.
    private func prepare(_ reports: Reports) throws(IncomingContentError<StorageError>) -> ContentInProgress? {
        transfer.enter(.comparing)
        let point: ResumePoint
        do {
            point = try sink.value.resumePoint()
        } catch {
            throw .receiver(error)
        }
        var total: UInt64 = 0
        var present = PresentFiles.none
        if features.contains(.listsFiles), sink.value.comparesFiles {
            guard let files = try compareFiles(reports, total: &total) else { return nil }
            present = files
        }
        do {
            try sink.value.checkLimits()
        } catch {
            throw .receiver(error)
        }
        // Nothing is left to compare. The first content may take long, such as that of a pipe.
        if point == .start { transfer.enter(.moving) }
        reports.resumePoint(point)
        return ContentInProgress(
            stream: IncomingContent(
                offer: offer, resumePoint: point, present: present, contents: listedEntries,
                allowsWithdrawal: features.contains(.withdrawsEntries)),
            receiver: SinkReceiver(sink: sink.value, asked: point), reports: reports, total: total, compared: present.counts)
    }

    private func store(_ pieces: [Piece], in content: ContentInProgress) -> Phase {
        var content = content
        do throws(IncomingContentError<StorageError>) {
            for piece in pieces { try content.consume(piece) }
        } catch {
            return fail(error, content.reports)
        }
        let entries = counter.count(upTo: content.stream.finishedEntryCount)
        if !content.hasStarted {
            content.hasStarted = true
            transfer.recordResume(after: content.stream.resumedByteCount, entries: entries)
        }
        transfer.recordProgress(to: content.stream.contentByteCount, entries: entries)
        content.reports.stored(content.total)
        return .idle(content)
    }

    private func finish(_ content: ContentInProgress) -> Phase {
        // Cancelled or interrupted concurrently: the outcome is about to arrive.
        guard content.reports.mayFinish() else { return .ended(Ending()) }
        transfer.enter(.finishing)
        let delivered: [DeliveredItem]
        do throws(StorageError) {
            delivered = try sink.value.finish()
        } catch {
            return fail(.receiver(error), content.reports)
        }
        // The transfer is complete from here on, whatever happens to the link.
        state.update { $0.outcome = .completed }
        content.reports.finished(sink.value.changedNames)
        return .ended(Ending(delivered: delivered, compared: content.compared, missing: content.stream.missing))
    }

    /// Compares the files of the offer with those that are present.
    /// - Parameter total: the bytes of the content stream so far.
    /// - Returns: the files that need not be sent; nil when the transfer has ended meanwhile.
    private func compareFiles(
        _ reports: Reports, total: inout UInt64
    ) throws(IncomingContentError<StorageError>) -> PresentFiles? {
        reports.listFiles()
        var files = IncomingFileList(of: offer)
        var comparer = SinkComparer(sink: sink.value)
        while !files.isComplete {
            guard let pieces = nextPieces() else { return nil }
            for piece in pieces {
                try files.consume(piece.bytes, with: &comparer)
                total += UInt64(piece.range.count)
            }
            reports.stored(total)
            guard files.isListed else { continue }
            files.beginComparison()
            if !files.isComplete { reports.requestDigests(files.candidates) }
        }
        let (identical, newer) = files.answer
        reports.reportPresent(identical, newer)
        return files.presentFiles
    }

    private func nextPieces() -> [Piece]? {
        state.waitUntilReady { state -> MonitorWait<[Piece]?> in
            guard state.pieces.isEmpty else {
                defer { state.pieces = [] }
                return .ready(state.pieces)
            }
            return state.outcome == nil ? .waiting() : .ready(nil)
        }
    }
}

/// The content stream of a transfer on its way to the sink, and how far it is. Used by one thread at a time.
private struct ContentInProgress {
    var stream: IncomingContent
    var receiver: SinkReceiver
    let reports: SinkPump.Reports
    /// Bytes of the content stream so far.
    var total: UInt64
    /// The files that were present; nil where none were compared.
    let compared: ComparedFiles?
    var hasStarted = false

    var isComplete: Bool { stream.isComplete }

    mutating func consume(_ piece: Piece) throws(IncomingContentError<StorageError>) {
        try stream.consume(piece.bytes, into: &receiver)
        total += UInt64(piece.range.count)
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
        try sink.compareDigest(digest, number: number)
    }
}
