internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces

/// An event of a link for its owner or the user. Events are rare.
enum LinkEvent: Sendable {
    case established(AuthenticatedPeer, LinkSecrets)
    case greeted(DisplayName, time: WallTime)
    case shortCode(ShortAuthenticationDigits)
    case comparisonAsked
    case comparisonAnswered(isSame: Bool)
    case invited(TransferOffer, until: MonotonicInstant)
    /// An invitation ended without being accepted.
    case invitationEnded(TransferID, TransferOutcome)
    /// A session frame from the peer.
    case session(SessionFrame)
    /// The last event.
    case closed(LinkEnd)
}

/// Secrets of a finished handshake for use outside the link's records.
struct LinkSecrets: Sendable {
    /// Unique to this link, and equal on both ends.
    let handshakeHash: [UInt8]
    let datagrams: NoiseDatagrams
}

/// The reason why a link is over.
enum LinkEnd: Sendable, Hashable {
    case handshake(HandshakeFailure)
    case closure(DirectClosure)
    case noThread(ThreadError)
}

/// Moves bytes between one link and the machines that decide: a thread reads and opens records, one writes control frames and
/// keeps the time, and each transfer has one for its disk, which also writes what it sends. Nothing here waits for the
/// engine, and no queue grows without bound.
final class LinkDriver: Sendable {
    private struct Shared {
        var connection: DirectConnection?
        /// Control frames to send, before any content.
        var frames: [[UInt8]] = []
        var sources: [TransferID: SourcePump] = [:]
        var sinks: [TransferID: SinkPump] = [:]
        var handshakeDeadline: MonotonicInstant
        /// The writer thread must run a turn although no frame is queued.
        var owesTurn = false
        /// The connection is closed: queued frames are sent, then the link ends.
        var isEnding = false
        var lingers = true
        /// The reader thread has reached the end of the stream, or has ended.
        var hasReadAll = false
    }

    /// The parameters of a link driver besides its link.
    struct Parts: Sendable {
        var role: HandshakeRole
        var identity: LocalIdentity
        var name: DisplayName
        var ciphers: UInt8
        var encryption: EncryptionPreference
        var limits: DirectLimits
        var clock: @Sendable () -> MonotonicInstant
        var wallClock: @Sendable () -> WallTime
        /// Fresh random bytes.
        var random: @Sendable (Int) -> [UInt8]
    }

    /// The work of one transfer's thread.
    private struct Job: Sendable {
        let run: @Sendable () -> Void
        /// Called instead, when no thread can be started.
        let refuse: @Sendable () -> Void
    }

    /// Limit on queued replies: a peer that keeps asking without reading is disconnected.
    private static let maximumQueuedFrames = 4096
    /// Limit on buffered unreliable datagrams, per direction; the oldest are dropped.
    private static let maximumQueuedDatagrams = 256
    /// Limit on unread session frames: a member that sends more violates the protocol.
    private static let maximumWaitingSessionFrames = 1024
    private static let maximumWaitingEvents = 2 * maximumWaitingSessionFrames
    /// Time that the peer has to read the last frame before the link is closed.
    private static let lingerTime = Duration.seconds(1)
    /// Size of a receive buffer: more than a sender writes at once.
    private static let receiveBlockByteCount = 640 << 10

    let events: AsyncStream<LinkEvent>
    /// Byte streams beside the transfers.
    let streams: LinkStreams
    /// Unreliable datagrams received on this link; the oldest are dropped.
    let datagrams: AsyncStream<[UInt8]>
    private let datagramContinuation: AsyncStream<[UInt8]>.Continuation
    private let eventContinuation: AsyncStream<LinkEvent>.Continuation
    private let jobs: AsyncStream<Job>
    private let jobContinuation: AsyncStream<Job>.Continuation
    private let link: any StreamLink
    private let parts: Parts
    private let writer: LinkWriter
    private let shared: Monitor<Shared>
    private let receivePool = BlockPool(byteCount: receiveBlockByteCount, kept: 4)

