package import NearshareBase
package import NearshareCrypto

/// The state of an established link: greeting, verification, offers, transfers, flow control, keepalive. It decides; the driver
/// moves the bytes.
///
///     greeting ──hello──► open ──close, loss, violation──► closed
///
/// Each part owns its state: ``Verification``, ``OutgoingTransfers``, ``IncomingTransfers``, ``HotspotNegotiationMachine``,
/// ``Keepalive``.
package struct DirectConnection: Sendable {
    private enum Phase {
        /// The peer's hello is awaited until `deadline`.
        case greeting(deadline: MonotonicInstant)
        case open
        case closed
    }

    private var phase: Phase
    private var verification: Verification
    private var outgoing = OutgoingTransfers()
    private var incoming: IncomingTransfers
    private var hotspot = HotspotNegotiationMachine()
    private var keepalive: Keepalive
    private var activity: LinkActivity
    /// The peer's progress in transfers.
    private var progress: ProgressMeter
    private let hello: ControlFrame
    /// The abilities that the peer has stated, for its next offers and as their receiver.
    private var peerFeatures: TransferFeatures = []
    /// The entries that the peer has listed for its next offer.
    private var listedContents: (id: TransferID, entries: [EntryHeader])?

    /// The name that the peer claims; nil before its hello.
    package private(set) var peerName: DisplayName?

    /// - Parameters:
    ///   - ownName: The display name to announce.
    ///   - authenticationString: Fresh, from this link's handshake.
    ///   - limits: The limits of this side.
    ///   - now: The time at which the handshake was completed.
    package init(
        ownName: DisplayName, authenticationString: ShortAuthenticationString, limits: DirectLimits, now: Moment
    ) {
        verification = Verification(authenticationString)
        incoming = IncomingTransfers(limits: limits)
        keepalive = Keepalive(now: now.monotonic)
        activity = LinkActivity(timeout: limits.unusedLinkTimeout, now: now.monotonic)
        progress = ProgressMeter(now: now.monotonic)
        progress.suspend(now: now.monotonic)
        hello = .hello(name: ownName, commitment: authenticationString.commitment, time: now.wall)
        phase = .greeting(deadline: now.monotonic + DirectLimits.handshakeTimeout)
    }

    /// Returns the hello frame, to be sent first.
    package func start() -> [DirectReaction] { [.send(hello)] }

    /// Whether the connection has ended.
    package var isClosed: Bool { if case .closed = phase { true } else { false } }

    /// Whether there is no transfer, no offer and no network for a transfer.
    package var isIdle: Bool { outgoing.isEmpty && incoming.isEmpty && !hotspot.isHeld }

    /// The time since which the link is unused, so that it can be evicted for another one; nil while it is used. An offer that waits
    /// for the user's answer counts as use for one minute.
    package func unusedSince(now: MonotonicInstant) -> MonotonicInstant? {
        guard isIdle || isQuestion else { return nil }
        let end = activity.evictableSince(lastQuestion: incoming.lastUnansweredOffer)
        return end > now ? nil : end
    }

    /// The bytes a second that a link with a running transfer moves; nil on any other, on one of a friend or a session, before
    /// there is an average, and while this side has to store what has arrived.
    package func transferRate(now: MonotonicInstant) -> Int? {
        isIdle || isQuestion || activity.isReserved ? nil : progress.rate(now: now)
    }

    /// Whether there is a running transfer that waits for the peer, on a link that is neither a friend's nor a session's. Before there
    /// is an average, it has no ``transferRate(now:)``.
    package var isMoving: Bool { !isIdle && !isQuestion && !activity.isReserved && !incoming.isWaitingForStorage }

    /// The round-trip time of the link, measured whenever it was silent, and from ``measureRoundTripTime(now:)`` on; nil before that.
    package var roundTripTime: Duration? { keepalive.roundTripTime }

    /// Whether there are unanswered offers of the peer, and no other transfers.
    private var isQuestion: Bool { outgoing.isEmpty && incoming.lastUnansweredOffer != nil && !hotspot.isHeld }

    /// Counts the link as active until a time, whatever happens on it: while the user is asked, or as long as it belongs to a
    /// session.
    package mutating func reserve(until time: MonotonicInstant, now: MonotonicInstant) {
        activity.reserve(until: time, now: now)
    }

    private mutating func recordActivity(_ now: MonotonicInstant) {
        keepalive.recordActivity(now: now)
        if !isIdle { activity.record(isQuestion: isQuestion, now: now) }
    }

    /// Measures the time in which a transfer waits for the peer: neither that in which the user is asked, nor that in which this
    /// side's disk or program is what holds a transfer up.
    private mutating func updateMeasurement(now: MonotonicInstant) {
        if incoming.isWaitingForStorage || isIdle || isQuestion {
            progress.suspend(now: now)
        } else {
            progress.resume(now: now)
        }
    }

    /// The short authentication string; nil until both nonces are revealed.
    package var authenticationDigits: ShortAuthenticationDigits? { verification.digits }

    // MARK: Frames

    /// Processes an authenticated frame.
    package mutating func receive(_ frame: ControlFrame, now: MonotonicInstant) -> [DirectReaction] {
        recordActivity(now)
        defer { updateMeasurement(now: now) }
        do throws(MalformedInput) {
            switch phase {
            case .greeting: return try receiveHello(frame)
            case .open: return try receiveOpen(frame, now: now) + outgoing.sendDueOffers(now: now)
            case .closed: return []
            }
        } catch {
            return violation(error)
        }
    }

    /// Ends the connection because the peer sent an invalid frame or an invalid content stream.
    package mutating func violation(_ violation: MalformedInput) -> [DirectReaction] {
        end(.violation(violation), sending: .violation)
    }

    private mutating func receiveHello(_ frame: ControlFrame) throws(MalformedInput) -> [DirectReaction] {
        switch frame {
        case .hello(let name, let commitment, let time):
            peerName = name
            phase = .open
            return [.helloReceived(name, time: time)] + (try verification.receive(commitment: commitment))
        // No violation: the reason ends the offers that were sent before the peer's hello.
        case .close(let reason): return end(.closed(by: .remote, reason), sending: nil)
        default: throw MalformedInput("the first frame was not a hello")
        }
    }

    private mutating func receiveOpen(
        _ frame: ControlFrame, now: MonotonicInstant
    ) throws(MalformedInput) -> [DirectReaction] {
        switch frame {
        case .hello: throw MalformedInput("a second hello")
        case .reveal(let nonce):
            do {
                return try verification.receive(reveal: nonce)
            } catch {
                let violation = MalformedInput("short authentication string: \(error)")
                return end(.violation(violation), sending: .verificationFailed)
            }
        case .compare:
            let reactions = try verification.receiveRequest()
            // The users need time to compare; one of them may never answer.
            activity.startComparison(until: now + DirectLimits.comparisonTime, now: now)
            return reactions
        case .compared(let isSame): return try verification.receiveAnswer(matches: isSame)
        case .ping(let token): return [.send(.pong(token))]
        case .pong(let token):
            keepalive.receivePong(token, now: now)
            return []
        case .close(let reason): return end(.closed(by: .remote, reason), sending: nil)
        case .features(let features):
            peerFeatures = features
            return []
        case .contents(let id, let entries):
            guard listedContents == nil, !incoming.isUsed(id) else { throw MalformedInput("contents twice or after the offer") }
            listedContents = (id, entries)
            return []
        case .offer(var offer):
            offer.features = peerFeatures
            // The list of another offer has no meaning: an offer without its own is checked when its entries arrive.
            if let (id, entries) = listedContents.take(), id == offer.id {
                try offer.offer.check(listed: entries)
                offer.contents = entries
            }
            guard !incoming.isUsed(offer.id), !outgoing.isUsed(offer.id) else {
                throw MalformedInput("a transfer id used twice")
            }
            return incoming.receiveOffer(offer, now: now)
        case .accept(let id, let window):
            return try outgoing.receiveAccept(id, window: window, peerFeatures: peerFeatures, now: now)
        case .decline(let id, let reason): return try outgoing.receiveDecline(id, reason: reason)
        case .resume(let id, let point): return try outgoing.receiveResume(id, at: point)
        case .select(let id, let selection): return try outgoing.receiveSelection(id, selection)
        case .listFiles(let id): return try outgoing.receiveListFiles(id)
        case .candidates(let id, let files): return try outgoing.receiveCandidates(id, files)
        case .present(let id, let identical, let newer):
            return try outgoing.receivePresent(id, identical: identical, newer: newer)
        case .credit(let id, let limit): return try outgoing.receiveCredit(id, upTo: limit)
        case .changedNames(let id, let names): return try outgoing.receiveChangedNames(id, names)
        case .stored(let id): return try outgoing.receiveStored(id)
        case .cancel(let id, let reason):
            if let reactions = outgoing.receiveCancel(id, reason: reason) ?? incoming.receiveCancel(id, reason: reason) {
                return reactions
            }
            return try ignoreRace(id, "a cancel of an unknown transfer")
        case .cancelled(let id):
            if let reactions = outgoing.receiveCancelled(id) ?? incoming.receiveCancelled(id) { return reactions }
            return try ignoreRace(id, "a confirmation without a cancel")
        case .hotspot(let frame):
            return try hotspot.receive(frame, isReceiving: incoming.isReceiving, now: now)
        }
    }

    /// - Throws: A violation, unless the transfer has ended and the frame is a race.
    private func ignoreRace(_ id: TransferID, _ violation: String) throws(MalformedInput) -> [DirectReaction] {
        guard outgoing.hasEnded(id) || incoming.hasEnded(id) else { throw MalformedInput(violation) }
        return []
    }

    // MARK: Verification

    /// Asks the peer's user to compare the short authentication string. Ignored before ``authenticationDigits`` are known, and
    /// after a first comparison.
    package mutating func requestVerification() -> [DirectReaction] { isClosed ? [] : verification.request() }

    /// Sends a ping now and every ``DirectLimits/keepaliveInterval``, so that ``roundTripTime`` is known soon and stays current.
    package mutating func measureRoundTripTime(now: MonotonicInstant) -> [DirectReaction] {
        isClosed ? [] : keepalive.startMeasuring(now: now)
    }

    /// Sends the local user's answer to the comparison, whichever side has requested it.
    package mutating func answerVerification(matches: Bool) -> [DirectReaction] {
        isClosed ? [] : verification.answer(matches: matches)
    }

    // MARK: Sending

    /// Whether another offer may wait for its turn.
    package var hasRoomForOffer: Bool { outgoing.hasRoom }

    /// Offers content, after the peer has answered the offers before. The sender need not await the peer's hello, which would cost
    /// a round trip.
    package mutating func offer(_ offer: TransferOffer, now: MonotonicInstant) -> [DirectReaction] {
        guard !isClosed else { return [.outgoingEnded(offer.id, .interrupted)] }
        defer { updateMeasurement(now: now) }
        return outgoing.offer(offer, now: now)
    }

    /// Records that all content, the end mark included, was passed to the link.
    package mutating func willSendLastBlock(_ id: TransferID) { outgoing.willSendLastBlock(id) }

    // MARK: Receiving

    /// Accepts an offer. Content waits for ``resume(_:at:)``.
    /// - Parameter selection: the entries that are accepted; nil for all.
    /// - Returns: No reaction when the offer has ended.
    package mutating func accept(
        _ id: TransferID, selecting selection: EntrySelection? = nil, now: MonotonicInstant
    ) -> [DirectReaction] {
        defer { updateMeasurement(now: now) }
        let reactions = incoming.accept(id, selecting: selection, now: now)
        // Only to a sender that uses it: without it a transfer fails with the first entry that is withdrawn.
        guard peerFeatures.contains(.withdrawsEntries), case .send(.accept)? = reactions.first else { return reactions }
        return outgoing.announce(.withdrawsEntries) + reactions
    }

    /// Asks the sender of an accepted transfer to list its files.
    package mutating func listFiles(_ id: TransferID, now: MonotonicInstant) -> [DirectReaction] {
        defer { updateMeasurement(now: now) }
        return incoming.listFiles(id)
    }

    /// Asks for the digests of listed files.
    package mutating func requestDigests(_ id: TransferID, of candidates: FileSet) -> [DirectReaction] {
        incoming.requestDigests(id, of: candidates)
    }

    /// Tells the sender which listed files it need not send.
    package mutating func reportPresent(_ id: TransferID, identical: FileSet, newer: FileSet) -> [DirectReaction] {
        incoming.reportPresent(id, identical: identical, newer: newer)
    }

    /// Tells the sender where to resume an accepted transfer.
    package mutating func resume(
        _ id: TransferID, at point: ResumePoint, now: MonotonicInstant
    ) -> [DirectReaction] {
        defer { updateMeasurement(now: now) }
        return incoming.resume(id, at: point)
    }

    /// Declines an offer.
    package mutating func decline(_ id: TransferID, reason: DeclineReason) -> [DirectReaction] {
        incoming.decline(id, reason: reason)
    }

    /// Decides about bytes of content that have arrived. Unexpected content ends the connection (A1, A2).
    package mutating func receiveContent(
        _ id: TransferID, byteCount: Int, now: MonotonicInstant
    ) -> (verdict: ContentVerdict, reactions: [DirectReaction]) {
        guard !isClosed else { return (.drop, []) }
        recordActivity(now)
        defer { updateMeasurement(now: now) }
        do {
            return (try incoming.receiveContent(id, byteCount: byteCount), [])
        } catch {
            return (.drop, violation(error))
        }
    }

    /// Records the bytes of the content stream, counted from its start, that are stored; the sender may send as many more.
    package mutating func recordStored(
        _ id: TransferID, upTo total: UInt64, now: MonotonicInstant
    ) -> [DirectReaction] {
        defer { updateMeasurement(now: now) }
        return incoming.recordStored(id, upTo: total)
    }

    /// Marks a transfer whose content has arrived as finishing, after which it cannot be cancelled.
    /// - Returns: false when it was cancelled, or the connection has ended; its content must then not be stored.
    package mutating func beginFinishing(_ id: TransferID, now: MonotonicInstant) -> Bool {
        defer { updateMeasurement(now: now) }
        return incoming.beginFinishing(id)
    }

    /// Confirms to the sender that all content is stored.
    package mutating func finish(
        _ id: TransferID, _ changedNames: ChangedNames = ChangedNames(), now: MonotonicInstant
    ) -> [DirectReaction] {
        defer { updateMeasurement(now: now) }
        return incoming.finish(id, changedNames)
    }

    // MARK: A Wi-Fi network for a transfer

    /// Asks the receiver of a running transfer for a network. No effect a second time.
    package mutating func requestHotspot(
        for id: TransferID, _ roles: HotspotRoles, now: MonotonicInstant
    ) -> [DirectReaction] { isClosed ? [] : hotspot.request(id, roles, now: now) }

    /// Tells the sender that the user is asked about the network.
    package mutating func reportHotspotQuestion() -> [DirectReaction] { isClosed ? [] : hotspot.reportAsking() }

    /// Agrees to a network that the sender has asked for.
    package mutating func agreeHotspot(accessPoint: HotspotEnd, port: UInt16, now: MonotonicInstant) -> [DirectReaction] {
        isClosed ? [] : hotspot.agree(accessPoint: accessPoint, port: port, now: now)
    }

    /// Tells the peer which network has been made.
    package mutating func announceHotspot(_ network: HotspotNetwork, now: MonotonicInstant) -> [DirectReaction] {
        isClosed ? [] : hotspot.announce(network, now: now)
    }

    /// Tells the peer that its network has been joined.
    package mutating func confirmHotspotJoined() -> [DirectReaction] { isClosed ? [] : hotspot.confirmJoined() }

    /// Ends the agreement on a network, in any state.
    package mutating func endHotspot(_ reason: HotspotEndReason) -> [DirectReaction] {
        isClosed ? [] : hotspot.end(reason)
    }

    // MARK: Ending

    /// Cancels a transfer of either direction. Ignored when the transfer has ended.
    package mutating func cancel(_ id: TransferID, reason: CancelReason, now: MonotonicInstant) -> [DirectReaction] {
        defer { updateMeasurement(now: now) }
        let reactions = outgoing.cancel(id, reason: reason, now: now) ?? incoming.cancel(id, reason: reason, now: now)
        return reactions + outgoing.sendDueOffers(now: now)
    }

    /// Declines all offers that await an answer.
    package mutating func declineOffers() -> [DirectReaction] { incoming.declineAll(reason: .declined) }

    /// Closes the connection with all its transfers. Offers that await an answer are interrupted, so that their sender can offer them
    /// again; where this node refuses the link, they are declined for that reason. No user has declined them.
    package mutating func close(_ reason: CloseReason) -> [DirectReaction] {
        let declineReason: DeclineReason? =
            switch reason {
            case .tooManyLinks: .busy
            // An offer that is read before the link is closed has the same answer as one that is not.
            case .blocked: .acceptsNothing
            default: nil
            }
        return (declineReason.map { incoming.declineAll(reason: $0) } ?? []) + end(.closed(by: .local, reason), sending: reason)
    }

    /// Ends the connection after its link has broken or ended.
    package mutating func linkEnded() -> [DirectReaction] { end(.lost, sending: nil) }

    private mutating func end(_ closure: DirectClosure, sending reason: CloseReason?) -> [DirectReaction] {
        guard !isClosed else { return [] }
        phase = .closed
        let isViolation = if case .violation = closure { true } else { false }
        return (reason.map { [.send(.close($0))] } ?? []) + outgoing.endAll()
            + incoming.endAll(afterViolation: isViolation) + hotspot.endWithLink() + [.closed(closure)]
    }

    // MARK: Time

    /// Records bytes from the peer other than a frame, such as a part of a record.
    package mutating func recordActivity(byteCount: Int = 0, now: MonotonicInstant) {
        recordActivity(now)
        progress.record(byteCount, now: now)
    }

    /// Records content that is written.
    package mutating func recordWriting(byteCount: Int, now: MonotonicInstant) { progress.record(byteCount, now: now) }

    /// The time at which ``advance(to:)`` is due; nil after the end.
    package var deadline: MonotonicInstant? {
        let deadlines: [MonotonicInstant?] =
            switch phase {
            case .greeting(let deadline): [deadline, keepalive.deadline, outgoing.deadline, incoming.deadline]
            case .open:
                [
                    keepalive.deadline, outgoing.deadline, incoming.deadline, hotspot.deadline,
                    isIdle ? activity.deadline : nil,
                ]
            case .closed: []
            }
        return deadlines.compactMap { $0 }.min()
    }

    /// Handles everything that is due.
    package mutating func advance(to now: MonotonicInstant) -> [DirectReaction] {
        guard !isClosed else { return [] }
        defer { updateMeasurement(now: now) }
        if keepalive.isLost(now: now) { return end(.lost, sending: nil) }
        // The missing hello breaks section 5 of the protocol where the link still works, and such a peer is told so. To the local
        // user it is a lost link: most of those that say nothing are slow or broken, and the next attempt may succeed.
        if case .greeting(let deadline) = phase, now >= deadline { return end(.lost, sending: .violation) }
        if !isIdle {
            activity.record(isQuestion: isQuestion, now: now)
        } else if let end = activity.deadline, now >= end {
            return close(.done)
        }
        return outgoing.advance(to: now) + outgoing.sendDueOffers(now: now) + incoming.advance(to: now)
            + hotspot.advance(to: now) + keepalive.advance(to: now)
    }
}
