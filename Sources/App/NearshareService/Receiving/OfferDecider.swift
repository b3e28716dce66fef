internal import Nearshare
internal import Synchronization

/// Decides about offers: by policy, by an earlier answer of the user, or by asking the user.
final class OfferDecider: Sendable {
    /// The reason to accept an offer.
    enum Consent: Sendable {
        /// The policy accepts it. This says nothing about a later attempt, which has the policy of its time.
        case policy
        /// The user has accepted an earlier attempt, which was interrupted.
        case earlierAnswer
        /// The user was asked about this attempt.
        case answer
    }

    enum Decision: Sendable {
        /// - Parameters:
        ///   - policy: reserves the size.
        ///   - part: nil for the whole offer.
        ///   - reserved: the bytes that were counted towards the peer's limit.
        ///   - number: of the question that the user has answered; nil where there was none.
        case accept(
            policy: AcceptancePolicy, part: OfferPart? = nil, reserved: UInt64? = nil, consent: Consent, number: Int? = nil)
        case decline(DeclineReason, detail: String? = nil, wasPrompted: Bool, isSilent: Bool = false)
        case ended(TransferOutcome)
        /// No user answers the question any more.
        case closed
    }

    /// An attempt that has moved nothing for this time gives way to the next one of the same content: its sender has noticed that
    /// the link is broken before this side has.
    static let stallTimeout = Duration.seconds(1)

    let rules: AcceptanceRules
    let trust: TrustRecorder
    let declines = DeclineLog()
    private let destination: ReceiveDestination
    private let prompts: PromptQueue
    private let transfers: AcceptedTransfers
    private let recorder: ReceiveRecorder
    private let blockedForeign = Mutex(ForeignBlockList())
    private let keyWrites = KeyWriteLimit()
    /// The numbers of the questions about accepted offers that have not ended: another attempt has the same number.
    private let numbers = Mutex<[AcceptedOffers.Identity: Int]>([:])

    /// Limit on the recorded numbers; the lowest is removed.
    private static let maximumNumberCount = 64

    private var machine: LocalMachine { trust.machine }
    private var reporter: any Reporter { trust.reporter }

    init(
        _ rules: AcceptanceRules, _ trust: TrustRecorder, destination: ReceiveDestination, prompts: PromptQueue,
        transfers: AcceptedTransfers, recorder: ReceiveRecorder
    ) {
        (self.rules, self.trust, self.destination, self.prompts) = (rules, trust, destination, prompts)
        (self.transfers, self.recorder) = (transfers, recorder)
    }

    /// - Parameter isNew: whether answers to earlier attempts of the offer do not count.
    func decide(_ invitation: Invitation, isNew: Bool = false) async -> Decision {
        let peer = invitation.peer
        if isBlocked(peer) {
            let isSilent = !declines.admitReport(
                of: .declined, to: peer.fingerprint, peer.trustStatus, now: SystemClock.monotonic())
            return .decline(.declined, detail: "it is blocked", wasPrompted: false, isSilent: isSilent)
        }
        var clash: String?
        if case .nameClash = peer.trustStatus { clash = clashWarning(peer) }
        let downgrade = peer.proven.flatMap { proven in
            trust.downgradeWarning(of: proven, to: peer.version, name: machine.shown(peer).name.shown)
        }
        let policy = rules.policy(for: peer, canAsk: prompts.canAsk)
        let verdict = self.verdict(on: invitation, policy)
        switch verdict {
        case .accept, .acceptMissing:
            if let downgrade { reporter.report(.warning(downgrade)) }
            if peer.foreign?.kind == .web { rules.accept(browser: peer.fingerprint) }
            return .accept(
                policy: policy, reserved: verdict == .accept ? AcceptancePolicy.byteCount(of: invitation.offer) : nil,
                consent: .policy)
        case .decline(let reason, let detail):
            let isSilent = !declines.admitReport(
                of: reason, to: peer.fingerprint, peer.trustStatus, now: SystemClock.monotonic())
            if let clash, reason == .identityChanged || reason == .notAllowed, !isSilent {
                reporter.report(.warning(clash))
            }
            return .decline(reason, detail: detail, wasPrompted: false, isSilent: isSilent)
        case .ask: return await ask(about: invitation, policy, warning: clash ?? downgrade, refusal: nil, isNew: isNew)
        case .askForPart(let reason, let detail):
            return await ask(
                about: invitation, policy, warning: clash ?? downgrade, refusal: (reason, detail), isNew: isNew)
        }
    }

