internal import NearshareBase

/// The sender's side of all transfers of a connection.
///
///     waiting ─► offered ─accept─► awaiting resume point ─resume─► sending ─last block─► awaiting receipt ─stored─► ended
///        │          │                 │  └─list files─► comparing ─resume─►┘
///        │          │                 └─select, once─► awaiting resume point
///        │          └─decline, expiry─► ended
///        └─local cancel─► ended
///     any later state ─local cancel─► cancelling ─cancelled, stored, decline, remote cancel, timeout─► ended
///     any later state ─remote cancel─► ended
///
/// An offer waits until the peer has answered the one before, and receives fewer transfers than its limit.
///
/// Frames for an ended transfer are a race when the peer may have sent them
/// before it knew, and a violation otherwise.
struct OutgoingTransfers: Sendable {
    private enum State {
        case offered(expiry: MonotonicInstant, features: TransferFeatures)
        case awaitingResumePoint(TransferFeatures, deadline: MonotonicInstant)
        case comparing(Comparison)
        case sending
        /// - Parameter deadline: nil until ``OutgoingTransfers/advance(to:)`` has set it.
        case awaitingReceipt(deadline: MonotonicInstant?)
        case cancelling(CancelReason, wasComplete: Bool, deadline: MonotonicInstant)
    }

    /// The step of a comparison. The receiver never goes back, and leaves out what it does not need.
    private enum Comparison {
        case listing
        case hashing
        case compared
    }

    private var states: [TransferID: State] = [:]
    /// Offers that are not sent yet, in the order in which they were made.
    private var waiting: [TransferOffer] = []
    private var ended = RecentTransferIDs()
    /// The features in the last `features` frame to the peer; none before.
    private var announcedFeatures: TransferFeatures = []

    /// The limits of the peer, unless it is another program.
    private static let peerLimits = DirectLimits()
    /// Limit on offers that wait, beyond which a program has to await the end of some.
    static let maximumWaitingCount = 256

    var isEmpty: Bool { states.isEmpty && waiting.isEmpty }

    /// Whether another offer may wait.
    var hasRoom: Bool { waiting.count < Self.maximumWaitingCount }

    /// Whether the id belongs to a transfer that has ended.
    func hasEnded(_ id: TransferID) -> Bool { ended.contains(id) }

    /// Whether the id is in use or was used recently (A3).
    func isUsed(_ id: TransferID) -> Bool { states[id] != nil || ended.contains(id) || isWaiting(id) }

    private func isWaiting(_ id: TransferID) -> Bool { waiting.contains { $0.id == id } }

    // MARK: The local side

    /// Offers content, at once or after the offers before it. The time for an answer begins when it is sent. Without ``hasRoom`` the
    /// transfer ends at once.
    mutating func offer(_ offer: TransferOffer, now: MonotonicInstant) -> [DirectReaction] {
        // Safe: the program draws the ids, of 64 random bits.
        precondition(states[offer.id] == nil && !isWaiting(offer.id), "a transfer id is used twice")
        guard hasRoom else { return end(offer.id, .interrupted) }
        waiting.append(offer)
        return sendDueOffers(now: now)
    }

    /// Sends the next offer that waits, if the peer takes one.
    mutating func sendDueOffers(now: MonotonicInstant) -> [DirectReaction] {
        guard !waiting.isEmpty, states.count < Self.peerLimits.incomingTransfers else { return [] }
        let offeredCount = states.values.count { if case .offered = $0 { true } else { false } }
        guard offeredCount < Self.peerLimits.pendingInvitations else { return [] }
        return send(waiting.removeFirst(), now: now)
    }

    private mutating func send(_ offer: TransferOffer, now: MonotonicInstant) -> [DirectReaction] {
        states[offer.id] = .offered(expiry: now + offer.timeout + DirectLimits.expiryGrace, features: offer.features)
        defer { announcedFeatures = offer.features }
        return (offer.features == announcedFeatures ? [] : [.send(.features(offer.features))])
            + (offer.contents.isEmpty ? [] : [.send(.contents(offer.id, offer.contents))]) + [.send(.offer(offer))]
    }

