internal import Glibc
package import Nearshare
internal import Synchronization

/// Answers invitations by policy or by asking the user, and follows the accepted transfers.
package final class ReceiveController: Sendable {
    /// The reason to accept an offer.
    private enum Consent: Sendable {
        /// The policy accepts it. This says nothing about a later attempt, which has the policy of its time.
        case policy
        /// The user has accepted an earlier attempt, which was interrupted.
        case earlierAnswer
        /// The user was asked about this attempt.
        case answer
    }

    private enum Decision: Sendable {
        /// - Parameters:
        ///   - policy: reserves the size.
        ///   - part: nil for the whole offer.
        ///   - reserved: the bytes that were counted towards the peer's limit.
        case accept(policy: AcceptancePolicy, part: OfferPart? = nil, reserved: UInt64? = nil, consent: Consent)
        case decline(DeclineReason, detail: String? = nil, wasPrompted: Bool, isSilent: Bool = false)
        case ended(TransferOutcome)
    }

    /// The state of standard output, which holds one content: its reader could not tell where another one begins.
    private enum Output: Sendable {
        case free
        /// Reserved for a running transfer.
        case reserved
        /// Contains a part of a content at least.
        case used
    }

    /// An attempt that has moved nothing for this time gives way to the next one of the same content: its sender has noticed that
    /// the link is broken before this side has.
    private static let stallTimeout = Duration.seconds(1)

    private let machine: LocalMachine
    private let destination: ReceiveDestination
    private let rules: AcceptanceRules
    private let prompts: PromptQueue
    private let feed: ReceiveFeed?
    private let trust: TrustRecorder
    private let reporter: any Reporter
    private let spool: SpoolDelivery?
    private let endsAfterFirst: Bool
    private let arrivalCommand: [String]
    /// The accepted transfers that the user can see and cancel.
    private let running = RunningTransfers()
    /// The accepted transfers that have not ended, by offer. A later attempt takes the place of an earlier one.
    private let acceptedTransfers = Mutex<[AcceptedOffers.Identity: Transfer]>([:])
    /// The offers of which an attempt takes the place of an earlier one: an answer is for one attempt at a time (A12).
    private let beingReplaced = Mutex<Set<AcceptedOffers.Identity>>([])
    private let blockedForeign = Mutex(ForeignBlockList())
    /// Whether ``Interruption/terminated`` ends the process.
    private let isTerminated = Mutex(false)
    private let accepted = Mutex(AcceptedOffers())
    /// The offers that the user has accepted, for the next process.
    private let answered: AnsweredOfferFile
    private let keyWrites = KeyWriteLimit()
    /// The status of the first completed transfer, or else of the last one; nil before the end of one.
    private let status = Mutex<ExitStatus?>(nil)
    private let declines = DeclineLog()
    private let output = Mutex(Output.free)
    private let hotspot: HotspotResponder

    /// - Parameters:
    ///   - display: asks the user, when the policy requires it, and reads which transfers to cancel; nil without a terminal.
    ///   - feed: connects front ends that ask as well; nil for none.
    ///   - endsAfterFirst: shuts the node down after the first completed transfer.
    ///   - arrivalCommand: the words of the command that is run for each arrival.
    ///   - hotspot: for Wi-Fi networks for transfers over Bluetooth; nil for none.
    ///   - leavesWiFi: whether friends have a hotspot without a question to the user.
    package init(
        machine: LocalMachine, destination: ReceiveDestination, accept: Acceptance, quota: PeerQuota,
        reporter: any Reporter, endsAfterFirst: Bool, display: (any PromptDisplay)?, feed: ReceiveFeed? = nil,
        arrivalCommand: [String] = [], hotspot: HotspotPreparer? = nil, leavesWiFi: Bool = false
    ) {
        self.hotspot = HotspotResponder(destination.inbox == nil ? nil : hotspot, leavesWiFi: leavesWiFi)
        let reporter: any Reporter = feed.map { ReceiveFeedReporter(reporter: reporter, feed: $0) } ?? reporter
        self.machine = machine
        self.destination = destination
        self.reporter = reporter
        self.endsAfterFirst = endsAfterFirst
        self.arrivalCommand = arrivalCommand
        spool = destination.inbox.map { SpoolDelivery(inbox: $0, state: machine.state, reporter: reporter) }
        // A reader of standard output may read the same terminal.
        prompts = PromptQueue(display, feed: feed, running: destination.inbox == nil ? RunningTransfers() : running)
        self.feed = feed
        rules = AcceptanceRules(accept, limits: destination.inbox?.limits, quota: quota, trust: machine.trust)
        trust = TrustRecorder(machine: machine, reporter: reporter)
        answered = AnsweredOfferFile(in: machine.state)
    }

    /// Serves until the node shuts down.
    /// - Throws: ``CommandFailure`` when it should end after a transfer and none was completed.
    package func serve(_ listener: Listener, on node: Node) async throws {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.prompts.run() }
            group.addTask { await self.reporter.showProgress(of: self.running) }
            group.addTask { await self.spool?.run() }
            let verification = VerificationResponder(
                trust: trust, reporter: reporter, prompts: rules.standard.canAsk ? prompts : nil, declines: declines)
            group.addTask { await verification.run(listener.verificationRequests) }
            let context = HotspotResponder.Context(
                trust: trust, reporter: reporter, prompts: rules.standard.canAsk ? prompts : nil, port: { listener.port },
                transfers: { self.transfers(from: $0) })
            group.addTask { await self.hotspot.run(listener.hotspotRequests, for: context) }
            await withDiscardingTaskGroup { answers in
                for await invitation in listener.invitations {
                    answers.addTask {
                        let endsReceiving = await self.handle(invitation)
                        if endsReceiving, self.endsAfterFirst { node.beginShutdown() }
                    }
                }
            }
            group.cancelAll()
        }
        feed?.finish()
        if endsAfterFirst, let status = status.withLock({ $0 }), status != .ok { throw CommandFailure.silent(status) }
    }

    /// Declines open invitations, and shuts the node down. Transfers that the user has not cancelled are interrupted: their
    /// senders look for the receiver again for a while.
    package func interrupt(_ node: Node, _ cause: Interruption) {
        guard cause == .cancelled else {
            isTerminated.withLock { $0 = true }
            node.beginShutdown()
            // Their links are closed already: no peer is told that the user has declined.
            prompts.close()
            return
        }
        running.cancelAll()
        prompts.close()
        node.beginShutdown()
    }

    // MARK: One invitation

    /// - Returns: whether the transfer is complete, or nothing can be written any more.
    private func handle(_ invitation: Invitation) async -> Bool {
        reporter.report(.invited(invitation, freeSpace: destination.freeSpace))
        switch await decide(invitation) {
        case .decline(let reason, let detail, let wasPrompted, let isSilent):
            decline(invitation, reason, wasPrompted: wasPrompted)
            if wasPrompted { recordUnreceived(invitation, .declined(reason)) }
            reportEnd(of: invitation, .declined(reason), detail: detail, isSilent: isSilent)
            return false
        case .ended(let outcome):
            recordUnreceived(invitation, outcome)
            reportEnd(of: invitation, outcome)
            return false
        case .accept(let policy, let part, let reserved, let consent):
            let reservation = QuotaReservation(
                reserved, for: invitation.peer.fingerprint, at: Self.quotaSource(of: invitation.peer), policy)
            return await receive(invitation, part, reservation, consent)
        }
    }

    private func decline(_ invitation: Invitation, _ reason: DeclineReason, wasPrompted: Bool) {
        if wasPrompted { invitation.decline(reason) } else { invitation.declineUnprompted(reason) }
    }

    /// - Parameter isNew: whether answers to earlier attempts of the offer do not count.
    private func decide(_ invitation: Invitation, isNew: Bool = false) async -> Decision {
        let peer = invitation.peer
        if isBlocked(peer) {
            let isSilent = !declines.admitReport(
                of: .declined, to: peer.fingerprint, peer.trustStatus, now: SystemClock.monotonic())
            return .decline(.declined, detail: "it is blocked", wasPrompted: false, isSilent: isSilent)
        }
        var clash: String?
        if case .nameClash = peer.trustStatus { clash = Self.clashWarning(peer) }
        let downgrade = peer.proven.flatMap { proven in
            trust.downgradeWarning(of: proven, to: peer.version, name: machine.shown(peer).name.shown)
        }
        let policy = rules.policy(for: peer, canAsk: prompts.canAsk)
        let verdict = self.verdict(on: invitation, policy)
        switch verdict {
        case .accept, .acceptMissing:
            if let downgrade { reporter.report(.warning(downgrade)) }
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
        return policy.verdict(
            on: invitation.offer, from: peer.fingerprint,
            trustStatus: policy.accept == rules.standard.accept ? peer.trustStatus : trustStatus(of: peer),
            freeSpace: destination.freeSpace, sendsParts: Self.sendsParts(invitation), at: Self.quotaSource(of: peer),
            isPartlyPresent: {
                let paths = pathsReceived(from: peer.fingerprint)
                return invitation.features.contains(.listsFiles)
                    && destination.inbox?.comparesFiles(of: invitation.offer, mayCompare: paths.contains) ?? false
            },
            partial: { partialByteCount(beside: invitation) })
    }

    /// The accepted transfers of a sender that have not ended.
    private func transfers(from sender: Fingerprint) -> [Transfer] {
        acceptedTransfers.withLock { $0.filter { $0.key.sender == sender && !$0.value.hasEnded }.map(\.value) }
    }

    /// The disk space that the peer's unfinished transfers take, besides those that run: they have reserved their size.
    private func partialByteCount(beside invitation: Invitation) -> UInt64 {
        partialByteCount(of: invitation.peer.fingerprint, except: [invitation.resumeKey])
    }

    /// The disk space that a peer's unfinished transfers take, one that has just ended included.
    private func partialByteCount(of sender: Fingerprint, after ended: AcceptedOffers.Identity) -> UInt64 {
        partialByteCount(of: sender, except: [], running: { $0 != ended })
    }

    private func partialByteCount(
        of sender: Fingerprint, except resumeKeys: [[UInt8]],
        running isRunning: (AcceptedOffers.Identity) -> Bool = { _ in true }
    ) -> UInt64 {
        let running = acceptedTransfers.withLock { $0.keys.filter { $0.sender == sender && isRunning($0) }.map(\.resumeKey) }
        return destination.inbox?.partialByteCount(of: sender, except: running + resumeKeys) ?? 0
    }

    /// The address of a peer that is no friend, or its IPv6 network: keys are free, and all keys of one source share a limit.
    private static func quotaSource(of peer: Peer) -> String? {
        guard !peer.trustStatus.isFriend, let address = peer.address, address.medium == .network else { return nil }
        return address.limitKey
    }

    /// Whether the user can accept a part of an offer.
    private static func sendsParts(_ invitation: Invitation) -> Bool {
        invitation.features.contains(.sendsParts) && invitation.offer.totalSize != nil
    }

    /// - Parameters:
    ///   - refusal: the reason why all of it cannot be accepted.
    ///   - isNew: whether answers to earlier attempts of the offer do not count.
    private func ask(
        about invitation: Invitation, _ policy: AcceptancePolicy, warning: String?,
        refusal: (reason: DeclineReason, detail: String)?, isNew: Bool
    ) async -> Decision {
        let peer = invitation.peer
        if !isNew, let earlier = earlierAnswer(to: invitation), refusal == nil || earlier != .all {
            return await acceptAgain(invitation)
        }
        let digits = peer.trustStatus.isVerified ? nil : await invitation.authenticationDigits
        if digits == nil, let outcome = invitation.presentEnd { return .ended(outcome) }
        if let digits { reporter.report(.invitedCode(peer.id, digits)) }
        let shown = machine.shown(peer)
        let text = OfferText.describe(
            invitation, from: shown.name, digits: digits, receivedSize: receivedByteCount(of: invitation),
            freeSpace: destination.freeSpace, warning: warning,
            refusal: refusal?.detail)
        let parts = PartChooser(invitation.offer, listed: invitation.contents)
        let answer = await prompts.ask(
            text, question: "accept?", about: shown.name.quoted(of: shown.id), isKnown: peer.trustStatus.isKnown,
            pages: parts.pages, parts: Self.sendsParts(invitation) ? parts : nil,
            allowsAlways: warning == nil && peer.foreign == nil,
            deadline: invitation.expiry,
            outline: OfferText.outline(
                invitation, from: shown.name, digits: digits, warning: warning, refusal: refusal?.detail),
            until: { await invitation.ended })
        switch answer {
        case .yes, .always:
            if case .always = answer {
                let fingerprint = peer.fingerprint
                if trust.befriend(peer, shownAs: shown.name.shown(of: shown.id)) {
                    rules.acceptAlways(fingerprint)
                }
            }
            guard let refusal else {
                if peer.foreign?.kind == .web {
                    rules.accept(browser: peer.fingerprint)
                }
                return .accept(policy: policy, consent: .answer)
            }
            return .decline(refusal.reason, detail: refusal.detail, wasPrompted: true)
        case .part(let part):
            if case .decline(let reason, let detail)? = policy.refusal(of: part.offer, freeSpace: destination.freeSpace) {
                return .decline(reason, detail: detail, wasPrompted: true)
            }
            return .accept(policy: policy, part: part, consent: .answer)
        case .no: return .decline(.declined, wasPrompted: true)
        case .block:
            if peer.foreign == nil { trust.block(peer) } else { blockForeign(peer) }
            return .decline(.declined, wasPrompted: true)
        case .ended(let outcome): return .ended(outcome)
        // Decided anew, as an offer that arrives when no user can be asked.
        case .unwatched: return await decide(invitation, isNew: isNew)
        }
    }

    /// Accepts another attempt of an offer that the user has accepted, in the place of an earlier one that was interrupted or
    /// moves nothing. After every other end of the earlier attempt the offer is decided as a new one: an answer is for one
    /// delivery, and a cancel revokes it.
    private func acceptAgain(_ invitation: Invitation) async -> Decision {
        let identity = Self.identity(invitation)
        let busy = Decision.decline(.busy, detail: "another attempt of the same offer is running", wasPrompted: false)
        guard beingReplaced.withLock({ $0.insert(identity).inserted }) else { return busy }
        var isReplaceable = true
        if let earlier = acceptedTransfers.withLock({ $0[identity] }) {
            if !earlier.interrupt(ifStalledFor: Self.stallTimeout) {
                // Its sender may have noticed before this side that the link is broken.
                try? await Task.sleep(for: Self.stallTimeout)
            }
            guard earlier.interrupt(ifStalledFor: Self.stallTimeout) || earlier.hasEnded else {
                beingReplaced.withLock { _ = $0.remove(identity) }
                return busy
            }
            // The end is known before ``accepted`` has recorded it.
            isReplaceable = await earlier.result.outcome == .interrupted
        }
        if isReplaceable, let decision = acceptedAgain(invitation) { return decision }
        beingReplaced.withLock { _ = $0.remove(identity) }
        return await decide(invitation, isNew: true)
    }

    /// Reads the user's answer, the trust in the peer and the rules once more: all may have changed during the earlier attempt.
    /// - Returns: nil when the user's answer does not decide about the offer any more.
    private func acceptedAgain(_ invitation: Invitation) -> Decision? {
        let policy = rules.policy(for: invitation.peer, canAsk: prompts.canAsk)
        // Any other policy decides without the answer, and counts the offer towards the peer's limit.
        guard !isBlocked(invitation.peer), policy.accept == .ask, let answer = earlierAnswer(to: invitation) else {
            return nil
        }
        switch (verdict(on: invitation, policy), answer) {
        case (.ask, .all): return .accept(policy: policy, consent: .earlierAnswer)
        case (.ask, .part(let part)), (.askForPart, .part(let part)):
            return .accept(policy: policy, part: part, consent: .earlierAnswer)
        default: return nil
        }
    }

    /// The user's answer to an earlier attempt of the same offer, in this process or in one that has ended meanwhile.
    private func earlierAnswer(to invitation: Invitation) -> AcceptedOffers.Answer? {
        let now = SystemClock.monotonic()
        let answer = accepted.withLock {
            $0.answer(to: invitation.offer, listed: invitation.contents, Self.identity(invitation), now: now)
        }
        return answer ?? (isAnswerStored(invitation) ? .all : nil)
    }

    // MARK: Offers of an earlier process

    /// Whether a stored answer of the user accepts the offer, which this process or an earlier one has stored.
    private func isAnswerStored(_ invitation: Invitation) -> Bool {
        guard Self.keepsPartial(invitation), let offers = try? answered.read() else { return false }
        return offers.contains(digest(invitation), of: invitation.peer.fingerprint, at: SystemClock.wall())
    }

    /// Stores, or removes, the user's answer to an offer.
    private func storeAnswer(to invitation: Invitation, isValid: Bool) {
        guard Self.keepsPartial(invitation), isValid || isAnswerStored(invitation) else { return }
        do {
            try answered.update {
                $0.update(
                    digest(invitation), of: invitation.peer.fingerprint, isAccepted: isValid, at: SystemClock.wall())
            }
        } catch {
            reporter.report(.warning("\(error)"))
        }
    }

    /// Renews the time of a stored answer while its transfer runs: the process may be killed at any time.
    private func renewAnswer(to invitation: Invitation) {
        // Written for no transfer that a policy has accepted.
        guard isAnswerStored(invitation) else { return }
        do {
            try answered.update { $0.renew(digest(invitation), of: invitation.peer.fingerprint, at: SystemClock.wall()) }
        } catch {
            reporter.report(.warning("\(error)"))
        }
    }

    private func digest(_ invitation: Invitation) -> String {
        AnsweredOffers.digest(
            of: invitation.offer, listed: invitation.contents, resumeKey: invitation.resumeKey,
            consequences: [destination.inbox?.path ?? "", "\(destination.inbox?.limits.existing, default: "")"] + arrivalCommand
        )
    }

    /// Declines all offers of a peer without a key of nearshare, and of others at its address, until the process ends.
    private func blockForeign(_ peer: Peer) {
        blockedForeign.withLock { $0.insert(peer) }
        reporter.report(
            .notice(
                "offers of \(machine.shown(peer).name.shown), and others from its address, are declined until this command ends"
            ))
    }

    private func isBlocked(_ peer: Peer) -> Bool {
        // A link may be older than the user's "block".
        trustStatus(of: peer).isBlocked || (peer.foreign != nil && blockedForeign.withLock { $0.contains(peer) })
    }

    /// The trust in a peer: a link that is older than the user's "always" does not know of that.
    private func trustStatus(of peer: Peer) -> TrustStatus {
        guard let proven = peer.proven else { return peer.trustStatus }
        return (try? machine.trust.read().trustStatus(of: proven, claiming: peer.name)) ?? peer.trustStatus
    }

    /// - Parameter part: nil for the whole offer.
    /// - Returns: whether the transfer is complete, or nothing can be written any more.
    private func receive(
        _ invitation: Invitation, _ part: OfferPart?, _ reservation: QuotaReservation, _ consent: Consent
    ) async -> Bool {
        let identity = Self.identity(invitation)
        // Until this attempt is in ``acceptedTransfers``.
        defer { beingReplaced.withLock { _ = $0.remove(identity) } }
        return await receive(invitation, part, reservation, consent, identity)
    }

    private func receive(
        _ invitation: Invitation, _ part: OfferPart?, _ reservation: QuotaReservation, _ consent: Consent,
        _ identity: AcceptedOffers.Identity
    ) async -> Bool {
        let wasPrompted = consent == .answer
        if let earlier = acceptedTransfers.withLock({ $0[identity] }), earlier.interrupt(ifStalledFor: Self.stallTimeout) {
            // The earlier attempt has to end before its stored part can be resumed.
            _ = await earlier.result
        }
        guard reserveOutput() else {
            decline(invitation, .busy, wasPrompted: wasPrompted)
            reservation.release()
            reportEnd(of: invitation, .declined(.busy))
            return false
        }
        defer { output.withLock { if $0 == .reserved { $0 = .free } } }
        let sink: any ResourceSink
        do {
            sink = try makeSink(for: invitation, part, reservation)
        } catch {
            let reason: DeclineReason =
                switch error.code {
                case .noSpace: .noSpace
                case .overLimit: .tooLarge
                // The protocol has no reason for a fault of the storage, which may pass: another attempt can succeed.
                default: .busy
                }
            decline(invitation, reason, wasPrompted: wasPrompted)
            reservation.release()
            reportEnd(of: invitation, .declined(reason), detail: error.description)
            return false
        }
        trust.recordMeeting(with: invitation.peer) {
            // Keys are free, and the user has not seen this one (R14).
            wasPrompted || invitation.peer.trustStatus.isVerified || invitation.peer.trustStatus.isFriend
                || keyWrites.admit()
        }
        let transfer = invitation.accept(into: sink, part: part, keepsPartial: Self.keepsPartial(invitation))
        acceptedTransfers.withLock { $0[identity] = transfer }
        beingReplaced.withLock { _ = $0.remove(identity) }
        accepted.withLock {
            $0.accept(
                invitation.offer, part: part, listed: invitation.contents, identity, isAnswered: consent != .policy)
        }
        // Now, and not at an interruption: a process that is killed stores none.
        if wasPrompted, part == nil { storeAnswer(to: invitation, isValid: true) }
        defer { acceptedTransfers.withLock { if $0[identity] === transfer { $0[identity] = nil } } }
        let attempt = TransferLog.Attempt(process: getpid(), token: Hex.encode(LocalMachine.randomBytes(8)))
        record(invitation, TransferLog.runningOutcome, attempt)
        var result = await follow(transfer, of: invitation, part)
        // A later attempt of the same content has its own entry.
        if acceptedTransfers.withLock({ $0[identity] === transfer }) {
            let isAnswered = accepted.withLock { $0.end(identity, result.outcome, now: SystemClock.monotonic()) }
            // Every other end revokes an earlier process's answer too, whatever has accepted this attempt.
            if isAnswered || result.outcome != .interrupted {
                storeAnswer(to: invitation, isValid: result.outcome == .interrupted)
            }
        }
        if result.outcome == .interrupted, isTerminated.withLock({ $0 }) {
            result.detail =
                Self.keepsPartial(invitation)
                ? "stopped with this command; it continues where it stopped when `nearshare receive` runs again"
                : "stopped with this command"
        }
        reportDeliveries(of: result, from: invitation.peer, transfer.id)
        record(
            invitation, result.missing != nil ? MissingFiles.word : result.outcome.word, byteCount: transfer.snapshot.done,
            attempt)
        reportEnd(
            of: invitation, part: part, result.outcome, detail: result.detail, transfer: transfer.id,
            changedNames: result.changedNames,
            compared: result.compared, missing: result.missing,
            // The hotspot is reported already.
            isSilent: result.outcome == .interrupted && hotspot.isPartner(identity.sender))
        status.withLock { if $0 != .ok { $0 = ExitStatus(result) } }
        reservation.recordPartial { partialByteCount(of: identity.sender, after: identity) }
        guard !result.isStored else { return true }
        reservation.release()
        // A part of the content was written, or the reader of standard output has closed it: another content must not follow.
        if case .standardOutput = destination, case .failed(.storageFailed, at: .local) = result.outcome { return true }
        return output.withLock { $0 == .used }
    }

    /// Whether a broken transfer can be resumed: not by a sender that cannot read its content again, nor by a browser, whose key
    /// ends with its page.
    private static func keepsPartial(_ invitation: Invitation) -> Bool {
        invitation.offer.totalSize != nil && invitation.peer.foreign == nil
    }

    /// The bytes of an offer that an interrupted transfer has stored, and that are not sent again.
    private func receivedByteCount(of invitation: Invitation) -> UInt64 {
        guard Self.keepsPartial(invitation) else { return 0 }
        return destination.inbox?.receivedByteCount(
            of: invitation.offer, listed: invitation.contents, from: invitation.peer.fingerprint,
            resumeKey: invitation.resumeKey) ?? 0
    }

    private func makeSink(
        for invitation: Invitation, _ part: OfferPart?, _ reservation: QuotaReservation
    ) throws(StorageError) -> any ResourceSink {
        // Read once, and only when an item of the name exists.
        var earlierPaths: Set<String>?
        return try destination.makeSink(
            for: invitation, part: part,
            mayCompare: { path in
                let paths = earlierPaths ?? pathsReceived(from: invitation.peer.fingerprint)
                earlierPaths = paths
                return paths.contains(path)
            },
            reserveQuota: { [self] (byteCount) throws(StorageError) in
                try reservation.replace(by: byteCount) { partialByteCount(beside: invitation) }
            },
            onOutput: { [self] in output.withLock { $0 = .used } })
    }

    /// Shows an accepted transfer until it ends.
    private func follow(_ transfer: Transfer, of invitation: Invitation, _ part: OfferPart?) async -> TransferResult {
        let peer = invitation.peer
        let shown = machine.shown(peer)
        let label = "\(shown.name.shown(of: shown.id)) → \(OfferText.summary(part?.offer ?? invitation.offer))"
        defer { prompts.updateRunning() }
        return await running.following(transfer, label: label) {
            reporter.report(.accepted(transfer.id, from: peer.id))
            feed?.publish(.started(transfer.id, label: label))
            if let part { reporter.report(.partAccepted(transfer.id, part.counts, by: nil)) }
            prompts.updateRunning()
            await followProgress(of: transfer, for: invitation)
            return await transfer.result
        }
    }

    private func reportDeliveries(of result: TransferResult, from peer: Peer, _ transfer: TransferID) {
        let shown = machine.shown(peer)
        for item in result.delivered {
            // Recorded first, so that a voice note can be reported with its id.
            record(item, from: peer)
            reporter.report(.delivered(item, DeliveredContent(of: item), from: shown, transfer))
        }
        if result.delivered.contains(where: { !$0.isInInbox }) { spool?.recordPendingItem() }
    }

    /// The paths of the items that a peer has sent earlier: about others it must not learn anything (X5).
    private func pathsReceived(from peer: Fingerprint) -> Set<String> {
        let entries = (try? ReceiveHistory(in: machine.state).entries()) ?? []
        return Set(entries.lazy.filter { $0.peer == peer && $0.isMerged != true }.map(\.path))
    }

    /// - Returns: false while another transfer uses standard output. Always true for an inbox.
    private func reserveOutput() -> Bool {
        guard destination.inbox == nil else { return true }
        return output.withLock { output in
            guard output == .free else { return false }
            output = .reserved
            return true
        }
    }

    private static func identity(_ invitation: Invitation) -> AcceptedOffers.Identity {
        AcceptedOffers.Identity(sender: invitation.peer.fingerprint, resumeKey: invitation.resumeKey)
    }

    private func followProgress(of transfer: Transfer, for invitation: Invitation) async {
        var renewed = SystemClock.monotonic()
        for await progress in transfer.progress where progress.phase == .moving {
            let now = SystemClock.monotonic()
            if now - renewed >= AnsweredOffers.renewalInterval {
                renewed = now
                renewAnswer(to: invitation)
            }
            if progress.resumed > 0, progress.done == progress.resumed {
                reporter.report(.resumed(transfer.id, offset: progress.resumed))
            } else {
                reporter.report(.progress(progress))
            }
        }
    }

    private func record(_ item: DeliveredItem, from peer: Peer) {
        // An item that was there already is not the peer's, whatever the peer has offered under its name (X5).
        guard destination.inbox != nil, !item.isPresent else { return }
        let entry = ReceiveHistory.Entry(
            when: SystemClock.wall(), peer: peer.fingerprint, peerName: peer.name,
            claimedName: String(decoding: item.claimedName.bytes, as: UTF8.self), path: item.path, size: item.size,
            type: item.detectedType, isFolder: item.kind == .folder, isMerged: item.isMerged)
        do {
            try ReceiveHistory(in: machine.state).append(entry)
        } catch {
            reporter.report(.warning("\(error)"))
        }
    }

    /// Records an offer that has ended without a received item. Offers that a rule declines are not recorded: their number has
    /// no useful limit.
    private func recordUnreceived(_ invitation: Invitation, _ outcome: TransferOutcome) {
        record(invitation, outcome.word, nil)
    }

    /// - Parameter attempt: nil for an offer that was not accepted.
    private func record(
        _ invitation: Invitation, _ outcome: String, byteCount: UInt64 = 0, _ attempt: TransferLog.Attempt?
    ) {
        let entry = TransferLog.Entry(
            when: SystemClock.wall(), peer: invitation.peer.id, peerName: invitation.peer.name.claimed,
            content: OfferText.summary(invitation.offer), size: byteCount, outcome: outcome,
            attempt: attempt)
        do {
            try TransferLog(of: .notReceived, in: machine.state).append(entry)
        } catch {
            reporter.report(.warning("\(error)"))
        }
    }

    private func reportEnd(
        of invitation: Invitation, part: OfferPart? = nil, _ outcome: TransferOutcome, detail: String? = nil,
        transfer: TransferID? = nil,
        changedNames: ChangedNames = ChangedNames(), compared: ComparedFiles? = nil, missing: MissingFiles? = nil,
        isSilent: Bool = false
    ) {
        reporter.report(
            .receiveEnded(
                ReceiveResult(
                    offer: part?.offer ?? invitation.offer, peer: invitation.peer.id,
                    name: machine.shown(invitation.peer).name.shown(of: invitation.peer.id), outcome: outcome, detail: detail,
                    transfer: transfer, changedNames: changedNames, compared: compared, missing: missing,
                    isSilent: isSilent,
                    isResumable: transfer != nil && Self.keepsPartial(invitation))))
    }

    private static func clashWarning(_ peer: Peer) -> String {
        let (kind, check) =
            peer.foreign == nil
            ? ("key", "the short code") : ("certificate", "the certificate with the one in LocalSend's settings there")
        return
            "WARNING: \(peer.name.quoted(of: peer.id)) is known with another \(kind). This may be another peer that claims "
            + "the name, or a new machine. Compare \(check) before you accept anything."
    }
}