    private func verdict(on invitation: Invitation, _ policy: AcceptancePolicy) -> AcceptancePolicy.Verdict {
        let peer = invitation.peer
        let trustStatus = policy.accept == rules.standard.accept ? peer.trustStatus : trust.trustStatus(of: peer)
        var facts = AcceptancePolicy.Facts(of: peer.fingerprint, trustStatus)
        facts.hasFriendKey = hasFriendKey(peer, trustStatus)
        facts.source = peer.quotaSource
        facts.freeSpace = destination.freeSpace
        facts.sendsParts = invitation.sendsParts
        facts.receivedByteCount = { self.receivedByteCount(of: invitation) }
        facts.isPartlyPresent = { [destination, recorder] in
            guard invitation.features.contains(.listsFiles), let inbox = destination.inbox else { return false }
            return inbox.comparesFiles(of: invitation.offer) { recorder.receivedPaths.contains($0, from: peer.fingerprint) }
        }
        facts.partialByteCount = { [transfers] in transfers.partialByteCount(beside: invitation) }
        return policy.verdict(on: invitation.offer, facts)
    }

    // MARK: Questions

    /// - Parameters:
    ///   - refusal: the reason why all of it cannot be accepted.
    ///   - isNew: whether answers to earlier attempts of the offer do not count.
    private func ask(
        about invitation: Invitation, _ policy: AcceptancePolicy, warning: String?,
        refusal: (reason: DeclineReason, detail: String)?, isNew: Bool
    ) async -> Decision {
        let peer = invitation.peer
        if !isNew, let earlier = transfers.answer(to: invitation), refusal == nil || earlier != .all {
            return await acceptAgain(invitation)
        }
        let digits = peer.trustStatus.isVerified ? nil : await invitation.authenticationDigits
        if digits == nil, let outcome = invitation.currentEnd { return .ended(outcome) }
        if let digits { reporter.report(.invitedCode(peer.id, digits)) }
        let shown = machine.shown(peer)
        let number = prompts.reserveNumber()
        let answer = await prompts.ask(
            question(about: invitation, from: shown, digits, warning: warning, refusal: refusal?.detail), number: number,
            until: { [self] in
                await firstResult(
                    of: { await invitation.ended },
                    {
                        await self.trust.waitForBlock { self.isBlocked(peer) }
                        return Task.isCancelled ? nil : .declined(.declined)
                    })
            })
        // The peer was blocked meanwhile: by another command, or with the question about another offer.
        if answer != .block, answer != .closed, invitation.currentEnd == nil, isBlocked(peer) {
            return .decline(.declined, detail: "it is blocked", wasPrompted: true)
        }
        switch answer {
        case .yes, .always:
            if case .always = answer, trust.befriend(peer, shownAs: shown.name.shown(of: shown.id)) {
                rules.acceptAlways(peer.fingerprint)
            }
            guard let refusal else {
                if peer.foreign?.kind == .web { rules.accept(browser: peer.fingerprint) }
                recordNumber(number, of: invitation.identity)
                return .accept(policy: policy, consent: .answer, number: number)
            }
            return .decline(refusal.reason, detail: refusal.detail, wasPrompted: true)
        case .part(let part):
            if case .decline(let reason, let detail)? = policy.refusal(of: part.offer, freeSpace: destination.freeSpace) {
                return .decline(reason, detail: detail, wasPrompted: true)
            }
            recordNumber(number, of: invitation.identity)
            return .accept(policy: policy, part: part, consent: .answer, number: number)
        case .no: return .decline(.declined, wasPrompted: true)
        case .block:
            if peer.foreign == nil { trust.block(peer) } else { blockForeign(peer) }
            return .decline(.declined, wasPrompted: true)
        case .ended(let outcome): return .ended(outcome)
        case .closed: return .closed
        // Decided anew, as an offer that arrives when no user can be asked.
        case .unwatched: return await decide(invitation, isNew: isNew)
        }
    }

    private func question(
        about invitation: Invitation, from shown: ShownPeer, _ digits: ShortAuthenticationDigits?, warning: String?,
        refusal: String?
    ) -> Question {
        let peer = invitation.peer
        let parts = PartChooser(invitation.offer, listed: invitation.contents)
        var question = Question(
            "accept?", about: shown.name.quoted(of: shown.id),
            subject: OfferText.describe(
                invitation, from: shown.name, digits: digits, receivedSize: receivedByteCount(of: invitation),
                freeSpace: destination.freeSpace, warning: warning, refusal: refusal, size: prompts.size))
        question.isKnown = peer.trustStatus.isKnown
        question.pages = parts.pages
        question.parts = invitation.sendsParts ? parts : nil
        question.allowsAlways = warning == nil && refusal == nil && peer.foreign == nil
        question.blockWarning = trust.blockWarning(of: peer)
        question.deadline = invitation.expiry
        question.outline = OfferText.outline(invitation, from: shown.name, digits: digits, warning: warning, refusal: refusal)
        return question
    }

    /// The bytes of an offer that an interrupted transfer has stored, and that are not sent again.
    func receivedByteCount(of invitation: Invitation) -> UInt64 {
        guard invitation.isResumable else { return 0 }
        return destination.inbox?.receivedByteCount(
            of: invitation.offer, listed: invitation.contents, from: invitation.peer.fingerprint,
            resumeKey: invitation.resumeKey) ?? 0
    }

