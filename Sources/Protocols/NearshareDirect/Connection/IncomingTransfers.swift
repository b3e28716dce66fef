internal import NearshareBase

/// The receiver's side of all transfers of a connection.
///
///     invited ─accept (select)─► locating ─resume─► receiving ─all there─► finishing ─stored─► ended
///        │                  └─list files─► comparing ─resume─►┘
///        └─decline, expiry─► ended           └── local cancel ─► cancelling ─cancelled, timeout─► ended
///
/// A cancel from the peer ends a transfer at once, unless it is finishing.
struct IncomingTransfers: Sendable {
    private enum State {
        case invited(since: MonotonicInstant, expiry: MonotonicInstant)
        case locating
        /// The files are listed and compared.
        case comparing(Flow)
        /// The entries are received.
        case receiving(Flow)
        /// All content has arrived and is being made durable: too late to cancel.
        case finishing
        case cancelling(CancelReason, deadline: MonotonicInstant)

        var isInvited: Bool { if case .invited = self { true } else { false } }
    }

    /// The bytes of a content stream so far.
    private struct Flow {
        var received: UInt64 = 0
        var stored: UInt64 = 0
        var granted: UInt64
    }

    private let limits: DirectLimits
    private var states: [TransferID: State] = [:]
    private var ended = RecentTransferIDs()

    init(limits: DirectLimits) {
        self.limits = limits
    }

    var isEmpty: Bool { states.isEmpty }

    /// The time of the latest offer while all transfers are unanswered offers; nil otherwise.
    var lastUnansweredOffer: MonotonicInstant? {
        let times = states.values.compactMap { if case .invited(let since, _) = $0 { since } else { nil } }
        return times.count == states.count ? times.max() : nil
    }

    /// Whether a transfer waits for this side: for the resume point, or for the disk or the program to store what has arrived. A
    /// peer that sends slowly does not bring that about: a trickle is stored at once (R5).
    var isWaitingForStorage: Bool {
        states.values.contains { state in
            switch state {
            case .locating, .finishing: true
            case .comparing(let flow), .receiving(let flow): flow.stored < flow.received
            case .invited, .cancelling: false
            }
        }
    }

    /// Whether the id belongs to a transfer that has ended.
    func hasEnded(_ id: TransferID) -> Bool { ended.contains(id) }

    /// Whether the id is in use or was used recently (A3).
    func isUsed(_ id: TransferID) -> Bool { states[id] != nil || ended.contains(id) }

    /// Whether content of a transfer is being received.
    func isReceiving(_ id: TransferID) -> Bool {
        switch states[id] {
        case .locating, .comparing, .receiving: true
        case .invited, .finishing, .cancelling, nil: false
        }
    }

    // MARK: The local side

    /// Accepts an offer or the selected part of it, or declines it when it has expired.
    mutating func accept(
        _ id: TransferID, selecting selection: EntrySelection? = nil, now: MonotonicInstant
    ) -> [DirectReaction] {
        guard case .invited(_, let expiry) = states[id] else { return [] }
        guard now < expiry else { return expire(id) }
        states[id] = .locating
        return [.send(.accept(id, window: limits.window))] + (selection.map { [.send(.select(id, $0))] } ?? [])
    }

    /// Sends the resume point of an accepted transfer.
    mutating func resume(_ id: TransferID, at point: ResumePoint) -> [DirectReaction] {
        switch states[id] {
        case .locating: states[id] = .receiving(Flow(granted: limits.window))
        case .comparing(let flow): states[id] = .receiving(flow)
        default: return []
        }
        return [.send(.resume(id, point))]
    }

    /// Asks the sender to list the files of an accepted transfer.
    mutating func listFiles(_ id: TransferID) -> [DirectReaction] {
        guard case .locating = states[id] else { return [] }
        states[id] = .comparing(Flow(granted: limits.window))
        return [.send(.listFiles(id))]
    }

    /// Asks for the digests of listed files.
    func requestDigests(_ id: TransferID, of candidates: FileSet) -> [DirectReaction] {
        guard case .comparing = states[id] else { return [] }
        return [.send(.candidates(id, candidates))]
    }

    /// Tells the sender which listed files it need not send.
    func reportPresent(_ id: TransferID, identical: FileSet, newer: FileSet) -> [DirectReaction] {
        guard case .comparing = states[id] else { return [] }
        return [.send(.present(id, identical: identical, newer: newer))]
    }

    /// Declines an offer.
    mutating func decline(_ id: TransferID, reason: DeclineReason) -> [DirectReaction] {
        guard case .invited = states[id] else { return [] }
        return [.send(.decline(id, reason))] + end(id, .declined(reason))
    }

    /// Declines all offers that await an answer.
    mutating func declineAll(reason: DeclineReason) -> [DirectReaction] {
        states.filter { $0.value.isInvited }.keys.flatMap { decline($0, reason: reason) }
    }

    /// Sends credit for more of the window when enough content was stored.
    mutating func recordStored(_ id: TransferID, upTo total: UInt64) -> [DirectReaction] {
        switch states[id] {
        case .receiving(var flow):
            let reactions = recordStored(id, upTo: total, &flow)
            states[id] = .receiving(flow)
            return reactions
        case .comparing(var flow):
            let reactions = recordStored(id, upTo: total, &flow)
            states[id] = .comparing(flow)
            return reactions
        default: return []
        }
    }

    private func recordStored(_ id: TransferID, upTo total: UInt64, _ flow: inout Flow) -> [DirectReaction] {
        flow.stored = max(flow.stored, total)
        let limit = total.addingClamped(limits.window)
        // Sent at half of a window: the sender never waits, and these frames are rare.
        guard limit >= flow.granted.addingClamped(limits.window / 2) else { return [] }
        flow.granted = limit
        return [.send(.credit(id, upTo: limit))]
    }

