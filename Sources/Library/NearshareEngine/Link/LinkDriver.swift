internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces

/// An event of a link for its owner or the user. Events are rare.
enum LinkEvent: Sendable {
    case established(AuthenticatedPeer, HandshakeResult)
    /// The peer's name, and the time of its clock.
    case greeted(DisplayName, time: WallTime)
    case shortCode(ShortAuthenticationDigits)
    case verificationRequested
    case verificationAnswered(matches: Bool)
    case invited(TransferOffer, until: MonotonicInstant)
    /// An invitation ended without being accepted.
    case invitationEnded(TransferID, TransferOutcome)
    /// A session frame from the peer.
    case session(SessionFrame)
    /// A step of the agreement about a Wi-Fi network.
    case hotspot(HotspotEvent)
    /// The last event.
    case closed(LinkEnd)
}

/// The values of a finished handshake that are used outside the link's records.
struct HandshakeResult: Sendable {
    /// The version of the protocol.
    let version: UInt8
    /// Unique to this link, and equal on both ends.
    let handshakeHash: [UInt8]
    let datagrams: NoiseDatagrams
}

/// The reason why a link is over.
enum LinkEnd: Sendable, Hashable, CustomStringConvertible {
    case handshake(HandshakeFailure)
    case closure(DirectClosure)
    case noThread(ThreadError)

    /// The words for logs.
    var description: String {
        switch self {
        case .closure(.closed(by: .local, .done)): "it had nothing more to do"
        case .closure(.closed(by: .remote, .done)): "the peer has closed it"
        case .handshake, .closure, .noThread: NodeError(self).description
        }
    }
}

/// Moves bytes between one link and the machine that decides: a thread reads and opens records, one writes control frames and
/// keeps the time, and each transfer has one for its file, which also writes what it sends. No thread waits for the engine, and
/// no queue grows without bound.
///
///     LinkReader ──frames, content──► LinkControl (LinkMachine) ──frames──► writing thread ──► LinkWriter
///                                          └──► LinkTransfers: SourcePump ──blocks──► LinkWriter, SinkPump
final class LinkDriver: Sendable {
    /// The parameters of a link besides its stream.
    struct Parameters: Sendable {
        var role: HandshakeRole
        var identity: LocalIdentity
        var name: DisplayName
        /// The ciphers of records that the handshake proposes.
        var ciphers: CipherSet
        var encryption: EncryptionPreference
        var limits: DirectLimits
        var clock: @Sendable () -> MonotonicInstant
        var wallClock: @Sendable () -> WallTime
        /// Fresh random bytes.
        var random: @Sendable (Int) -> [UInt8]
    }

    /// Byte streams beside the transfers.
    let streams: LinkStreams
    /// Unreliable datagrams received on this link.
    let datagrams = LinkDatagrams()
    private let link: any StreamLink
    private let parameters: Parameters
    private let writer: LinkWriter
    private let control: LinkControl

    init(link: any StreamLink, parameters: Parameters) {
        self.link = link
        self.parameters = parameters
        writer = LinkWriter(link)
        let control = LinkControl(clock: parameters.clock) { link.close() }
        self.control = control
        streams = LinkStreams(role: parameters.role) { control.driver.wake() }
    }

    var events: AsyncStream<LinkEvent> { control.events }

    /// Runs the link until it is over and all its threads have ended. Cancelling the task cuts the link.
    func run() async {
        await withTaskCancellationHandler {
            await withDiscardingTaskGroup { group in
                let reader = LinkReader(
                    link: link, parameters: parameters, control: control, writer: writer, streams: streams,
                    datagrams: datagrams)
                do throws(ThreadError) {
                    let writing = try BlockingThread.start { self.writeLoop() }
                    group.addTask { await writing.join() }
                    let reading = try BlockingThread.start { reader.run() }
                    group.addTask { await reading.join() }
                } catch {
                    link.close()
                    reader.finish(.noThread(error))
                }
                for await job in control.jobs {
                    group.addTask {
                        do { try await BlockingThread.run { self.perform(job) } } catch { self.refuse(job) }
                    }
                }
            }
        } onCancel: {
            link.close()
        }
    }

    // MARK: Requests of the owner

    /// The numeric local address of a link to another machine; nil for a link-local one, and on other media.
    var localNetworkHost: String? { link.localHost.flatMap { IPAddress.isLoopback(host: $0) ? nil : $0 } }

    /// Ends the link at once, as if it had broken: transfers can be resumed.
    func cut() { link.close() }

    /// Whether another offer may wait for the peer's answers to those before.
    var hasRoomForOffer: Bool { control.driver.read { $0.hasRoomForOffer } }

    /// Offers content, which is sent when the peer accepts.
    func offer(_ offer: TransferOffer, transfer: Transfer, source: any ResourceSource, rateLimit: TransmissionLimit? = nil) {
        let pump = SourcePump(
            wireID: offer.id, transfer: transfer, source: source, rateLimit: rateLimit, clock: parameters.clock)
        transfer.onCancel { [weak self] in self?.cancel(offer.id, because: .cancelled) }
        control.offer(offer, from: pump)
    }