    // MARK: Numbers

    private func recordNumber(_ number: Int, of identity: AcceptedOffers.Identity) {
        numbers.withLock { numbers in
            numbers[identity] = number
            if numbers.count > Self.maximumNumberCount, let oldest = numbers.min(by: { $0.value < $1.value }) {
                numbers[oldest.key] = nil
            }
        }
    }

    /// Releases the number of an offer that has ended, and goes on in no other attempt.
    func removeNumber(of identity: AcceptedOffers.Identity) { numbers.withLock { $0[identity] = nil } }

    // MARK: Earlier answers

    /// Accepts another attempt of an offer that the user has accepted, in the place of an earlier one that was interrupted or
    /// moves nothing. After every other end of the earlier attempt the offer is decided as a new one: an answer is for one
    /// delivery, and a cancel revokes it.
    private func acceptAgain(_ invitation: Invitation) async -> Decision {
        let identity = invitation.identity
        let busy = Decision.decline(.busy, detail: "another attempt of the same offer is running", wasPrompted: false)
        guard transfers.beginReplacement(of: identity) else { return busy }
        var isReplaceable = true
        if let earlier = transfers.transfer(of: identity) {
            if !earlier.interrupt(ifStalledFor: Self.stallTimeout) {
                // The sender may have noticed before this side that the link of the earlier attempt is broken.
                try? await Task.sleep(for: Self.stallTimeout)
            }
            guard earlier.interrupt(ifStalledFor: Self.stallTimeout) || earlier.hasEnded else {
                transfers.cancelReplacement(of: identity)
                return busy
            }
            // The end is known before ``transfers`` has applied it.
            isReplaceable = await earlier.result.outcome == .interrupted
        }
        if isReplaceable, let decision = acceptedAgain(invitation) { return decision }
        transfers.cancelReplacement(of: identity)
        return await decide(invitation, isNew: true)
    }

    /// Reads the user's answer, the trust in the peer and the rules once more: all may have changed during the earlier attempt.
    /// - Returns: nil when the user's answer does not decide about the offer any more.
    private func acceptedAgain(_ invitation: Invitation) -> Decision? {
        let policy = rules.policy(for: invitation.peer, canAsk: prompts.canAsk)
        // Any other policy decides without the answer, and counts the offer towards the peer's limit.
        guard !isBlocked(invitation.peer), policy.accept == .ask, let answer = transfers.answer(to: invitation) else {
            return nil
        }
        let number = numbers.withLock { $0[invitation.identity] }
        switch (verdict(on: invitation, policy), answer) {
        case (.ask, .all): return .accept(policy: policy, consent: .earlierAnswer, number: number)
        case (.ask, .part(let part)), (.askForPart, .part(let part)):
            return .accept(policy: policy, part: part, consent: .earlierAnswer, number: number)
        default: return nil
        }
    }

    // MARK: Trust

    /// Stores the key of a peer whose offer is accepted.
    /// - Parameter wasPrompted: whether the user has seen the peer.
    func pinKey(of peer: Peer, wasPrompted: Bool) {
        trust.pinKey(of: peer, isChosen: wasPrompted) {
            // Keys are free, and the user has not seen this one (R14).
            wasPrompted || peer.trustStatus.isVerified || peer.trustStatus.isFriend || keyWrites.admit()
        }
    }

    /// Declines all offers of a peer without a key of nearshare, and of others at its address, until the process ends.
    private func blockForeign(_ peer: Peer) {
        blockedForeign.withLock { $0.insert(peer) }
        trust.notifyBlocked()
        reporter.report(
            .notice(
                "offers of \(machine.shown(peer).name.shown), and others from its address, are declined until this command ends"
            ))
    }

    private func isBlocked(_ peer: Peer) -> Bool {
        trust.isBlocked(peer) || (peer.foreign != nil && blockedForeign.withLock { $0.contains(peer) })
    }

    /// Whether a peer has proven the key of a friend. Its name does not matter: lists show it under its own, or with a tag (K2).
    private func hasFriendKey(_ peer: Peer, _ trustStatus: TrustStatus) -> Bool {
        guard case .nameClash = trustStatus else { return trustStatus.isFriend }
        guard let proven = peer.proven, let known = try? machine.trust.read()[proven.fingerprint] else { return false }
        return known.isFriend && known.trust != .blocked
    }

    private func clashWarning(_ peer: Peer) -> String {
        let (kind, check) =
            peer.foreign == nil
            ? ("key", "the short code") : ("certificate", "the certificate with the one in LocalSend's settings there")
        let former = (try? machine.trust.read())?.formerName(of: peer.fingerprint, claiming: peer.name)
        return
            "WARNING: \(peer.name.quoted(of: peer.id)) is known with another \(kind)"
            + "\(former.map { "; this \(kind) is known as \($0.shown)" } ?? ""). This may be another peer that claims "
            + "the name, or a new machine. Compare \(check) before you accept anything."
    }
}