    /// States an ability for the offers of the peer.
    mutating func announce(_ feature: TransferFeatures) -> [DirectReaction] {
        guard !announcedFeatures.isSuperset(of: feature) else { return [] }
        announcedFeatures.formUnion(feature)
        return [.send(.features(announcedFeatures))]
    }

    /// Records that the last block, with the end mark, is about to be written: the receipt may follow it at once.
    mutating func willSendLastBlock(_ id: TransferID) {
        if case .sending = states[id] { states[id] = .awaitingReceipt(deadline: nil) }
    }

    /// Cancels a transfer.
    /// - Returns: nil when there is no such transfer.
    mutating func cancel(_ id: TransferID, reason: CancelReason, now: MonotonicInstant) -> [DirectReaction]? {
        if let index = waiting.firstIndex(where: { $0.id == id }) {
            waiting.remove(at: index)
            return end(id, TransferOutcome(cancelledFor: reason, at: .local))
        }
        guard let state = states[id] else { return nil }
        if case .cancelling = state { return [] }
        let wasComplete = if case .awaitingReceipt = state { true } else { false }
        // After all was sent, only the receiver knows whether it stored the content before the cancel arrived.
        let deadline = now + (wasComplete ? DirectLimits.idleTimeout : DirectLimits.cancelTimeout)
        states[id] = .cancelling(reason, wasComplete: wasComplete, deadline: deadline)
        return [.stopSending(id), .send(.cancel(id, reason))]
    }

    /// Ends all transfers with the connection.
    mutating func endAll() -> [DirectReaction] {
        let unsent = waiting.map(\.id)
        waiting = []
        let sent: [DirectReaction] = states.flatMap { id, state in
            var outcome = TransferOutcome.interrupted
            if case .cancelling(let reason, _, _) = state { outcome = TransferOutcome(cancelledFor: reason, at: .local) }
            return [.stopSending(id)] + end(id, outcome)
        }
        return sent + unsent.flatMap { end($0, .interrupted) }
    }

    // MARK: Frames

    /// - Parameter peerFeatures: the abilities that the receiver has stated.
    mutating func receiveAccept(
        _ id: TransferID, window: UInt64, peerFeatures: TransferFeatures = [], now: MonotonicInstant
    ) throws(MalformedInput) -> [DirectReaction] {
        switch states[id] {
        case .offered(let expiry, let features) where now < expiry:
            states[id] = .awaitingResumePoint(features, deadline: now + DirectLimits.stepTimeout)
            let withdraws = features.intersection(peerFeatures).contains(.withdrawsEntries)
            return [.offerAccepted(id)] + (withdraws ? [.withdrawalAllowed(id)] : []) + [.windowRaised(id, upTo: window)]
        case .offered:
            // A9: the accept is too late, although the expiry has not been handled yet.
            return expire(id)
        case .cancelling: return []  // Race: sent before our cancel arrived.
        case .awaitingResumePoint, .comparing, .sending, .awaitingReceipt: throw MalformedInput("an offer accepted twice")
        case nil: return try ignoreRace(id, "an accept without an offer")
        }
    }

    /// - Parameter reason: nil where the offer was not answered in time.
    mutating func receiveDecline(_ id: TransferID, reason: DeclineReason?) throws(MalformedInput) -> [DirectReaction] {
        switch states[id] {
        // Cancelling is a race: the peer declined before our cancel arrived, so both sides report the decline.
        case .offered, .cancelling: return end(id, reason.map { TransferOutcome.declined($0) } ?? .expired)
        case .awaitingResumePoint, .comparing, .sending, .awaitingReceipt:
            throw MalformedInput("an offer declined after it was accepted")
        case nil: return try ignoreRace(id, "a decline without an offer")
        }
    }

