internal import Nearshare
internal import Synchronization

/// The accepted transfers of a process, and the user's answers to their offers: an answer is for one attempt at a time (A12).
final class AcceptedTransfers: Sendable {
    private struct State {
        /// The transfers that have not ended. A later attempt takes the place of an earlier one.
        var running: [AcceptedOffers.Identity: Transfer] = [:]
        /// The offers of which an attempt takes the place of an earlier one.
        var beingReplaced: Set<AcceptedOffers.Identity> = []
        var offers = AcceptedOffers()
    }

    private let state = Mutex(State())
    /// The offers that the user has accepted, for the next process.
    private let answers: AnsweredOfferFile
    /// nil for standard output.
    private let inbox: Inbox?
    private let arrivalCommand: [String]
    private let reporter: any Reporter

    /// - Parameter arrivalCommand: a consequence that the user has accepted with an offer.
    init(in directory: StateDirectory, inbox: Inbox?, arrivalCommand: [String], reporter: any Reporter) {
        answers = AnsweredOfferFile(in: directory)
        (self.inbox, self.arrivalCommand, self.reporter) = (inbox, arrivalCommand, reporter)
    }

    // MARK: Transfers

    /// The transfer of an offer that has not ended; nil for none.
    func transfer(of identity: AcceptedOffers.Identity) -> Transfer? { state.withLock { $0.running[identity] } }

    /// The transfers of a sender that have not ended.
    func transfers(from sender: Fingerprint) -> [Transfer] {
        state.withLock { $0.running.filter { $0.key.sender == sender && !$0.value.hasEnded }.map(\.value) }
    }

    /// Reserves the place of an earlier attempt of an offer.
    /// - Returns: false when another attempt has reserved it.
    func beginReplacement(of identity: AcceptedOffers.Identity) -> Bool {
        state.withLock { $0.beingReplaced.insert(identity).inserted }
    }

    /// Ends the reservation of an attempt that does not start.
    func cancelReplacement(of identity: AcceptedOffers.Identity) {
        state.withLock { _ = $0.beingReplaced.remove(identity) }
    }

    /// Records that a transfer has started. One with an earlier answer has the place that it has reserved.
    /// - Parameter part: nil for the whole offer.
    func start(
        _ transfer: Transfer, of invitation: Invitation, _ part: OfferPart?, _ consent: OfferDecider.Consent
    ) {
        let identity = invitation.identity
        state.withLock { state in
            state.running[identity] = transfer
            if consent == .earlierAnswer { state.beingReplaced.remove(identity) }
            state.offers.accept(
                invitation.offer, part: part, listed: invitation.contents, identity, isAnswered: consent != .policy)
        }
    }

    /// Applies the outcome of a transfer to the user's answer: only an interruption leaves the answer valid. No effect where a
    /// later attempt has its place.
    func apply(_ outcome: TransferOutcome, of transfer: Transfer, _ invitation: Invitation) {
        let identity = invitation.identity
        let end: (isCurrent: Bool, answer: AcceptedOffers.Answer?) = state.withLock { state in
            guard state.running[identity] === transfer else { return (false, nil) }
            return (true, state.offers.end(identity, outcome, now: SystemClock.monotonic()))
        }
        guard end.isCurrent else { return }
        if outcome != .interrupted {
            // Revokes an earlier process's answer too, whatever has accepted this attempt.
            removeAnswer(to: invitation)
        } else if let answer = end.answer {
            storeAnswer(answer, to: invitation)
        }
    }

    /// Removes a transfer, unless a later attempt has its place.
    func remove(_ transfer: Transfer, of identity: AcceptedOffers.Identity) {
        state.withLock { if $0.running[identity] === transfer { $0.running[identity] = nil } }
    }

    // MARK: Disk space

    /// The disk space that the peer's unfinished transfers take, besides those that run: they have reserved their size.
    func partialByteCount(beside invitation: Invitation) -> UInt64 {
        partialByteCount(of: invitation.peer.fingerprint, except: [invitation.resumeKey])
    }

