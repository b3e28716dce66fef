internal import Glibc
internal import Nearshare
internal import Synchronization

/// Records the transfers of a send in the history, when they begin and when they end, and passes all events on.
final class SendRecorder: Reporter {
    private let reporter: any Reporter
    private let history: TransferLog
    private let source: SendSource
    private struct State {
        /// The entries of the transfers that have begun. A transfer that goes on over another path keeps its entry.
        var begun: [PeerID: TransferLog.Entry] = [:]
        var receiverCount = 1
    }

    private let state = Mutex(State())

    init(reporter: any Reporter, history: TransferLog, source: SendSource) {
        (self.reporter, self.history, self.source) = (reporter, history, source)
    }

    func report(_ event: OperationEvent) {
        switch event {
        case .inviting(let invitation): recordStart(of: invitation)
        case .sent(let result): recordEnd(result)
        // A failure without a result, such as when the user declines to send a file that relays can read.
        case .failed(_, let failure): if failure.status != .peerGone { recordFailure(failure) }
        default: break
        }
        reporter.report(event)
    }

    func showProgress(of transfers: RunningTransfers) async { await reporter.showProgress(of: transfers) }

    /// Sets the number of receivers (default: 1).
    func setReceiverCount(_ count: Int) { state.withLock { $0.receiverCount = count } }

    private func recordStart(of invitation: OutgoingInvitation) {
        var entry = TransferLog.Entry(
            when: SystemClock.wall(), peer: invitation.peer, peerName: invitation.receiver,
            content: invitation.part?.content ?? source.label, size: 0,
            outcome: TransferLog.runningOutcome,
            attempt: TransferLog.Attempt(process: getpid(), token: Hex.encode(LocalMachine.randomBytes(8))))
        entry.offeredSize = invitation.part == nil ? source.size : invitation.part?.size
        let isNew = state.withLock { state in
            guard state.begun[entry.peer] == nil else { return false }
            state.begun[entry.peer] = entry
            return true
        }
        if isNew { append(entry) }
    }

    private func recordEnd(_ result: SendResult) {
        let start = state.withLock { $0.begun.removeValue(forKey: result.peer) }
        var entry = TransferLog.Entry(
            when: SystemClock.wall(), peer: result.peer,
            peerName: start?.peerName ?? result.receiverName?.claimed ?? result.receiver, content: result.content,
            size: result.byteCount, outcome: result.recordedOutcome.rawValue,
            reason: result.recordedReason,
            presentSize: result.compared.map { min($0.unsentByteCount, result.byteCount) }, attempt: start?.attempt)
        // Content that is sent in parts has a result for each part.
        entry.offeredSize = result.part?.size ?? (result.content == source.label ? source.size : start?.offeredSize)
        // A text that this machine's node has sent has no transfer, and is in the conversation already.
        if result.outcome == .completed, result.transfer != nil, case .text(let text) = source.content,
            text.utf8.count <= TransferLog.maximumTextByteCount
        {
            entry.text = text
        }
        entry.message = result.message
        append(entry)
    }

    /// Records a failure as the end of the transfer that has begun. With several transfers it is not clear which one has failed.
    private func recordFailure(_ failure: CommandFailure) {
        let failed = state.withLock { state in
            guard state.begun.count == 1, state.receiverCount == 1 else { return nil as TransferLog.Entry? }
            return state.begun.popFirst()?.value
        }
        guard var entry = failed else { return }
        // A receiver that declines has a result: it was the user's own no.
        let outcome: RecordedOutcome = failure.status == .declined ? .cancelled : .failed
        (entry.when, entry.outcome) = (SystemClock.wall(), outcome.rawValue)
        append(entry)
    }

    private func append(_ entry: TransferLog.Entry) {
        do {
            try history.append(entry)
        } catch {
            reporter.report(.warning("\(error)"))
        }
    }
}