    mutating func receiveResume(_ id: TransferID, at point: ResumePoint) throws(MalformedInput) -> [DirectReaction] {
        switch states[id] {
        case .awaitingResumePoint, .comparing:
            states[id] = .sending
            return [.startSending(id, from: point)]
        case .cancelling: return []  // Race: sent before our cancel arrived.
        case .offered, .sending, .awaitingReceipt, nil: return try ignoreRace(id, "an unexpected resume point")
        }
    }

    /// Handles the receiver's selection. The driver checks it: only the driver knows whether the entries were offered.
    mutating func receiveSelection(
        _ id: TransferID, _ selection: EntrySelection
    ) throws(MalformedInput) -> [DirectReaction] {
        switch states[id] {
        case .awaitingResumePoint(let features, let deadline) where features.contains(.sendsParts):
            states[id] = .awaitingResumePoint(features.subtracting(.sendsParts), deadline: deadline)
            return [.partSelected(id, selection)]
        case .cancelling: return []  // Race: sent before our cancel arrived.
        case .offered, .awaitingResumePoint, .comparing, .sending, .awaitingReceipt, nil:
            return try ignoreRace(id, "an unexpected selection")
        }
    }

    mutating func receiveListFiles(_ id: TransferID) throws(MalformedInput) -> [DirectReaction] {
        switch states[id] {
        case .awaitingResumePoint(let features, _) where features.contains(.listsFiles):
            states[id] = .comparing(.listing)
            return [.listFiles(id)]
        case .cancelling: return []  // Race: sent before our cancel arrived.
        case .offered, .awaitingResumePoint, .comparing, .sending, .awaitingReceipt, nil:
            return try ignoreRace(id, "an unexpected request for the list of files")
        }
    }

    /// Handles the files whose digests the receiver requests. The driver checks the size of the set: only the driver knows the
    /// number of listed files.
    mutating func receiveCandidates(_ id: TransferID, _ files: FileSet) throws(MalformedInput) -> [DirectReaction] {
        switch states[id] {
        case .comparing(.listing):
            states[id] = .comparing(.hashing)
            return [.sendDigests(id, of: files)]
        case .cancelling: return []  // Race: sent before our cancel arrived.
        case .offered, .awaitingResumePoint, .comparing, .sending, .awaitingReceipt, nil:
            return try ignoreRace(id, "unexpected candidates")
        }
    }

    mutating func receivePresent(
        _ id: TransferID, identical: FileSet, newer: FileSet
    ) throws(MalformedInput) -> [DirectReaction] {
        switch states[id] {
        case .comparing(let step) where step != .compared:
            states[id] = .comparing(.compared)
            return [.filesPresent(id, identical: identical, newer: newer)]
        case .cancelling: return []  // Race: sent before our cancel arrived.
        case .offered, .awaitingResumePoint, .comparing, .sending, .awaitingReceipt, nil:
            return try ignoreRace(id, "unexpected present files")
        }
    }

    mutating func receiveCredit(_ id: TransferID, upTo limit: UInt64) throws(MalformedInput) -> [DirectReaction] {
        switch states[id] {
        case .comparing, .sending, .awaitingReceipt, .cancelling: return [.windowRaised(id, upTo: limit)]
        case .offered, .awaitingResumePoint: throw MalformedInput("credit before content may flow")
        case nil: return try ignoreRace(id, "credit for an unknown transfer")
        }
    }

    func receiveChangedNames(_ id: TransferID, _ names: ChangedNames) throws(MalformedInput) -> [DirectReaction] {
        switch states[id] {
        case .awaitingReceipt, .cancelling(_, wasComplete: true, _): return [.namesChanged(id, names)]
        case .cancelling, .sending, .comparing, .offered, .awaitingResumePoint:
            throw MalformedInput("changed names before all content was sent")
        case nil: return try ignoreRace(id, "changed names of an unknown transfer")
        }
    }