    /// The disk space that a peer's unfinished transfers take, one that has just ended included.
    func partialByteCount(after ended: AcceptedOffers.Identity) -> UInt64 {
        partialByteCount(of: ended.sender, except: [], running: { $0 != ended })
    }

    private func partialByteCount(
        of sender: Fingerprint, except resumeKeys: [[UInt8]],
        running isRunning: (AcceptedOffers.Identity) -> Bool = { _ in true }
    ) -> UInt64 {
        let running = state.withLock { $0.running.keys.filter { $0.sender == sender && isRunning($0) }.map(\.resumeKey) }
        return inbox?.partialByteCount(of: sender, except: running + resumeKeys) ?? 0
    }

    // MARK: Answers

    /// The user's answer to an earlier attempt of the same offer, in this process or in one that has ended meanwhile.
    func answer(to invitation: Invitation) -> AcceptedOffers.Answer? {
        let now = SystemClock.monotonic()
        let answer = state.withLock {
            $0.offers.answer(to: invitation.offer, listed: invitation.contents, invitation.identity, now: now)
        }
        if let answer { return answer }
        switch storedAnswer(to: invitation) {
        case nil: return nil
        case .all: return .all
        case .part(let selection):
            return OfferPart(selection, of: invitation.offer, listed: invitation.contents).map { .part($0) }
        }
    }

    /// The user's answer to the offer that this process or an earlier one has stored.
    private func storedAnswer(to invitation: Invitation) -> AnsweredOffers.Answer? {
        guard invitation.isResumable, let offers = try? answers.read() else { return nil }
        return offers.answer(to: digest(of: invitation), of: invitation.peer.fingerprint, at: SystemClock.wall())
    }

    /// Stores the user's answer to an offer.
    func storeAnswer(_ answer: AcceptedOffers.Answer, to invitation: Invitation) {
        guard invitation.isResumable else { return }
        let stored: AnsweredOffers.Answer =
            switch answer {
            case .all: .all
            case .part(let part): .part(part.selection)
            }
        update { $0.update(digest(of: invitation), of: invitation.peer.fingerprint, stored, at: SystemClock.wall()) }
    }

    private func removeAnswer(to invitation: Invitation) {
        guard storedAnswer(to: invitation) != nil else { return }
        update { $0.update(digest(of: invitation), of: invitation.peer.fingerprint, nil, at: SystemClock.wall()) }
    }

    /// Renews the time of a stored answer while its transfer runs: the process may be killed at any time.
    func renewAnswer(to invitation: Invitation) {
        // Nothing is written for a transfer that a policy has accepted.
        guard storedAnswer(to: invitation) != nil else { return }
        update { $0.renew(digest(of: invitation), of: invitation.peer.fingerprint, at: SystemClock.wall()) }
    }

    private func update(_ body: (inout AnsweredOffers) -> Void) {
        do {
            try answers.update(body)
        } catch {
            reporter.report(.warning("\(error)"))
        }
    }

    private func digest(of invitation: Invitation) -> String {
        AnsweredOffers.digest(
            of: invitation.offer, listed: invitation.contents, resumeKey: invitation.resumeKey,
            consequences: [inbox?.path ?? "", "\(inbox?.limits.existing, default: "")"] + arrivalCommand)
    }
}

extension Invitation {
    var identity: AcceptedOffers.Identity { AcceptedOffers.Identity(sender: peer.fingerprint, resumeKey: resumeKey) }

    /// Whether a broken transfer can be resumed: not by a sender that cannot read its content again, nor by a browser, whose key
    /// ends with its page, nor in the mesh, whose files are stored when they are whole.
    var isResumable: Bool { offer.totalSize != nil && peer.foreign == nil && peer.address != nil }

    /// Whether the user can accept a part of the offer.
    var sendsParts: Bool { features.contains(.sendsParts) && offer.totalSize != nil && offer.entryCount > 1 }
}

extension Peer {
    /// The address of a peer that is no friend, or its IPv6 network: keys are free, and all keys of one source share a limit.
    var quotaSource: String? {
        guard !trustStatus.isFriend, let address, address.medium == .network else { return nil }
        return address.limitKey
    }
}