    /// Accepts an offer, and stores its content.
    /// - Parameter part: the accepted part of the offer; nil for all of it.
    func accept(
        _ offer: TransferOffer, part: OfferPart? = nil, transfer: Transfer, sink: any ResourceSink, keepsPartial: Bool
    ) {
        let pump = SinkPump(
            of: offer, part: part, transfer: transfer, sink: sink, keepsPartial: keepsPartial, clock: parameters.clock)
        transfer.onCancel { [weak self] in self?.cancel(offer.id, because: .cancelled) }
        transfer.onCut { [link] in link.close() }
        if !control.accept(offer.id, selecting: part?.selection, into: pump) { pump.run(sinkReports(offer.id)) }
    }

    func decline(_ id: TransferID, because reason: DeclineReason) {
        control.decide { connection, _ in connection.decline(id, reason: reason) }
    }

    /// Declines all offers that await an answer, and writes that as far as the link has room.
    func declineOffers() {
        control.decide { connection, _ in connection.declineOffers() }
        flush()
    }

    func cancel(_ id: TransferID, because reason: CancelReason) { control.cancel(id, because: reason) }

    func send(_ frame: SessionFrame) {
        control.driver.update { machine, _ in machine.send(frame) }
    }

    /// Opens a byte stream.
    /// - Returns: nil when too many are open, or the link is breaking.
    func openStream(_ purpose: StreamPurpose, _ name: StreamName, with member: PeerID) -> ByteStream? {
        (try? streams.open(purpose, name)).map { ByteStream($0, name, streams, with: member) }
    }

    /// Offers a resource, and sends it when the peer accepts.
    func send(
        _ source: any ResourceSource, resumeKey: [UInt8], context: [UInt8], timeout: Duration,
        rateLimit: TransmissionLimit? = nil, _ settings: NodeSettings, _ transfers: TransferProgressManager
    ) -> Transfer {
        let id = settings.freshTransferID()
        var progress = TransferProgress(
            id: id, direction: .outgoing, total: source.offer.totalSize,
            totalEntries: EntryCounter(of: source.offer, listed: source.contents).total)
        progress.phase = .waiting
        let transfer = Transfer(progress: progress, clock: settings.clock)
        transfers.add(transfer)
        offer(
            TransferOffer(
                id: id, timeout: min(max(.seconds(timeout.components.seconds), .seconds(1)), TransferOffer.maximumTimeout),
                resumeKey: resumeKey, context: context, offer: source.offer, features: source.features,
                contents: source.contents),
            transfer: transfer, source: source, rateLimit: rateLimit)
        return transfer
    }

    /// Closes the link because the peer has violated the protocol on one of its streams.
    func closeForViolation(_ violation: MalformedInput) { control.closeForViolation(violation) }

    /// Writes due frames on the calling thread, as far as no other thread is writing and the link has room; the writing thread
    /// does the rest.
    func flush() {
        do throws(LinkError) {
            let isDone = try writer.tryTurn { control.driver.withMachine { $0.drainFrames() } + streams.dequeueFrames() }
            if !isDone { control.driver.update { machine, _ in machine.requestTurn() } }
        } catch {
            // See `send(_:of:)`.
            link.close()
        }
    }

    /// Sends a datagram at once, or drops it.
    func sendDatagram(_ bytes: [UInt8]) {
        control.driver.update { machine, _ in machine.sendDatagram(bytes) }
    }

    /// Whether no transfer is active or offered.
    var isIdle: Bool { control.driver.read { $0.isIdle } }

    /// The round-trip time of the link; nil before the first measurement.
    var roundTripTime: Duration? { control.driver.read { $0.roundTripTime } }

    /// The time since which the link is not used; nil while it is, or is about to end.
    func unusedSince(now: MonotonicInstant) -> MonotonicInstant? { control.driver.read { $0.unusedSince(now: now) } }

    /// The bytes a second that a link with a running transfer moves; nil on any other.
    func transferRate(now: MonotonicInstant) -> Int? { control.driver.read { $0.transferRate(now: now) } }

    /// Whether the link has a running transfer that waits for the peer.
    var isMoving: Bool { control.driver.read { $0.isMoving } }

    /// Counts the link as used until a time, whatever happens on it.
    func reserve(until time: MonotonicInstant) {
        control.driver.update { machine, now in machine.reserve(until: time, now: now.monotonic) }
    }

    /// Counts the link as used until it ends: it belongs to a friend or to a session.
    func reserve() { reserve(until: MonotonicInstant(nanoseconds: .max)) }

    /// Ends ``reserve(until:)``: from now on, the link counts as used only while it is.
    func endReservation() {
        control.driver.update { machine, now in machine.reserve(until: now.monotonic, now: now.monotonic) }
    }

    /// Measures the round-trip time from now on.
    func measureRoundTripTime() {
        control.decide { connection, now in connection.measureRoundTripTime(now: now) }
    }

    func requestVerification() {
        control.decide { connection, _ in connection.requestVerification() }
    }