    mutating func receiveStored(_ id: TransferID) throws(MalformedInput) -> [DirectReaction] {
        switch states[id] {
        // Cancelling is a race: the receiver stored the content before our cancel arrived.
        case .awaitingReceipt, .cancelling(_, wasComplete: true, _): return end(id, .completed)
        case .cancelling: throw MalformedInput("a receipt for incomplete content")
        case .sending, .comparing, .offered, .awaitingResumePoint: throw MalformedInput("a receipt before all content was sent")
        case nil: return try ignoreRace(id, "a receipt for an unknown transfer")
        }
    }

    /// - Returns: nil when there is no such transfer.
    mutating func receiveCancel(_ id: TransferID, reason: CancelReason) -> [DirectReaction]? {
        switch states[id] {
        // Both sides cancelled at once: the sender's reason counts for both.
        case .cancelling(let localReason, _, _):
            [.send(.cancelled(id))] + end(id, TransferOutcome(cancelledFor: localReason, at: .local))
        case .some:
            [.stopSending(id), .send(.cancelled(id))] + report(reason, of: id)
                + end(id, TransferOutcome(cancelledFor: reason, at: .remote))
        case nil: nil
        }
    }

    /// The receiver's reason for a cancel, as far as the outcome does not contain it.
    private func report(_ reason: CancelReason, of id: TransferID) -> [DirectReaction] {
        reason == .outputClosed ? [.outputClosed(id)] : []
    }

    /// - Returns: nil when no cancel of such a transfer awaits confirmation.
    mutating func receiveCancelled(_ id: TransferID) -> [DirectReaction]? {
        guard case .cancelling(let reason, _, _) = states[id] else { return nil }
        return end(id, TransferOutcome(cancelledFor: reason, at: .local))
    }

    /// - Throws: A violation, unless the transfer has ended and the frame is a race.
    private func ignoreRace(_ id: TransferID, _ violation: String) throws(MalformedInput) -> [DirectReaction] {
        guard ended.contains(id) else { throw MalformedInput(violation) }
        return []
    }

    // MARK: Time

    /// The earliest expiry or timeout.
    var deadline: MonotonicInstant? { states.values.compactMap(Self.deadline(of:)).min() }

    private static func deadline(of state: State) -> MonotonicInstant? {
        switch state {
        case .offered(let expiry, _): expiry
        case .cancelling(_, _, let deadline), .awaitingResumePoint(_, let deadline): deadline
        case .awaitingReceipt(let deadline): deadline
        case .comparing, .sending: nil
        }
    }

    /// Ends transfers whose offer has expired or whose cancel was not confirmed in time, and cancels those that the receiver has
    /// accepted and does not continue.
    mutating func advance(to now: MonotonicInstant) -> [DirectReaction] {
        states.flatMap { id, state -> [DirectReaction] in
            switch state {
            case .offered(let expiry, _) where now >= expiry: expire(id)
            case .cancelling(let reason, _, let deadline) where now >= deadline:
                end(id, TransferOutcome(cancelledFor: reason, at: .local))
            case .awaitingReceipt(nil):
                setReceiptDeadline(of: id, now + DirectLimits.stepTimeout)
            case .awaitingResumePoint(_, let deadline) where now >= deadline: cancel(id, reason: .goingAway, now: now) ?? []
            case .awaitingReceipt(let deadline?) where now >= deadline: cancel(id, reason: .goingAway, now: now) ?? []
            default: []
            }
        }
    }

    private mutating func setReceiptDeadline(of id: TransferID, _ deadline: MonotonicInstant) -> [DirectReaction] {
        states[id] = .awaitingReceipt(deadline: deadline)
        return []
    }

    private mutating func expire(_ id: TransferID) -> [DirectReaction] {
        [.send(.cancel(id, .expired))] + end(id, .expired)
    }

    private mutating func end(_ id: TransferID, _ outcome: TransferOutcome) -> [DirectReaction] {
        states[id] = nil
        ended.insert(id)
        return [.outgoingEnded(id, outcome)]
    }
}
