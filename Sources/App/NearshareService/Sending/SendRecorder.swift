internal import Glibc
internal import Nearshare
internal import Synchronization

/// Records the transfers of a send in the history, when they begin and when they end, and passes all events on.
final class SendRecorder: Reporter {
    private let reporter: any Reporter
    private let history: TransferLog
    private let source: SendSource
    /// The begun transfers. One that goes on over another path keeps its record.
    private let begun = Mutex<[PeerID: TransferLog.Entry]>([:])

    init(reporter: any Reporter, history: TransferLog, source: SendSource) {
        (self.reporter, self.history, self.source) = (reporter, history, source)
    }

    func report(_ event: OperationEvent) {
        switch event {
        case .inviting(let invitation): recordStart(of: invitation)
        case .sent(let result): recordEnd(result)
        // Without a result, such as the refusal to send a file that relays can read.
        case .failed(_, let failure): if failure.status != .peerGone { recordFailure() }
        default: break
        }
        reporter.report(event)
    }

    func showProgress(of transfers: RunningTransfers) async { await reporter.showProgress(of: transfers) }

    private var offeredSize: UInt64? { source.sources.first?.offer.totalSize }

    private func recordStart(of invitation: OutgoingInvitation) {
        var entry = TransferLog.Entry(
            when: SystemClock.wall(), peer: invitation.peer, peerName: invitation.receiver, content: source.label, size: 0,
            outcome: TransferLog.runningOutcome,
            attempt: TransferLog.Attempt(process: getpid(), token: Hex.encode(LocalMachine.randomBytes(8))))
        entry.offeredSize = offeredSize
        let isNew = begun.withLock { begun in
            guard begun[entry.peer] == nil else { return false }
            begun[entry.peer] = entry
            return true
        }
        if isNew { append(entry) }
    }

    private func recordEnd(_ result: SendResult) {
        let start = begun.withLock { $0.removeValue(forKey: result.peer) }
        var entry = TransferLog.Entry(
            when: SystemClock.wall(), peer: result.peer, peerName: result.receiver, content: result.content,
            size: result.byteCount, outcome: result.missing == nil ? result.outcome.word : MissingFiles.word,
            reason: result.declineReason,
            presentSize: result.compared.map { min($0.unsentByteCount, result.byteCount) }, attempt: start?.attempt)
        // The parts of a content have results of their own.
        entry.offeredSize = result.part?.size ?? (result.content == source.label ? offeredSize : nil)
        append(entry)
    }

    /// Records the end of a begun transfer, where it is clear which one has failed.
    private func recordFailure() {
        let failed = begun.withLock { begun in
            guard begun.count == 1, source.sources.count == 1 else { return nil as TransferLog.Entry? }
            return begun.popFirst()?.value
        }
        guard var entry = failed else { return }
        (entry.when, entry.outcome) = (SystemClock.wall(), "failed")
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
