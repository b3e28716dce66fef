internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces

/// Routes the reactions of a ``LinkMachine`` to the transfers and to the link's owner.
///
/// Reactions run under the lock of ``driver``, so that no other thread comes between a decision and its consequences.
struct LinkControl: Sendable {
    /// The work of a new thread.
    enum Job: Sendable {
        /// The resume point is nil where files are compared first.
        case feed(SourcePump, from: ResumePoint?)
        case store(SinkPump)
    }

    let driver: MachineDriver<LinkMachine>
    let transfers: LinkTransfers
    let events: AsyncStream<LinkEvent>
    let jobs: AsyncStream<Job>
    private let eventContinuation: AsyncStream<LinkEvent>.Continuation
    private let jobContinuation: AsyncStream<Job>.Continuation

    /// Limit on unread session frames: a member that sends more violates the protocol.
    private static let maximumWaitingSessionFrameCount = 1024
    private static let maximumWaitingEventCount = 2 * maximumWaitingSessionFrameCount

    init(clock: @escaping @Sendable () -> MonotonicInstant, closeLink: @escaping @Sendable () -> Void) {
        // Events are rare and bounded by the machine's own limits, except session frames, which ``receive(_:)`` bounds.
        let (events, eventContinuation) = AsyncStream<LinkEvent>.makeStream(
            bufferingPolicy: .bufferingOldest(Self.maximumWaitingEventCount))
        let (jobs, jobContinuation) = AsyncStream<Job>.makeStream()
        let transfers = LinkTransfers()
        self.transfers = transfers
        (self.events, self.eventContinuation) = (events, eventContinuation)
        (self.jobs, self.jobContinuation) = (jobs, jobContinuation)
        driver = MachineDriver(LinkMachine(now: clock()), clock: clock) { reaction in
            switch reaction {
            case .cut: closeLink()
            case .connection(let reaction):
                switch reaction {
                // The machine queues frames itself.
                case .send: break
                case .helloReceived(let name, let time): eventContinuation.yield(.greeted(name, time: time))
                case .authenticationStringReady(let text): eventContinuation.yield(.shortCode(text))
                case .verificationRequested: eventContinuation.yield(.verificationRequested)
                case .verificationAnswered(let isSame): eventContinuation.yield(.verificationAnswered(matches: isSame))
                case .offerReceived(let offer, let expiry): eventContinuation.yield(.invited(offer, until: expiry))
                case .offerAccepted(let id): transfers.source(id)?.transfer.enter(.comparing)
                case .withdrawalAllowed(let id): transfers.source(id)?.allowWithdrawal()
                case .startSending(let id, let point):
                    if let pump = transfers.source(id), !pump.receive(point) {
                        jobContinuation.yield(.feed(pump, from: point))
                    }
                case .partSelected(let id, let selection): transfers.source(id)?.select(selection)
                case .listFiles(let id):
                    if let pump = transfers.source(id) {
                        pump.beginComparison()
                        jobContinuation.yield(.feed(pump, from: nil))
                    }
                case .sendDigests(let id, let candidates): transfers.source(id)?.receive(candidates: candidates)
                case .filesPresent(let id, let identical, let newer):
                    transfers.source(id)?.receivePresent(identical: identical, newer: newer)
                case .windowRaised(let id, let limit): transfers.source(id)?.allow(upTo: limit)
                case .stopSending(let id): transfers.source(id)?.stop()
                case .namesChanged(let id, let names): transfers.source(id)?.recordChangedNames(names)
                case .outputClosed(let id): transfers.source(id)?.recordClosedOutput()
                case .outgoingEnded(let id, let outcome): transfers.removeSource(id)?.end(outcome)
                case .incomingEnded(let id, let outcome):
                    if let pump = transfers.removeSink(id) {
                        pump.end(outcome)
                    } else {
                        eventContinuation.yield(.invitationEnded(id, outcome))
                    }
                case .hotspot(let event): eventContinuation.yield(.hotspot(event))
                case .closed(let closure):
                    if case .lost = closure { closeLink() }
                    eventContinuation.yield(.closed(.closure(closure)))
                    eventContinuation.finish()
                    jobContinuation.finish()
                }
            }
        }
    }

    // MARK: Decisions

    /// Passes an event to the connection, and performs its reactions as one step.
    /// - Returns: false before the handshake is finished.
    @discardableResult
    func decide(_ input: (inout DirectConnection, MonotonicInstant) -> [DirectReaction]) -> Bool {
        let result = driver.updateQuietly { machine, now in
            machine.decide { connection in input(&connection, now) }
        }
        return result != nil
    }

    func cancel(_ id: TransferID, because reason: CancelReason) {
        decide { connection, now in connection.cancel(id, reason: reason, now: now) }
    }

    /// Closes the connection after a protocol violation.
    func closeForViolation(_ violation: MalformedInput) {
        decide { connection, _ in connection.violation(violation) }
    }

    // MARK: Handshake

    func establish(_ connection: DirectConnection, _ peer: AuthenticatedPeer, _ handshake: HandshakeResult) {
        driver.update { machine, _ in machine.establish(connection) }
        eventContinuation.yield(.established(peer, handshake))
    }

    /// Ends a link that has no connection.
    func fail(_ end: LinkEnd) {
        eventContinuation.yield(.closed(end))
        eventContinuation.finish()
        jobContinuation.finish()
        driver.update { machine, _ in machine.failHandshake() }
    }

    // MARK: Sessions and transfers

    /// - Throws: when the owner does not keep up with what the peer says.
    func receive(_ frame: SessionFrame) throws(MalformedInput) {
        switch eventContinuation.yield(.session(frame)) {
        case .enqueued(let room) where room > Self.maximumWaitingEventCount - Self.maximumWaitingSessionFrameCount: break
        // The link is ending.
        case .terminated: break
        default: throw MalformedInput("too many session frames are unread")
        }
    }

    /// Offers content; the transfer ends at once when the link has no connection yet.
    func offer(_ offer: TransferOffer, from pump: SourcePump) {
        transfers.insert(pump)
        let isConnected = decide { connection, now in connection.offer(offer, now: now) }
        if !isConnected, let pump = transfers.removeSource(offer.id) {
            pump.transfer.end(TransferResult(outcome: .interrupted))
        }
    }

    /// Accepts an offer and starts the thread that stores its content.
    /// - Parameter selection: the accepted entries; nil for all.
    /// - Returns: false when the link is ending; the caller then runs the pump, which has ended.
    func accept(_ id: TransferID, selecting selection: EntrySelection?, into pump: SinkPump) -> Bool {
        var isStarted = true
        let isConnected = decide { connection, now in
            let reactions = connection.accept(id, selecting: selection, now: now)
            if reactions.contains(where: { if case .send(.accept) = $0 { true } else { false } }) {
                transfers.insert(pump)
            } else {
                // The offer expired or was withdrawn, or the link is about to end, before it was accepted.
                pump.end(connection.isClosed ? .interrupted : .expired)
            }
            // A link that is ending starts no more jobs.
            if case .terminated = jobContinuation.yield(.store(pump)) { isStarted = false }
            return reactions
        }
        if !isConnected { pump.end(.interrupted) }
        return isConnected && isStarted
    }
}
