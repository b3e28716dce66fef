package import Nearshare
internal import Synchronization

/// Answers invitations by policy or by asking the user, and follows the accepted transfers.
package final class ReceiveController: Sendable {
    private struct State {
        /// Whether the user has stopped the process with Ctrl-C.
        var isCancelled = false
        /// Whether the node stops.
        var isStopping = false
        /// The status of the first completed transfer, or else of the last one; nil before the end of one.
        var status: ExitStatus?
        /// Offers that are not answered yet, and accepted transfers.
        var openCount = 0
        /// Called when there are none any more.
        var whenIdle: (@Sendable () -> Void)?
        /// Offers without an answer when the node began to stop: one that is released is declined.
        var unanswered: [Invitation] = []
    }

    private let destination: ReceiveDestination
    private let decider: OfferDecider
    private let transfers: AcceptedTransfers
    private let recorder: ReceiveRecorder
    private let prompts: PromptQueue
    private let feed: ReceiveFeed?
    private let reporter: any Reporter
    private let endsAfterFirst: Bool
    /// The accepted transfers that the user can see and cancel.
    private let running = RunningTransfers()
    private let output = StandardOutputReservation()
    private let hotspot: HotspotResponder
    private let state = Mutex(State())

    private var machine: LocalMachine { decider.trust.machine }

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
        let reporter: any Reporter = feed.map { ReceiveFeedReporter(reporter: reporter, feed: $0) } ?? reporter
        let inbox = destination.inbox
        self.hotspot = HotspotResponder(inbox == nil ? nil : hotspot, leavesWiFi: leavesWiFi)
        (self.destination, self.reporter, self.feed) = (destination, reporter, feed)
        self.endsAfterFirst = endsAfterFirst
        // A reader of standard output may read the same terminal.
        prompts = PromptQueue(display, feed: feed, running: inbox == nil ? RunningTransfers() : running)
        transfers = AcceptedTransfers(
            in: machine.state, inbox: inbox, arrivalCommand: arrivalCommand, reporter: reporter)
        recorder = ReceiveRecorder(machine, inbox: inbox, reporter: reporter)
        decider = OfferDecider(
            AcceptanceRules(accept, limits: inbox?.limits, quota: quota, trust: machine.trust),
            TrustRecorder(machine: machine, reporter: reporter), destination: destination, prompts: prompts,
            transfers: transfers, recorder: recorder)
    }

    /// Serves until the node shuts down.
    /// - Throws: ``CommandFailure`` when it should end after a transfer and none was completed.
    package func serve(_ listener: Listener, on node: Node) async throws {
        recorder.recordKilled()
        let askingPrompts = decider.rules.standard.canAsk ? prompts : nil
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.prompts.run() }
            group.addTask { await self.reporter.showProgress(of: self.running) }
            group.addTask { await self.recorder.run() }
            let verification = VerificationResponder(
                trust: decider.trust, reporter: reporter, prompts: prompts, declines: decider.declines)
            group.addTask { await verification.run(listener.verificationRequests) }
            let context = HotspotResponder.Context(
                trust: decider.trust, reporter: reporter, prompts: askingPrompts, port: { listener.port },
                transfers: { self.transfers.transfers(from: $0) })
            group.addTask { await self.hotspot.run(listener.hotspotRequests, for: context) }
            await withDiscardingTaskGroup { answers in
                for await invitation in listener.invitations {
                    state.withLock { $0.openCount += 1 }
                    answers.addTask {
                        defer { self.endInvitation() }
                        let endsReceiving = await self.handle(invitation, on: node)
                        if endsReceiving, self.endsAfterFirst { node.beginShutdown() }
                    }
                }
                // No open question keeps the node.
                self.state.withLock { $0.isStopping = true }
                self.prompts.close()
            }
            group.cancelAll()
        }
        feed?.finish()
        if endsAfterFirst, let status = state.withLock({ $0.status }), status != .ok { throw CommandFailure.silent(status) }
    }

    /// Calls `body` once, when no offer is open and no transfer runs.
    package func whenIdle(_ body: @escaping @Sendable () -> Void) {
        let isIdle = state.withLock { state in
            if state.openCount > 0 { state.whenIdle = body }
            return state.openCount == 0
        }
        if isIdle { body() }
    }

    private func endInvitation() {
        let body = state.withLock { state in
            state.openCount -= 1
            guard state.openCount == 0 else { return nil as (@Sendable () -> Void)? }
            defer { state.whenIdle = nil }
            return state.whenIdle
        }
        body?()
    }

    /// Declines open invitations, and shuts the node down. Transfers that the user has not cancelled are interrupted: their
    /// senders look for the receiver again for a while.
    package func interrupt(_ node: Node, _ cause: Interruption) {
        guard cause == .cancelled else {
            state.withLock { $0.isStopping = true }
            node.beginShutdown()
            prompts.close()
            return
        }
        state.withLock { $0.isCancelled = true }
        running.cancelAll()
        prompts.close()
        node.beginShutdown()
    }

    // MARK: One invitation

    private static let stopped = "stopped with this command"
    /// The commands that receive, for a message.
    private static let receivers = "`nearshare receive` or `nearshare mesh run`"

    /// - Returns: whether the transfer is complete, or nothing can be written any more.
    private func handle(_ invitation: Invitation, on node: Node) async -> Bool {
        reporter.report(.invited(invitation, freeSpace: destination.freeSpace))
        switch await decider.decide(invitation) {
        case .decline(let reason, let detail, let wasPrompted, let isSilent):
            decline(invitation, reason, wasPrompted: wasPrompted)
            if wasPrompted { recorder.recordUnreceived(invitation, .declined(reason)) }
            recorder.reportEnd(of: invitation, .declined(reason), detail: detail, isSilent: isSilent)
            return false
        // The link has ended with this node.
        case .ended(.interrupted) where node.isShuttingDown:
            endUnanswered(invitation, on: node)
            return false
        case .ended(let outcome):
            recorder.recordUnreceived(invitation, outcome)
            recorder.reportEnd(
                of: invitation, outcome,
                earlierByteCount: outcome == .interrupted ? decider.receivedByteCount(of: invitation) : 0)
            return false
        case .accept(let policy, let part, let reserved, let consent, let number):
            let reservation = QuotaReservation(
                reserved, for: invitation.peer.fingerprint, at: invitation.peer.quotaSource, policy)
            return await receive(
                invitation, on: node, part: part, reservation: reservation, consent: consent, number: number)
        case .closed:
            endUnanswered(invitation, on: node)
            return false
        }
    }

    /// Ends an invitation whose question was closed. Ctrl-C declines it; the end of the node or of the terminal is no answer of the
    /// user.
    private func endUnanswered(_ invitation: Invitation, on node: Node) {
        let (isCancelled, isStopping) = state.withLock { ($0.isCancelled, $0.isStopping || node.isShuttingDown) }
        let end: (outcome: TransferOutcome, detail: String?) =
            if isCancelled {
                (.declined(.declined), nil)
            } else if isStopping {
                (
                    .interrupted,
                    "\(Self.stopped); it is offered again when \(Self.receivers) runs again while the sender still tries"
                )
            } else {
                (.declined(.notAllowed), "the terminal has closed: the user cannot be asked")
            }
        if case .declined(let reason) = end.outcome {
            decline(invitation, reason, wasPrompted: true)
        } else {
            // Its sender learns it from the end of the link.
            state.withLock { $0.unanswered.append(invitation) }
        }
        recorder.recordUnreceived(invitation, end.outcome)
        recorder.reportEnd(of: invitation, end.outcome, detail: end.detail)
    }

    private func decline(_ invitation: Invitation, _ reason: DeclineReason, wasPrompted: Bool) {
        if wasPrompted { invitation.decline(reason) } else { invitation.declineUnprompted(reason) }
    }

    /// - Parameters:
    ///   - part: nil for the whole offer.
    ///   - number: of the question that the user has answered; nil for the next one.
    /// - Returns: whether the transfer is complete, or nothing can be written any more.
    private func receive(
        _ invitation: Invitation, on node: Node, part: OfferPart?, reservation: QuotaReservation,
        consent: OfferDecider.Consent, number: Int?
    ) async -> Bool {
        let identity = invitation.identity
        let wasPrompted = consent == .answer
        if let earlier = transfers.transfer(of: identity), earlier.interrupt(ifStalledFor: OfferDecider.stallTimeout) {
            // The earlier attempt has to end before its stored part can be resumed.
            _ = await earlier.result
        }
        func declineAccepted(_ reason: DeclineReason, detail: String? = nil) {
            if consent == .earlierAnswer { transfers.cancelReplacement(of: identity) }
            decline(invitation, reason, wasPrompted: wasPrompted)
            reservation.release()
            recorder.reportEnd(of: invitation, .declined(reason), detail: detail)
        }
        guard destination.inbox != nil || output.reserve() else {
            declineAccepted(.busy, detail: "standard output is used by another transfer")
            return false
        }
        defer { output.release() }
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
            declineAccepted(reason, detail: error.description)
            return false
        }
        decider.pinKey(of: invitation.peer, wasPrompted: wasPrompted)
        let transfer = invitation.accept(into: sink, part: part, keepsPartial: invitation.isResumable)
        transfers.start(transfer, of: invitation, part, consent)
        // Now, and not at an interruption: a process that is killed stores none.
        if wasPrompted { transfers.storeAnswer(part.map { .part($0) } ?? .all, to: invitation) }
        defer { transfers.remove(transfer, of: identity) }
        let attempt = recorder.recordStart(of: invitation)
        var result = await follow(transfer, of: invitation, part, consent, number: number)
        if invitation.peer.foreign?.kind == .web, case .cancelled(by: .local) = result.outcome {
            decider.rules.revoke(browser: invitation.peer.fingerprint)
        }
        transfers.apply(result.outcome, of: transfer, invitation)
        if result.outcome != .interrupted { decider.removeNumber(of: identity) }
        if result.outcome == .interrupted, node.isShuttingDown {
            result.detail =
                invitation.isResumable
                ? "\(Self.stopped); it continues where it stopped when \(Self.receivers) runs again" : Self.stopped
        }
        recorder.recordEnd(of: attempt, transfer, result, of: invitation)
        recorder.reportEnd(
            of: transfer, result, of: invitation, part,
            // The hotspot is reported already.
            isSilent: result.outcome == .interrupted && hotspot.isPartner(identity.sender))
        let status: ExitStatus = output.isClosed ? .outputClosed : ExitStatus(result)
        state.withLock { if $0.status != .ok { $0.status = status } }
        reservation.recordPartial { transfers.partialByteCount(after: identity) }
        guard !result.isStored else { return true }
        reservation.release()
        // A part of the content was written, or the reader of standard output has closed it: another content must not follow.
        if case .standardOutput = destination, case .failed(.storageFailed, at: .local) = result.outcome { return true }
        return output.isUsed
    }

    private func makeSink(
        for invitation: Invitation, _ part: OfferPart?, _ reservation: QuotaReservation
    ) throws(StorageError) -> any ResourceSink {
        try destination.makeSink(
            for: invitation, part: part,
            mayCompare: { recorder.receivedPaths.contains($0, from: invitation.peer.fingerprint) },
            reserveQuota: { [transfers] (byteCount) throws(StorageError) in
                try reservation.replace(by: byteCount) { transfers.partialByteCount(beside: invitation) }
            },
            output: output)
    }

    /// Shows an accepted transfer until it ends.
    private func follow(
        _ transfer: Transfer, of invitation: Invitation, _ part: OfferPart?, _ consent: OfferDecider.Consent, number: Int?
    ) async -> TransferResult {
        let peer = invitation.peer
        let shown = machine.shown(peer)
        let label = TransferLabel(
            OfferText.summary(part?.offer ?? invitation.offer), from: shown.name.shown(of: shown.id))
        defer { prompts.updateRunning() }
        return await running.following(transfer, label: label, number: number) {
            reporter.report(.accepted(transfer.id, from: peer.id))
            feed?.publish(.started(transfer.id, label: label.text))
            if let part { reporter.report(.partAccepted(transfer.id, part.counts, by: nil)) }
            prompts.updateRunning()
            await followProgress(of: transfer, for: invitation) { start in
                reportContinuation(start, of: label.text, invitation, consent)
            }
            return await transfer.result
        }
    }

    /// Reports a transfer that goes on where an earlier attempt has stopped, unless the question has just named it: the earlier
    /// attempt may have been one of another process.
    private func reportContinuation(
        _ start: TransferProgress, of label: String, _ invitation: Invitation, _ consent: OfferDecider.Consent
    ) {
        let isUnasked = consent == .earlierAnswer
        // The hotspot is reported already.
        guard consent != .answer, isUnasked || start.resumed > 0, !hotspot.isPartner(invitation.peer.fingerprint) else {
            return
        }
        let place = start.resumed > 0 ? " at \(ProgressText.byteCounts(start.resumed, of: start.total))" : ""
        reporter.report(
            .goesOn("\(label): goes on\(place)\(isUnasked ? ", without another question" : "")", from: invitation.peer.id))
    }

    /// - Parameter onStart: called once the first content of this attempt is expected.
    private func followProgress(
        of transfer: Transfer, for invitation: Invitation, onStart: (TransferProgress) -> Void
    ) async {
        var renewed = SystemClock.monotonic()
        var isStartReported = false
        var reported: UInt64 = 0
        for await progress in transfer.progress where progress.isReported(after: reported) {
            let now = SystemClock.monotonic()
            if now - renewed >= AnsweredOffers.renewalInterval {
                renewed = now
                transfers.renewAnswer(to: invitation)
            }
            // Where much arrives at once, the first progress that is read may be beyond the offset.
            if !isStartReported {
                isStartReported = true
                onStart(progress)
                if progress.resumed > 0 { reporter.report(.resumed(transfer.id, offset: progress.resumed)) }
            }
            if progress.done > progress.resumed || progress.resumed == 0 {
                reported = progress.done
                reporter.report(.progress(progress))
            }
        }
    }
}