    func answerVerification(matches: Bool) {
        control.decide { connection, _ in connection.answerVerification(matches: matches) }
    }

    /// Passes a local step of the agreement about a Wi-Fi network to the connection.
    func decideHotspot(_ input: (inout DirectConnection, MonotonicInstant) -> [DirectReaction]) { control.decide(input) }

    func close(_ reason: CloseReason) {
        if !control.driver.update({ machine, _ in machine.close(reason) }) { link.close() }
    }

    // MARK: Threads of transfers

    private func perform(_ job: LinkControl.Job) {
        switch job {
        case .feed(let pump, let point): feed(from: pump, point)
        case .store(let pump): pump.run(sinkReports(pump.wireID))
        }
    }

    /// Ends a transfer for which no thread can be started.
    private func refuse(_ job: LinkControl.Job) {
        switch job {
        case .feed(let pump, _): cancel(pump.wireID, because: .sourceUnreadable)
        case .store(let pump):
            cancel(pump.wireID, because: .storageFailed)
            pump.end(.failed(.storageFailed, at: .local))
            // Only reports its end, and waits for no content.
            pump.run(sinkReports(pump.wireID))
        }
    }

    private func sinkReports(_ id: TransferID) -> SinkPump.Reports {
        SinkPump.Reports(
            listFiles: { [control] in control.decide { connection, now in connection.listFiles(id, now: now) } },
            requestDigests: { [control] files in
                control.decide { connection, _ in connection.requestDigests(id, of: files) }
            },
            reportPresent: { [control] identical, newer in
                control.decide { connection, _ in connection.reportPresent(id, identical: identical, newer: newer) }
            },
            resumePoint: { [control] point in control.decide { connection, now in connection.resume(id, at: point, now: now) }
            },
            stored: { [control] total in
                control.decide { connection, now in connection.recordStored(id, upTo: total, now: now) }
            },
            mayFinish: { [control] in
                var may = false
                control.decide { connection, now in
                    may = connection.beginFinishing(id, now: now)
                    return []
                }
                return may
            },
            finished: { [control] names in control.decide { connection, now in connection.finish(id, names, now: now) } },
            failed: { [control] reason in control.decide { connection, now in connection.cancel(id, reason: reason, now: now) }
            },
            closeForViolation: { [control] what in control.decide { connection, _ in connection.violation(what) } })
    }

    private func feed(from pump: SourcePump, _ point: ResumePoint?) {
        do throws(SourcePumpError) {
            try pump.run(from: point) { filled in send(filled, of: pump) }
        } catch {
            switch error {
            case .source(let failure):
                cancel(pump.wireID, because: failure.code == .changed ? .sourceChanged : .sourceUnreadable)
            case .violation(let what): closeForViolation(what)
            // Another link may get further.
            case .stalled: cancel(pump.wireID, because: .goingAway)
            }
        }
    }

    /// Writes a block on the pump's own thread.
    /// - Returns: false when no more of the transfer is to be sent.
    private func send(_ filled: borrowing FilledBlock, of pump: SourcePump) -> Bool {
        do throws(LinkError) {
            return try writer.withTurn { (turn) throws(LinkError) in
                let (isLast, byteCount, now) = (filled.isLast, filled.bytes.count, parameters.clock())
                let (frames, isRunning) = control.driver.withMachine { machine in
                    let isRunning = !pump.isStopped
                    if isRunning { machine.recordWriting(byteCount: byteCount, now: now) }
                    return (machine.drainFrames(beforeContentOf: pump.wireID, isLast: isRunning && isLast), isRunning)
                }
                try turn.write(frames)
                if isRunning { try turn.write(filled) }
                return isRunning
            }
        } catch {
            // The reader thread sees the same failure and reports it; a half-broken link is closed so that it does.
            link.close()
            return false
        }
    }

    // MARK: The writing thread

    private enum Work {
        case frames
        case end
    }

    private func writeLoop() {
        do throws(LinkError) {
            while case .frames = nextWork() {
                try writer.withTurn { (turn) throws(LinkError) in
                    let frames = control.driver.withMachine { $0.drainFrames() }
                    try turn.write(frames + streams.dequeueFrames())
                }
            }
            // All pumps have been stopped, but one may still be writing its last block.
            if control.driver.read({ $0.isEstablished }) { try writer.withTurn { _ in } }
            link.finishWriting()
            control.driver.update { machine, now in machine.finishWriting(now: now) }
            control.driver.run()
            link.close()
        } catch {
            // See `send(_:of:)`.
            link.close()
        }
    }

    private func nextWork() -> Work {
        control.driver.next { machine in
            if machine.hasFrames { return .frames }
            if machine.isEnding { return .end }
            return machine.isEstablished && streams.hasFrames ? .frames : nil
        }
    }
}

extension ResourceSource {
    /// The abilities of a sender of this source. Listing reads the source more than once.
    fileprivate var features: TransferFeatures {
        guard offer.totalSize != nil, offer.items.contains(where: { $0.kind != .text }) else { return [] }
        return offer.entryCount > 1 ? [.listsFiles, .sendsParts, .withdrawsEntries] : .listsFiles
    }
}
