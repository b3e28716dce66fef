package import NearshareBase
package import NearshareCrypto

/// What a connection asks its driver to do, in order.
package enum DirectReaction: Sendable, Hashable {
    /// Seal the frame, and send it.
    case send(ControlFrame)
    /// The peer has said its name and what its clock shows. Nothing but its key is proven.
    case greeted(DisplayName, time: WallTime)
    /// Both people now see the same eight digits, unless somebody sits between them.
    case shortCodeReady(ShortAuthenticationDigits)
    /// The other person asks whether the code is the same here; answer with
    /// ``DirectConnection/answerComparison(isSame:)``.
    case comparisonAsked
    /// The other person has compared the short codes.
    case comparisonAnswered(isSame: Bool)
    /// A peer offers something; answer with ``DirectConnection/accept(_:now:)`` or
    /// ``DirectConnection/decline(_:because:)``.
    case invited(TransferOffer, until: MonotonicInstant)
    /// The offer was accepted; content may flow once the receiver has said from where.
    case accepted(TransferID)
    /// Let content flow, after what the receiver has already.
    case startSending(TransferID, from: ResumePoint)
    /// So many bytes of the content stream may have been sent, counted from its start.
    case mayUse(TransferID, upTo: UInt64)
    /// Not a byte more of this transfer's content may go out.
    case stopSending(TransferID)
    /// A transfer from here is over.
    case outgoingEnded(TransferID, TransferOutcome)
    /// A transfer to here is over.
    case incomingEnded(TransferID, TransferOutcome)
    /// The last reaction of a connection.
    case closed(DirectClosure)
}

/// Why a connection is over.
package enum DirectClosure: Error, Sendable, Hashable {
    /// One side said so.
    case closed(by: TransferOutcome.Side, CloseReason)
    /// The other side broke the protocol.
    case violation(MalformedInput)
    /// The other side fell silent, or the link broke.
    case lost
}

/// What is to be done with bytes of content that have arrived.
package enum ContentVerdict: Sendable, Hashable {
    /// It belongs to a transfer that waits for it.
    case deliver
    /// Of a transfer that was cancelled here while they were on their way.
    case drop
}

