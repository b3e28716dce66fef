internal import Glibc
internal import Nearshare

/// Records received items and ended offers in the histories, and reports them.
struct ReceiveRecorder: Sendable {
    private let machine: LocalMachine
    private let reporter: any Reporter
    let receivedPaths: ReceivedPaths
    /// nil for standard output.
    private let inbox: Inbox?
    private let spool: SpoolDelivery?

    init(_ machine: LocalMachine, inbox: Inbox?, reporter: any Reporter) {
        (self.machine, self.inbox, self.reporter) = (machine, inbox, reporter)
        receivedPaths = ReceivedPaths(in: machine.state)
        spool = inbox.map { SpoolDelivery(inbox: $0, machine: machine, reporter: reporter) }
    }

    /// Delivers items that wait in the spool until the task is cancelled.
    func run() async { await spool?.run() }

    /// Records how much has arrived of the transfers whose process was killed. Called before this process receives.
    func recordKilled() {
        guard let inbox else { return }
        let log = TransferLog(of: .notReceived, in: machine.state)
        do {
            // The number of this process may have been that of the killed one.
            let killed = TransferLog.killed(try log.entries()) { $0 != getpid() && kill($0, 0) == 0 }
            for var entry in killed {
                entry.size = entry.partial.map { inbox.receivedByteCount(ofPartial: $0) } ?? 0
                guard entry.size > 0 else { continue }
                entry.outcome = RecordedOutcome.interrupted.rawValue
                try append(entry, to: log)
            }
        } catch {
            reporter.report(.warning("\(error)"))
        }
    }

    /// Records an offer that has ended without a received item. Offers that a rule declines are not recorded: their number has
    /// no useful limit.
    func recordUnreceived(_ invitation: Invitation, _ outcome: TransferOutcome) {
        record(invitation, RecordedOutcome(outcome), nil)
    }

    /// Records a transfer that has started.
    func recordStart(of invitation: Invitation) -> TransferLog.Attempt {
        let attempt = TransferLog.Attempt(process: getpid(), token: Hex.encode(LocalMachine.randomBytes(8)))
        record(invitation, .running, attempt)
        return attempt
    }

    /// Records and reports what a transfer has delivered, and its end in the history.
    func recordEnd(of attempt: TransferLog.Attempt, _ transfer: Transfer, _ result: TransferResult, of invitation: Invitation) {
        reportDeliveries(of: result, from: invitation, transfer.id)
        let byteCount = transfer.snapshot.done.subtractingClamped(result.missing?.contentByteCount ?? 0)
        let isNew = result.outcome != .completed || !result.delivered.allSatisfy(\.isPresent)
        record(
            invitation, result.missing != nil ? .partial : RecordedOutcome(result.outcome), byteCount: byteCount,
            presentByteCount: spool == nil || isNew ? nil : byteCount,
            reason: spool == nil && result.outcome == .completed ? "to standard output" : nil, attempt)
    }

    /// Reports the end of an offer that has led to no transfer.
    /// - Parameter earlierByteCount: the bytes of the offer that an earlier, interrupted transfer has stored.
    func reportEnd(
        of invitation: Invitation, _ outcome: TransferOutcome, detail: String? = nil, earlierByteCount: UInt64 = 0,
        isSilent: Bool = false
    ) {
        let name = name(of: invitation.peer)
        var detail = detail
        if outcome == .interrupted, detail == nil {
            detail = outcome.receiverSentence(name, isResumable: false, earlierByteCount: earlierByteCount)
        }
        report(
            ReceiveResult(
                offer: invitation.offer, peer: invitation.peer.id, name: name, conversation: invitation.conversation,
                outcome: outcome, detail: detail, isSilent: isSilent))
    }

    /// Reports the end of a transfer.
    /// - Parameter part: the accepted part; nil for the whole offer.
    func reportEnd(
        of transfer: Transfer, _ result: TransferResult, of invitation: Invitation, _ part: OfferPart?, isSilent: Bool
    ) {
        report(
            ReceiveResult(
                offer: part?.offer ?? invitation.offer, peer: invitation.peer.id, name: name(of: invitation.peer),
                conversation: invitation.conversation, outcome: result.outcome, detail: result.detail, transfer: transfer.id,
                changedNames: result.changedNames, compared: result.compared, missing: result.missing, isSilent: isSilent,
                isResumable: invitation.isResumable))
    }

    private func report(_ result: ReceiveResult) { reporter.report(.receiveEnded(result)) }

    private func name(of peer: Peer) -> String { machine.shown(peer).name.shown(of: peer.id) }

    private func reportDeliveries(of result: TransferResult, from invitation: Invitation, _ transfer: TransferID) {
        let peer = invitation.peer
        let shown = machine.shown(peer)
        for item in result.delivered {
            // Recorded first, so that a voice note can be reported with its id.
            record(item, from: peer)
            reporter.report(
                .delivered(item, DeliveredContent(of: item), from: shown, transfer, in: invitation.conversation))
        }
        if result.delivered.contains(where: { !$0.isInInbox }) { spool?.recordPendingItem() }
    }

    private func record(_ item: DeliveredItem, from peer: Peer) {
        // An item that was there already is not the peer's, whatever the peer has offered under its name (X5).
        guard spool != nil, !item.isPresent else { return }
        let entry = ReceiveHistory.Entry(
            when: SystemClock.wall(), peer: peer.fingerprint, peerName: peer.name,
            claimedName: String(decoding: item.claimedName.bytes, as: UTF8.self), path: item.path, size: item.size,
            type: item.detectedType, isFolder: item.kind == .folder, isMerged: item.isMerged)
        do {
            try ReceiveHistory(in: machine.state).append(entry, isFriend: machine.isFriend)
        } catch {
            reporter.report(.warning("\(error)"))
        }
    }

    /// - Parameters:
    ///   - presentByteCount: of `byteCount`, what was there already; nil where something is new.
    ///   - attempt: nil for an offer that was not accepted.
    private func record(
        _ invitation: Invitation, _ outcome: RecordedOutcome, byteCount: UInt64 = 0, presentByteCount: UInt64? = nil,
        reason: String? = nil, _ attempt: TransferLog.Attempt?
    ) {
        var entry = TransferLog.Entry(
            when: SystemClock.wall(), peer: invitation.peer.id, peerName: invitation.peer.name.claimed,
            content: OfferText.summary(invitation.offer), size: byteCount, outcome: outcome.rawValue, reason: reason,
            presentSize: presentByteCount, attempt: attempt)
        entry.offeredSize = invitation.offer.totalSize
        if outcome == .running, inbox != nil, invitation.isResumable {
            entry.partial = Inbox.partialName(of: invitation.peer.fingerprint, resumeKey: invitation.resumeKey)
        }
        do {
            try append(entry, to: TransferLog(of: .notReceived, in: machine.state))
        } catch {
            reporter.report(.warning("\(error)"))
        }
    }

    private func append(_ entry: TransferLog.Entry, to log: TransferLog) throws(StorageError) {
        let trust = try machine.trust.read()
        try log.append(entry) { trust.entry(claiming: $0)?.entry.isFriend ?? false }
    }
}

extension Invitation {
    /// The conversation to which the offer belongs; nil for an offer of a LocalSend device or a browser: they have no
    /// conversations.
    var conversation: Conversation? {
        guard peer.foreign == nil else { return nil }
        return isForEveryone ? .publicRoom : .peer(peer.id)
    }
}