    init(link: any StreamLink, parts: Parts) {
        self.link = link
        self.parts = parts
        writer = LinkWriter(link)
        let shared = Monitor(Shared(handshakeDeadline: parts.clock() + DirectLimits.handshakeTimeout))
        self.shared = shared
        streams = LinkStreams(role: parts.role) { shared.update { _ in } }
        (datagrams, datagramContinuation) = AsyncStream.makeStream(
            bufferingPolicy: .bufferingNewest(Self.maximumQueuedDatagrams))
        // Events are rare and bounded by the machine's own limits, but for what members say about their session.
        (events, eventContinuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.maximumWaitingEvents))
        (jobs, jobContinuation) = AsyncStream.makeStream()
    }

    /// Runs the link until it is over and all its threads have ended. Cancelling the task cuts the link.
    func run() async {
        await withTaskCancellationHandler {
            await withDiscardingTaskGroup { group in
                do throws(ThreadError) {
                    let writer = try BlockingThread.start { self.writeLoop() }
                    group.addTask { await writer.join() }
                    let reader = try BlockingThread.start { self.readLoop() }
                    group.addTask { await reader.join() }
                } catch {
                    link.close()
                    finishReading(.noThread(error))
                }
                for await job in jobs {
                    group.addTask {
                        do { try await BlockingThread.run(job.run) } catch { job.refuse() }
                    }
                }
            }
        } onCancel: {
            link.close()
        }
    }

    // MARK: Requests of the owner

    func offer(_ offer: TransferOffer, transfer: Transfer, source: any ResourceSource) {
        let pump = SourcePump(wireID: offer.id, transfer: transfer, source: source, clock: parts.clock)
        transfer.onCancel { [weak self] in self?.cancel(offer.id, because: .cancelled) }
        decide { shared, connection, now in
            shared.sources[offer.id] = pump
            return connection.offer(offer, now: now)
        } otherwise: {
            transfer.end(TransferResult(outcome: .interrupted))
        }
    }

    func accept(_ offer: TransferOffer, transfer: Transfer, sink: any ResourceSink, keepsPartial: Bool) {
        let pump = SinkPump(
            wireID: offer.id, transfer: transfer, offer: offer.offer, sink: sink, keepsPartial: keepsPartial)
        transfer.onCancel { [weak self] in self?.cancel(offer.id, because: .cancelled) }
        transfer.onCut { [link] in link.close() }
        let pumpLink = sinkLink(offer.id)
        var isTooLate = false
        decide { shared, connection, now in
            let reactions = connection.accept(offer.id, now: now)
            let isTaken = reactions.contains { if case .send(.accept) = $0 { true } else { false } }
            if isTaken {
                shared.sinks[offer.id] = pump
            } else {
                // The offer expired or was withdrawn, or the link is about to end, before it was accepted.
                pump.end(connection.isClosed ? .interrupted : .expired)
            }
            // A link that is ending starts no more jobs, so this one, which only reports its end, runs here.
            let job = Job {
                pump.run(pumpLink)
            } refuse: {
                self.cancel(offer.id, because: .storageFailed)
                pump.end(.failed(.storageFailed, at: .local))
                // Only reports its end, and waits for no content.
                pump.run(pumpLink)
            }
            if case .terminated = self.jobContinuation.yield(job) { isTooLate = true }
            return reactions
        } otherwise: {
            pump.end(.interrupted)
            isTooLate = true
        }
        if isTooLate { pump.run(pumpLink) }
    }

    func decline(_ id: TransferID, because reason: DeclineReason) {
        decide { _, connection, _ in connection.decline(id, reason: reason) }
    }

    func cancel(_ id: TransferID, because reason: CancelReason) {
        decide { _, connection, now in connection.cancel(id, reason: reason, now: now) }
    }

    func send(_ frame: SessionFrame) {
        shared.update { shared in
            guard shared.connection != nil else { return }
            // A roster is complete in itself, so an older one that is still queued is obsolete.
            if case .roster = frame { shared.frames.removeAll { $0.first == FrameType.sessionRoster } }
            shared.frames.append(frame.encoded)
        }
    }

    /// nil when too many are open, or the link is breaking.
    func openStream(_ purpose: StreamPurpose, _ name: StreamName) -> ByteStream? {
        (try? streams.open(purpose, name)).map { ByteStream($0, name, streams) }
    }

    /// Offers a resource, and sends it when the peer accepts.
    func send(
        _ source: any ResourceSource, resumeKey: [UInt8], context: [UInt8], timeout: Duration, _ settings: NodeSettings,
        _ transfers: TransferProgressManager
    ) -> Transfer {
        let id = settings.freshTransferID()
        var progress = TransferProgress(
            id: id, direction: .outgoing, total: source.offer.totalSize, totalEntries: source.offer.entryCount)
        progress.phase = .waiting
        let transfer = Transfer(progress: progress, clock: settings.clock)
        transfers.add(transfer)
        offer(
            TransferOffer(
                id: id, timeout: min(max(.seconds(timeout.components.seconds), .seconds(1)), TransferOffer.maximumTimeout),
                resumeKey: resumeKey, context: context, offer: source.offer),
            transfer: transfer, source: source)
        return transfer
    }

    /// Closes the link because the peer violated the protocol on one of its streams.
    func violated(_ what: MalformedInput) {
        decide { _, connection, _ in connection.violation(what) }
    }

    /// Writes due frames on the calling thread, as far as no other thread is writing and the link has room; the writer thread
    /// does the rest.
    func flush() {
        do throws(LinkError) {
            let isDone = try writer.tryTurn {
                let frames = shared.withLock { shared in
                    defer { shared.frames = [] }
                    return shared.frames
                }
                return frames + streams.takeFrames()
            }
            if !isDone { shared.update { $0.owesTurn = true } }
        } catch {
            // As in `send(_:of:)`.
            link.close()
        }
    }

    /// Sends a datagram at once, or drops it.
    func sendDatagram(_ bytes: [UInt8]) {
        shared.update { shared in
            guard shared.connection != nil, shared.frames.count < Self.maximumQueuedDatagrams else { return }
            shared.frames.append([FrameType.datagram] + bytes)
        }
    }

    /// Whether no transfer is active or offered.
    var isIdle: Bool { shared.withLock { $0.connection?.isIdle ?? true } }

    func askComparison() {
        decide { _, connection, _ in connection.requestVerification() }
    }

    func answerComparison(isSame: Bool) {
        decide { _, connection, _ in connection.answerVerification(matches: isSame) }
    }

    func close(_ reason: CloseReason) {
        decide { shared, connection, _ in
            shared.lingers = reason != .done
            return connection.close(reason)
        } otherwise: {
            self.link.close()
        }
    }

    private func sinkLink(_ id: TransferID) -> SinkPump.Link {
        SinkPump.Link(
            resumePoint: { [self] point in decide { _, connection, _ in connection.resume(id, at: point) } },
            stored: { [self] total in decide { _, connection, _ in connection.recordStored(id, upTo: total) } },
            mayFinish: { [self] in
                var may = false
                decide { _, connection, _ in
                    may = connection.beginFinishing(id)
                    return []
                }
                return may
            },
            finished: { [self] in decide { _, connection, _ in connection.finish(id) } },
            failed: { [self] reason in decide { _, connection, now in connection.cancel(id, reason: reason, now: now) } },
            violated: { [self] what in decide { _, connection, _ in connection.violation(what) } })
    }

    // MARK: Deciding

    /// Passes an input to the machine and performs its reactions, as one step under the lock.
    private func decide(
        _ ask: (inout Shared, inout DirectConnection, MonotonicInstant) -> [DirectReaction],
        otherwise: () -> Void = {}
    ) {
        let now = parts.clock()
        let hasWork: Bool? = shared.withLock { shared in
            guard var connection = shared.connection.take() else { return nil }
            let reactions = ask(&shared, &connection, now)
            shared.connection = connection
            perform(reactions, &shared)
            // Most reactions are none or window grants, which concern only a transfer's own thread; then the writer thread may
            // sleep on.
            return reactions.contains { if case .windowRaised = $0 { false } else { true } }
        }
        switch hasWork {
        case nil: otherwise()
        case true?: shared.update { _ in }
        case false?: break
        }
    }

    private func perform(_ reactions: [DirectReaction], _ shared: inout Shared) {
        for reaction in reactions {
            switch reaction {
            case .send(let frame):
                shared.frames.append(frame.encoded)
            case .helloReceived(let name, let time): eventContinuation.yield(.greeted(name, time: time))
            case .authenticationStringReady(let text): eventContinuation.yield(.shortCode(text))
            case .verificationRequested: eventContinuation.yield(.comparisonAsked)
            case .verificationAnswered(let isSame): eventContinuation.yield(.comparisonAnswered(isSame: isSame))
            case .offerReceived(let offer, let expiry): eventContinuation.yield(.invited(offer, until: expiry))
            case .offerAccepted(let id): shared.sources[id]?.transfer.enter(.comparing)
            case .startSending(let id, let point):
                guard let pump = shared.sources[id] else { continue }
                let job = Job { [self] in
                    feed(from: pump, point)
                } refuse: { [self] in
                    cancel(pump.wireID, because: .sourceUnreadable)
                }
                jobContinuation.yield(job)
            case .windowRaised(let id, let limit): shared.sources[id]?.allow(upTo: limit)
            case .stopSending(let id): shared.sources[id]?.stop()
            case .outgoingEnded(let id, let outcome):
                guard let pump = shared.sources.removeValue(forKey: id) else { continue }
                pump.end(outcome)
            case .incomingEnded(let id, let outcome):
                if let pump = shared.sinks.removeValue(forKey: id) {
                    pump.end(outcome)
                } else {
                    eventContinuation.yield(.invitationEnded(id, outcome))
                }
            case .closed(let closure):
                shared.isEnding = true
                if case .lost = closure { link.close() }
                eventContinuation.yield(.closed(.closure(closure)))
                eventContinuation.finish()
                jobContinuation.finish()
            }
        }
        if shared.frames.count > Self.maximumQueuedFrames { link.close() }
    }

    private func feed(from pump: SourcePump, _ point: ResumePoint) {
        do throws(StorageError) {
            try pump.run(from: point) { filled in send(filled, of: pump) }
        } catch {
            cancel(pump.wireID, because: error.code == .changed ? .sourceChanged : .sourceUnreadable)
        }
    }

    /// Writes a block on the pump's own thread.
    /// - Returns: false when no more of the transfer is to be sent.
    private func send(_ filled: borrowing FilledBlock, of pump: SourcePump) -> Bool {
        do throws(LinkError) {
            return try writer.withTurn { (turn) throws(LinkError) in
                // As one step: content must neither follow the end of its transfer nor overtake a frame that was decided before
                // it.
                let isLast = filled.isLast
                let (frames, goesOn) = shared.withLock { shared in
                    defer { shared.frames = [] }
                    let goesOn = !pump.isStopped
                    if goesOn, isLast { shared.connection?.finishSending(pump.wireID) }
                    return (shared.frames, goesOn)
                }
                try turn.write(frames)
                if goesOn { try turn.write(filled) }
                return goesOn
            }
        } catch {
            // The reader thread sees the same failure and reports it; a half-broken link is closed so that it does.
            link.close()
            return false
        }
    }

    // MARK: The reading thread

    private func readLoop() {
        finishReading(readAll())
    }

    private func finishReading(_ end: LinkEnd?) {
        streams.close()
        datagramContinuation.finish()
        shared.update { $0.hasReadAll = true }
        switch end {
        case .handshake?, .noThread?:
            if let end { eventContinuation.yield(.closed(end)) }
            eventContinuation.finish()
            jobContinuation.finish()
            shared.update { $0.isEnding = true }
            link.finishWriting()
        case .some(.closure), nil:
            decide { _, connection, _ in connection.linkEnded() }
        }
    }

    private func readAll() -> LinkEnd? {
        let handshake: EstablishedLink
        switch shakeHands() {
        case .success(let established): handshake = established
        case .failure(let failure): return .handshake(failure)
        }
        begin(handshake)
        var opener = handshake.opener
        var block = receivePool.take()
        var filled = handshake.leftover.count
        block.bytes.copyBytes(from: handshake.leftover)
        var position = 0
        do throws(LinkError) {
            while true {
                do throws(MalformedInput) {
                    try takeRecords(in: block, from: &position, to: filled, with: &opener)
                } catch {
                    decide { _, connection, _ in connection.violation(error) }
                    drain()
                    return nil
                }
                if block.bytes.count - filled < RecordFormat.maximumRecordByteCount {
                    // Delivered records may still be on their way to the disk, so the unread rest is moved instead of them.
                    let next = receivePool.take()
                    let rest = UnsafeRawBufferPointer(rebasing: block.bytes[position..<filled])
                    next.bytes.copyMemory(from: rest)
                    (block, position, filled) = (next, 0, rest.count)
                }
                let count = try link.read(into: UnsafeMutableRawBufferPointer(rebasing: block.bytes[filled...]))
                if count == 0 { return nil }
                filled += count
                let now = parts.clock()
                shared.withLock { $0.connection?.recordActivity(now: now) }
            }
        } catch {
            return nil
        }
    }

    /// After the last frame, bytes from the peer are read and discarded: closing with unread data would reset the connection
    /// and lose the frame.
    private func drain() {
        let block = receivePool.take()
        do throws(LinkError) {
            while try link.read(into: block.bytes) > 0 {}
        } catch {}
    }

    private func takeRecords(
        in block: Block, from position: inout Int, to filled: Int, with opener: inout RecordOpener
    ) throws(MalformedInput) {
        var batch: [(id: TransferID, pieces: [Piece])] = []
        // Records received before a malformed one are still delivered.
        defer { deliver(batch) }
        while let length = try RecordOpener.recordByteCount(UnsafeRawBufferPointer(rebasing: block.bytes[position..<filled])),
            position + length <= filled
        {
            let start = position
            position += length
            let opened = try opener.openInPlace(UnsafeMutableRawBufferPointer(rebasing: block.bytes[start..<position]))
            let frame = start + opened.lowerBound..<start + opened.upperBound
            if block.bytes[frame.lowerBound] == FrameType.content {
                guard frame.count > RecordFormat.contentHeaderByteCount else {
                    throw MalformedInput("a content frame without content")
                }
                let raw = block.bytes.loadUnaligned(fromByteOffset: frame.lowerBound + 1, as: UInt64.self)
                let id = TransferID(rawValue: UInt64(bigEndian: raw))
                let piece = Piece(
                    block: block, range: frame.lowerBound + RecordFormat.contentHeaderByteCount..<frame.upperBound)
                guard isWanted(id, count: piece.range.count) else { continue }
                if batch.last?.id == id {
                    batch[batch.count - 1].pieces.append(piece)
                } else {
                    batch.append((id, [piece]))
                }
            } else if let stream = try StreamFrame(decoding: Array(block.bytes[frame])[...]) {
                try streams.receive(stream)
            } else if block.bytes[frame.lowerBound] == FrameType.datagram {
                datagramContinuation.yield(Array(block.bytes[frame].dropFirst()))
            } else if let session = try SessionFrame(decoding: Array(block.bytes[frame])[...]) {
                guard case .enqueued(let room) = eventContinuation.yield(.session(session)),
                    room > Self.maximumWaitingEvents - Self.maximumWaitingSessionFrames
                else { throw MalformedInput("too many session frames are unread") }
            } else if let control = try ControlFrame.decode(Array(block.bytes[frame])) {
                deliver(batch)
                batch = []
                decide { _, connection, now in connection.receive(control, now: now) }
            }
        }
    }

    private func isWanted(_ id: TransferID, count: Int) -> Bool {
        var verdict = ContentVerdict.drop
        decide { _, connection, now in
            let answer = connection.receiveContent(id, byteCount: count, now: now)
            verdict = answer.verdict
            return answer.reactions
        }
        return verdict == .deliver
    }

    private func deliver(_ batch: [(id: TransferID, pieces: [Piece])]) {
        for (id, pieces) in batch {
            let pump = shared.withLock { $0.sinks[id] }
            pump?.take(pieces)
        }
    }

    private func shakeHands() -> Result<EstablishedLink, HandshakeFailure> {
        var handshake = DirectHandshake(
            role: parts.role, identity: parts.identity, ephemeral: parts.random(32), ciphers: parts.ciphers,
            encryption: parts.encryption)
        var buffer = [UInt8](repeating: 0, count: 2048)
        do {
            let first = try handshake.start()
            try write(first)
            while true {
                let count = try buffer.withUnsafeMutableBytes { (raw) throws(LinkError) in try link.read(into: raw) }
                guard count > 0 else { return .failure(.notAPeer("the other side closed the connection during the handshake")) }
                switch handshake.receive(buffer[..<count]) {
                case .needsMore: break
                case .send(let bytes): try write(bytes)
                case .established(let established, let bytes):
                    try write(bytes)
                    return .success(established)
                case .failed(let failure, let bytes):
                    try write(bytes)
                    return .failure(failure)
                }
            }
        } catch let failure as HandshakeFailure {
            return .failure(failure)
        } catch {
            let isLate = parts.clock() >= shared.withLock { $0.handshakeDeadline }
            return .failure(
                .notAPeer(
                    isLate
                        ? "the other side did not finish the handshake in time"
                        : "the connection broke during the handshake"))
        }
    }

    private func write(_ bytes: [UInt8]) throws(LinkError) {
        guard !bytes.isEmpty else { return }
        try bytes.withUnsafeBufferPointer { (raw) throws(LinkError) in try link.write(UnsafeRawBufferPointer(raw)) }
    }

    private func begin(_ established: EstablishedLink) {
        let connection = DirectConnection(
            ownName: parts.name,
            authenticationString: ShortAuthenticationString(
                role: parts.role, handshakeHash: established.handshakeHash,
                nonce: parts.random(ShortAuthenticationString.nonceByteCount)),
            limits: parts.limits, now: Moment(monotonic: parts.clock(), wall: parts.wallClock()))
        let reactions = connection.start()
        writer.begin(established.sealer)
        shared.update { shared in
            shared.connection = connection
            perform(reactions, &shared)
        }
        eventContinuation.yield(
            .established(
                established.peer,
                LinkSecrets(handshakeHash: established.handshakeHash, datagrams: established.datagrams)))
    }

    // MARK: The writing thread

    private enum Work {
        case frames
        case timer
        case end(lingers: Bool)
    }

    private func writeLoop() {
        do throws(LinkError) {
            while true {
                switch nextWork() {
                case .frames:
                    try writer.withTurn { (turn) throws(LinkError) in
                        let frames = shared.withLock { shared in
                            defer { (shared.frames, shared.owesTurn) = ([], false) }
                            return shared.frames
                        }
                        try turn.write(frames + streams.takeFrames())
                    }
                case .timer:
                    let now = parts.clock()
                    let isLate = shared.withLock { $0.connection == nil && now >= $0.handshakeDeadline }
                    if isLate { link.close() }
                    decide { _, connection, now in connection.advance(to: now) }
                case .end(let lingers):
                    // All pumps have been stopped, but one may still be writing its last block.
                    if shared.withLock({ $0.connection != nil }) { try writer.withTurn { _ in } }
                    link.finishWriting()
                    if lingers { waitForReader() }
                    link.close()
                    return
                }
            }
        } catch {
            // As in `send(_:of:)`.
            link.close()
        }
    }

    private func nextWork() -> Work {
        let deadline = shared.withLock { $0.connection?.deadline ?? $0.handshakeDeadline }
        let next = shared.wait(untilNanoseconds: deadline.nanoseconds) { shared -> Work? in
            if !shared.frames.isEmpty || shared.owesTurn { return .frames }
            if shared.isEnding { return .end(lingers: shared.lingers && !shared.hasReadAll) }
            if shared.connection != nil, streams.hasFrames { return .frames }
            // A new deadline is earlier than the awaited one.
            if let next = shared.connection?.deadline, next < deadline { return .timer }
            return nil
        }
        return next ?? .timer
    }

    private func waitForReader() {
        let end = parts.clock() + Self.lingerTime
        _ = shared.wait(untilNanoseconds: end.nanoseconds) { $0.hasReadAll ? () : nil }
    }
}