/// Everything that two peers agree on over an established link: greeting, short code, invitations, transfers, cancelling,
/// flow control, signs of life. It says what to do; moving bytes is the driver's part.
///
///     greeting ──hello──► open ──close, loss, violation──► closed
///
///     outgoing:  offered ─accept─► locating ─resume─► sending ─all sent─► awaiting receipt ─stored─► ended
///                   └─decline, time─► ended          └── cancel here ─► cancelling ─cancelled, stored, time─► ended
///     incoming:  invited ─accept─► locating ─resume─► receiving ─all there─► finishing ─stored─► ended
///                   └─decline, time─► ended          └── cancel here ─► cancelling ─cancelled, time─► ended
///
/// A cancel from there ends either at once, and is confirmed. What comes for a transfer that ended is a harmless race if it
/// was sent before its sender could know, and a violation otherwise.
package struct DirectConnection: Sendable {
    private enum Phase {
        case greeting
        case open
        case closed
    }

    private enum Outgoing {
        case offered(expiry: MonotonicInstant)
        case locating
        case sending
        case awaitingReceipt
        case cancelling(CancelReason, wasComplete: Bool, deadline: MonotonicInstant)
    }

    private struct Incoming {
        enum State {
            case invited(expiry: MonotonicInstant)
            case locating
            case receiving
            /// All has arrived and is being made durable: too late to cancel.
            case finishing
            case cancelling(CancelReason, deadline: MonotonicInstant)
        }

        var state: State
        var received: UInt64 = 0
        var granted: UInt64 = 0
    }

    /// At most one on a link, asked by one side and answered by both (K3): whoever guesses has to make a new link, which people
    /// see.
    private struct Comparison {
        var isAnsweredHere = false
        var isAnsweredThere = false
    }

    private var phase = Phase.greeting
    /// nil until one side has asked.
    private var comparison: Comparison?
    private var outgoing: [TransferID: Outgoing] = [:]
    private var incoming: [TransferID: Incoming] = [:]
    /// Ids of transfers that the peer offered and that are over: none may be used again (A3).
    private var endedIncoming = RecentIDs()
    private var endedOutgoing = RecentIDs()
    private var shortCode: ShortAuthenticationString
    private let ownName: DisplayName
    private let ownTime: WallTime
    private let limits: DirectLimits
    private var lastHeard: MonotonicInstant
    private var lastAsked: MonotonicInstant
    private let greetingDeadline: MonotonicInstant

    /// As it calls itself; nil until it has said so.
    package private(set) var peerName: DisplayName?
    /// nil until both ends have revealed their nonces.
    package private(set) var shortCodeText: ShortAuthenticationDigits?

    /// - Parameters:
    ///   - shortCode: fresh, made from this link's handshake.
    ///   - ownTime, now: when the handshake was finished, by both clocks.
    package init(
        ownName: DisplayName, ownTime: WallTime, shortCode: ShortAuthenticationString, limits: DirectLimits,
        now: MonotonicInstant
    ) {
        self.ownName = ownName
        self.ownTime = ownTime
        self.shortCode = shortCode
        self.limits = limits
        lastHeard = now
        lastAsked = now
        greetingDeadline = now + DirectLimits.handshakeTime
    }

    /// Our greeting: the first frame.
    package func start() -> [DirectReaction] {
        [.send(.hello(name: ownName, commitment: shortCode.commitment, time: ownTime))]
    }

    /// Nothing happens any more.
    package var isClosed: Bool { if case .closed = phase { true } else { false } }

    /// No transfer is under way or asked for.
    package var isIdle: Bool { outgoing.isEmpty && incoming.isEmpty }

    // MARK: Frames

    /// Takes a frame that the peer's key has authenticated.
    package mutating func receive(_ frame: ControlFrame, now: MonotonicInstant) -> [DirectReaction] {
        guard !isClosed else { return [] }
        lastHeard = now
        do throws(MalformedInput) {
            if case .greeting = phase {
                return try receiveGreeting(frame)
            }
            return try receiveOpen(frame, now: now)
        } catch {
            return violation(error)
        }
    }

    /// The peer sent something that is no valid frame, or content that is no valid stream.
    package mutating func violation(_ what: MalformedInput) -> [DirectReaction] {
        end(.violation(what), telling: .violation)
    }

    private mutating func receiveGreeting(_ frame: ControlFrame) throws(MalformedInput) -> [DirectReaction] {
        switch frame {
        case .hello(let name, let commitment, let time):
            peerName = name
            phase = .open
            do {
                try shortCode.receive(commitment: commitment)
            } catch {
                throw MalformedInput("hello: \(error)")
            }
            return [.greeted(name, time: time), .send(.reveal(nonce: shortCode.nonce))]
        case .close(let reason):
            phase = .closed
            return [.closed(.closed(by: .there, reason))]
        default:
            throw MalformedInput("the first frame was no greeting")
        }
    }

    private mutating func receiveOpen(
        _ frame: ControlFrame, now: MonotonicInstant
    ) throws(MalformedInput) -> [DirectReaction] {
        switch frame {
        case .hello: throw MalformedInput("a second greeting")
        case .reveal(let nonce):
            do {
                let text = try shortCode.receive(reveal: nonce)
                shortCodeText = text
                return [.shortCodeReady(text)]
            } catch {
                return end(.violation(MalformedInput("short code: \(error)")), telling: .verificationFailed)
            }
        case .ping(let token): return [.send(.pong(token))]
        case .pong: return []
        case .close(let reason):
            return end(.closed(by: .there, reason), telling: nil)
        case .compare:
            guard shortCodeText != nil, comparison == nil else { throw MalformedInput("a comparison out of its order") }
            comparison = Comparison()
            return [.comparisonAsked]
        case .compared(let isSame):
            guard comparison?.isAnsweredThere == false else { throw MalformedInput("an answer to no comparison") }
            comparison?.isAnsweredThere = true
            return [.comparisonAnswered(isSame: isSame)]
        case .offer(let offer): return try receive(offer, now: now)
        case .accept(let id, let window): return try accepted(id, window: window, now: now)
        case .decline(let id, let reason): return try declined(id, because: reason)
        case .resume(let id, let point):
            if case .cancelling = outgoing[id] { return [] }
            guard case .locating = outgoing[id] else {
                // Race: it was sent before our cancel arrived.
                guard endedOutgoing.contains(id) else { throw MalformedInput("a resume point that nobody waits for") }
                return []
            }
            outgoing[id] = .sending
            return [.startSending(id, from: point)]
        case .grant(let id, let limit):
            switch outgoing[id] {
            case .sending, .awaitingReceipt, .cancelling: return [.mayUse(id, upTo: limit)]
            case .offered, .locating: throw MalformedInput("a grant before content could flow")
            case nil:
                guard endedOutgoing.contains(id) else { throw MalformedInput("a grant for an unknown transfer") }
                return []
            }
        case .stored(let id):
            switch outgoing[id] {
            case .awaitingReceipt, .cancelling(_, wasComplete: true, _):
                // Race: what was stored before our cancel arrived is stored.
                return endOutgoing(id, .completed)
            case .cancelling: throw MalformedInput("a receipt for less than the whole")
            case .sending, .offered, .locating: throw MalformedInput("a receipt before all was sent")
            case nil:
                guard endedOutgoing.contains(id) else { throw MalformedInput("a receipt for an unknown transfer") }
                return []
            }
        case .cancel(let id, let reason): return try cancelledThere(id, reason)
        case .cancelled(let id):
            if case .cancelling(let reason, _, _) = outgoing[id] {
                return endOutgoing(id, TransferOutcome(cancelledFor: reason, at: .here))
            }
            if case .cancelling(let reason, _) = incoming[id]?.state {
                return endIncoming(id, TransferOutcome(cancelledFor: reason, at: .here))
            }
            guard endedOutgoing.contains(id) || endedIncoming.contains(id) else {
                throw MalformedInput("a confirmation of a cancel that nobody sent")
            }
            return []
        }
    }

    private mutating func cancelledThere(
        _ id: TransferID, _ reason: CancelReason
    ) throws(MalformedInput) -> [DirectReaction] {
        let outcome = TransferOutcome(cancelledFor: reason, at: .there)
        if let state = outgoing[id] {
            // Both at once: on both ends the sender's reason counts.
            if case .cancelling(let ours, _, _) = state {
                return [.send(.cancelled(id))] + endOutgoing(id, TransferOutcome(cancelledFor: ours, at: .here))
            }
            return [.stopSending(id), .send(.cancelled(id))] + endOutgoing(id, outcome)
        }
        if let transfer = incoming[id] {
            // Race: it came after the last byte. What is being stored is stored, and the receipt says so.
            if case .finishing = transfer.state { return [] }
            return [.send(.cancelled(id))] + endIncoming(id, outcome)
        }
        guard endedOutgoing.contains(id) || endedIncoming.contains(id) else {
            throw MalformedInput("a cancel of an unknown transfer")
        }
        return []
    }

    // MARK: Comparing

    /// Asks the other person to compare the code; not before it is there.
    package mutating func askComparison() -> [DirectReaction] {
        guard shortCodeText != nil, comparison == nil, !isClosed else { return [] }
        comparison = Comparison()
        return [.send(.compare)]
    }

    /// The person here has compared the short codes, whichever side has asked.
    package mutating func answerComparison(isSame: Bool) -> [DirectReaction] {
        guard comparison?.isAnsweredHere == false, !isClosed else { return [] }
        comparison?.isAnsweredHere = true
        return [.send(.compared(isSame: isSame))]
    }

    // MARK: Sending

    /// Invites the peer to take something. Need not wait for its greeting: that would cost a round trip.
    package mutating func offer(_ offer: TransferOffer, now: MonotonicInstant) -> [DirectReaction] {
        precondition(outgoing[offer.id] == nil, "ids of transfers are not used twice")
        guard !isClosed else { return [.outgoingEnded(offer.id, .interrupted)] }
        outgoing[offer.id] = .offered(expiry: now + .seconds(Int64(offer.timeout)) + DirectLimits.expiryGrace)
        return [.send(.offer(offer))]
    }

    /// All content, the end mark included, has been handed to the link.
    package mutating func sentEverything(_ id: TransferID) {
        if case .sending = outgoing[id] { outgoing[id] = .awaitingReceipt }
    }

    private mutating func accepted(
        _ id: TransferID, window: UInt64, now: MonotonicInstant
    ) throws(MalformedInput) -> [DirectReaction] {
        switch outgoing[id] {
        case .offered(let expiry) where now <= expiry:
            outgoing[id] = .locating
            return [.accepted(id), .mayUse(id, upTo: window)]
        case .offered:
            // A9: too late, though our own timer has not been asked yet.
            return expireOffer(id)
        case .cancelling: return []  // Race: it was sent before our cancel arrived.
        case .locating, .sending, .awaitingReceipt: throw MalformedInput("an offer accepted twice")
        case nil:
            guard endedOutgoing.contains(id) else { throw MalformedInput("an answer to no offer") }
            return []
        }
    }

    private mutating func declined(_ id: TransferID, because reason: DeclineReason) throws(MalformedInput) -> [DirectReaction] {
        switch outgoing[id] {
        case .offered: return endOutgoing(id, reason == .expired ? .expired : .declined(reason))
        // Race: declined before our cancel arrived, so declined is what it is on both ends.
        case .cancelling: return endOutgoing(id, reason == .expired ? .expired : .declined(reason))
        case .locating, .sending, .awaitingReceipt: throw MalformedInput("an offer declined after it was accepted")
        case nil:
            guard endedOutgoing.contains(id) else { throw MalformedInput("an answer to no offer") }
            return []
        }
    }

    private mutating func expireOffer(_ id: TransferID) -> [DirectReaction] {
        [.send(.cancel(id, .expired))] + endOutgoing(id, .expired)
    }

    private mutating func endOutgoing(_ id: TransferID, _ outcome: TransferOutcome) -> [DirectReaction] {
        outgoing[id] = nil
        endedOutgoing.insert(id)
        return [.outgoingEnded(id, outcome)]
    }

    // MARK: Receiving

    private mutating func receive(_ offer: TransferOffer, now: MonotonicInstant) throws(MalformedInput) -> [DirectReaction] {
        guard incoming[offer.id] == nil, outgoing[offer.id] == nil, !endedIncoming.contains(offer.id),
            !endedOutgoing.contains(offer.id)
        else { throw MalformedInput("an id of a transfer used twice") }
        let pending = incoming.values.count { if case .invited = $0.state { true } else { false } }
        guard pending < limits.pendingInvitations, incoming.count < limits.incomingTransfers else {
            endedIncoming.insert(offer.id)
            return [.send(.decline(offer.id, .busy))]
        }
        let timeout = min(max(offer.timeout, 1), UInt16(TransferOffer.maximumPatience))
        let expiry = now + .seconds(Int64(timeout))
        incoming[offer.id] = Incoming(state: .invited(expiry: expiry))
        return [.invited(offer, until: expiry)]
    }

    /// Takes an offer. Content waits for ``resumePoint(_:of:)``.
    /// - Returns: nothing when the invitation is over already.
    package mutating func accept(_ id: TransferID, now: MonotonicInstant) -> [DirectReaction] {
        guard case .invited(let expiry) = incoming[id]?.state else { return [] }
        guard now <= expiry else { return expireInvitation(id) }
        incoming[id] = Incoming(state: .locating, granted: limits.window)
        return [.send(.accept(id, window: limits.window))]
    }

    /// Says from where the sender should go on.
    package mutating func resumePoint(_ point: ResumePoint, of id: TransferID) -> [DirectReaction] {
        guard case .locating = incoming[id]?.state else { return [] }
        incoming[id]?.state = .receiving
        return [.send(.resume(id, point))]
    }

    /// The person here, or a rule, does not take it.
    package mutating func decline(_ id: TransferID, because reason: DeclineReason) -> [DirectReaction] {
        guard case .invited = incoming[id]?.state else { return [] }
        return [.send(.decline(id, reason))] + endIncoming(id, .declined(reason))
    }

    /// Bytes of content have come in.
    /// - Returns: nil with the connection closed when they should not have (A1, A2).
    package mutating func contentArrived(
        _ id: TransferID, count: Int, now: MonotonicInstant
    ) -> (verdict: ContentVerdict, reactions: [DirectReaction]) {
        guard !isClosed else { return (.drop, []) }
        lastHeard = now
        guard var transfer = incoming[id] else {
            // Race: sent before the sender knew of its end.
            if endedIncoming.contains(id) { return (.drop, []) }
            return (.drop, violation(MalformedInput("content of a transfer that was never offered")))
        }
        switch transfer.state {
        case .invited, .locating:
            return (.drop, violation(MalformedInput("content before it was accepted")))
        case .cancelling:
            return (.drop, [])
        case .finishing:
            return (.drop, violation(MalformedInput("content after the end of the transfer")))
        case .receiving:
            transfer.received += UInt64(count)
            guard transfer.received <= transfer.granted else {
                return (.drop, violation(MalformedInput("more content than was granted")))
            }
            incoming[id] = transfer
            return (.deliver, [])
        }
    }

    /// So many bytes of the content stream, counted from its start, have been stored: the sender may send as many more.
    package mutating func contentStored(_ id: TransferID, upTo total: UInt64) -> [DirectReaction] {
        guard var transfer = incoming[id], case .receiving = transfer.state else { return [] }
        let limit = total + limits.window
        // Often enough that the sender never waits, seldom enough that grants cost nothing.
        guard limit >= transfer.granted + limits.window / 2 else { return [] }
        transfer.granted = limit
        incoming[id] = transfer
        return [.send(.grant(id, upTo: limit))]
    }

    /// Everything has arrived; from here on nobody can cancel it.
    /// - Returns: false when it was cancelled before, or the connection is over: then it must not be stored.
    package mutating func mayFinish(_ id: TransferID) -> Bool {
        guard case .receiving = incoming[id]?.state else { return false }
        incoming[id]?.state = .finishing
        return true
    }

    /// Everything is stored.
    package mutating func finished(_ id: TransferID) -> [DirectReaction] {
        guard case .finishing = incoming[id]?.state else { return [] }
        return [.send(.stored(id))] + endIncoming(id, .completed)
    }

    private mutating func expireInvitation(_ id: TransferID) -> [DirectReaction] {
        [.send(.decline(id, .expired))] + endIncoming(id, .expired)
    }

    private mutating func endIncoming(_ id: TransferID, _ outcome: TransferOutcome) -> [DirectReaction] {
        incoming[id] = nil
        endedIncoming.insert(id)
        return [.incomingEnded(id, outcome)]
    }

    // MARK: Ending

    /// Stops a transfer in either direction, in whatever state it is; over already, nothing happens.
    package mutating func cancel(_ id: TransferID, because reason: CancelReason, now: MonotonicInstant) -> [DirectReaction] {
        if let state = outgoing[id] {
            if case .cancelling = state { return [] }
            let wasComplete = if case .awaitingReceipt = state { true } else { false }
            // When all was sent, only the receiver knows whether it was stored before this came.
            let deadline = now + (wasComplete ? DirectLimits.lossTime : DirectLimits.cancelTime)
            outgoing[id] = .cancelling(reason, wasComplete: wasComplete, deadline: deadline)
            return [.stopSending(id), .send(.cancel(id, reason))]
        }
        guard var transfer = incoming[id] else { return [] }
        switch transfer.state {
        case .cancelling: return []
        case .invited: return decline(id, because: .declined)
        // Too late for a person; but what can't be stored in the end was not received.
        case .finishing where reason == .cancelled || reason == .goingAway: return []
        case .locating, .receiving, .finishing:
            transfer.state = .cancelling(reason, deadline: now + DirectLimits.cancelTime)
            incoming[id] = transfer
            return [.send(.cancel(id, reason))]
        }
    }

    /// Ends the connection and all its transfers; invitations that wait for an answer are declined.
    package mutating func close(_ reason: CloseReason) -> [DirectReaction] {
        var reactions: [DirectReaction] = []
        for (id, transfer) in incoming {
            if case .invited = transfer.state { reactions += decline(id, because: .declined) }
        }
        return reactions + end(.closed(by: .here, reason), telling: reason)
    }

    /// The link has broken or ended.
    package mutating func linkEnded() -> [DirectReaction] {
        end(.lost, telling: nil)
    }

    private mutating func end(_ closure: DirectClosure, telling reason: CloseReason?) -> [DirectReaction] {
        guard !isClosed else { return [] }
        phase = .closed
        var reactions: [DirectReaction] = []
        if let reason { reactions.append(.send(.close(reason))) }
        for (id, state) in outgoing {
            var outcome = TransferOutcome.interrupted
            if case .cancelling(let reason, _, _) = state { outcome = TransferOutcome(cancelledFor: reason, at: .here) }
            reactions += [.stopSending(id)] + endOutgoing(id, outcome)
        }
        for (id, transfer) in incoming {
            var outcome = TransferOutcome.interrupted
            if case .cancelling(let reason, _) = transfer.state { outcome = TransferOutcome(cancelledFor: reason, at: .here) }
            if case .violation = closure { outcome = .failed(.refused, at: .here) }
            reactions += endIncoming(id, outcome)
        }
        return reactions + [.closed(closure)]
    }

    // MARK: Time

    /// Something else has come over the link, such as a part of a record.
    package mutating func heard(now: MonotonicInstant) {
        lastHeard = now
    }

    /// When ``advance(to:)`` wants to be called next.
    package var deadline: MonotonicInstant? {
        guard !isClosed else { return nil }
        var next = max(lastHeard, lastAsked) + DirectLimits.quietTime
        next = min(next, lastHeard + DirectLimits.lossTime)
        if case .greeting = phase { next = min(next, greetingDeadline) }
        for state in outgoing.values {
            switch state {
            case .offered(let expiry): next = min(next, expiry)
            case .cancelling(_, _, let deadline): next = min(next, deadline)
            case .locating, .sending, .awaitingReceipt: break
            }
        }
        for transfer in incoming.values {
            switch transfer.state {
            case .invited(let expiry): next = min(next, expiry)
            case .cancelling(_, let deadline): next = min(next, deadline)
            case .locating, .receiving, .finishing: break
            }
        }
        return next
    }

    /// Does what is due.
    package mutating func advance(to now: MonotonicInstant) -> [DirectReaction] {
        guard !isClosed else { return [] }
        if now >= lastHeard + DirectLimits.lossTime { return end(.lost, telling: nil) }
        if case .greeting = phase, now >= greetingDeadline { return end(.lost, telling: .violation) }
        var reactions: [DirectReaction] = []
        for (id, state) in outgoing {
            switch state {
            case .offered(let expiry) where now >= expiry:
                reactions += expireOffer(id)
            case .cancelling(let reason, _, let deadline) where now >= deadline:
                reactions += endOutgoing(id, TransferOutcome(cancelledFor: reason, at: .here))
            default: break
            }
        }
        for (id, transfer) in incoming {
            switch transfer.state {
            case .invited(let expiry) where now >= expiry:
                reactions += expireInvitation(id)
            case .cancelling(let reason, let deadline) where now >= deadline:
                reactions += endIncoming(id, TransferOutcome(cancelledFor: reason, at: .here))
            default: break
            }
        }
        if now >= max(lastHeard, lastAsked) + DirectLimits.quietTime {
            lastAsked = now
            reactions.append(.send(.ping(UInt64(bitPattern: now.nanoseconds))))
        }
        return reactions
    }
}

/// The ids that were used last, at most ``capacity`` of them.
struct RecentIDs: Sendable {
    private var order: [TransferID] = []
    private var known: Set<TransferID> = []
    private static let capacity = 1024

    func contains(_ id: TransferID) -> Bool { known.contains(id) }

    mutating func insert(_ id: TransferID) {
        guard known.insert(id).inserted else { return }
        order.append(id)
        if order.count > Self.capacity { known.remove(order.removeFirst()) }
    }
}