    /// Marks a transfer as finishing, after which it cannot be cancelled.
    /// - Returns: false when it was cancelled before; its content must then not be stored.
    mutating func beginFinishing(_ id: TransferID) -> Bool {
        guard case .receiving = states[id] else { return false }
        states[id] = .finishing
        return true
    }

    /// Confirms to the sender that all content is stored.
    mutating func finish(_ id: TransferID, _ changedNames: ChangedNames = ChangedNames()) -> [DirectReaction] {
        guard case .finishing = states[id] else { return [] }
        let names: [DirectReaction] = changedNames.isEmpty ? [] : [.send(.changedNames(id, changedNames))]
        return names + [.send(.stored(id))] + end(id, .completed)
    }

    /// Cancels a transfer.
    mutating func cancel(_ id: TransferID, reason: CancelReason, now: MonotonicInstant) -> [DirectReaction] {
        switch states[id] {
        case .cancelling, nil: return []
        case .invited: return decline(id, reason: .declined)
        // Too late for the user; but content that cannot be stored was not received.
        case .finishing where reason == .cancelled || reason == .goingAway: return []
        case .locating, .comparing, .receiving, .finishing:
            states[id] = .cancelling(reason, deadline: now + DirectLimits.cancelTimeout)
            return [.send(.cancel(id, reason))]
        }
    }

    /// Ends all transfers with the connection.
    mutating func endAll(afterViolation isViolation: Bool) -> [DirectReaction] {
        states.flatMap { id, state in
            var outcome = TransferOutcome.interrupted
            if case .cancelling(let reason, _) = state { outcome = TransferOutcome(cancelledFor: reason, at: .local) }
            if isViolation { outcome = .failed(.refused, at: .local) }
            return end(id, outcome)
        }
    }

    // MARK: Frames

    /// Stores a new offer, or declines it when too many are pending (R4, R11).
    mutating func receiveOffer(_ offer: TransferOffer, now: MonotonicInstant) -> [DirectReaction] {
        let pendingCount = states.values.count { $0.isInvited }
        guard pendingCount < limits.pendingInvitations, states.count < limits.incomingTransfers else {
            ended.insert(offer.id)
            return [.send(.decline(offer.id, .busy))]
        }
        let expiry = now + min(max(offer.timeout, .seconds(1)), TransferOffer.maximumTimeout)
        states[offer.id] = .invited(since: now, expiry: expiry)
        return [.offerReceived(offer, expiry: expiry)]
    }

    /// Decides about bytes of content that have arrived (A1, A2).
    mutating func receiveContent(_ id: TransferID, byteCount: Int) throws(MalformedInput) -> ContentVerdict {
        switch states[id] {
        case .receiving(var flow):
            try Self.add(byteCount, to: &flow)
            states[id] = .receiving(flow)
            return .deliver
        case .comparing(var flow):
            try Self.add(byteCount, to: &flow)
            states[id] = .comparing(flow)
            return .deliver
        case .cancelling: return .drop
        case .invited, .locating: throw MalformedInput("content before it was accepted")
        case .finishing: throw MalformedInput("content after the end of the transfer")
        case nil:
            // Race: sent before the sender knew that the transfer has ended.
            guard ended.contains(id) else { throw MalformedInput("content of a transfer that was never offered") }
            return .drop
        }
    }

    private static func add(_ byteCount: Int, to flow: inout Flow) throws(MalformedInput) {
        flow.received = flow.received.addingClamped(UInt64(byteCount))
        guard flow.received <= flow.granted else { throw MalformedInput("more content than was granted") }
    }

    /// - Returns: nil when there is no such transfer.
    mutating func receiveCancel(_ id: TransferID, reason: CancelReason) -> [DirectReaction]? {
        switch states[id] {
        // Race: the cancel arrived after the last byte. The content is being stored, and the receipt will confirm it.
        case .finishing: []
        case .some: [.send(.cancelled(id))] + end(id, TransferOutcome(cancelledFor: reason, at: .remote))
        case nil: nil
        }
    }

    /// - Returns: nil when no cancel of such a transfer awaits confirmation.
    mutating func receiveCancelled(_ id: TransferID) -> [DirectReaction]? {
        guard case .cancelling(let reason, _) = states[id] else { return nil }
        return end(id, TransferOutcome(cancelledFor: reason, at: .local))
    }

    // MARK: Time

    /// The earliest expiry or timeout.
    var deadline: MonotonicInstant? { states.values.compactMap(Self.deadline(of:)).min() }

    private static func deadline(of state: State) -> MonotonicInstant? {
        switch state {
        case .invited(_, let expiry): expiry
        case .cancelling(_, let deadline): deadline
        case .locating, .comparing, .receiving, .finishing: nil
        }
    }

    /// Ends transfers whose offer has expired or whose cancel was not confirmed in time.
    mutating func advance(to now: MonotonicInstant) -> [DirectReaction] {
        states.flatMap { id, state -> [DirectReaction] in
            switch state {
            case .invited(_, let expiry) where now >= expiry: expire(id)
            case .cancelling(let reason, let deadline) where now >= deadline:
                end(id, TransferOutcome(cancelledFor: reason, at: .local))
            default: []
            }
        }
    }

    private mutating func expire(_ id: TransferID) -> [DirectReaction] {
        [.send(.decline(id, nil))] + end(id, .expired)
    }

    private mutating func end(_ id: TransferID, _ outcome: TransferOutcome) -> [DirectReaction] {
        states[id] = nil
        ended.insert(id)
        return [.incomingEnded(id, outcome)]
    }
}
