internal import Nearshare

/// Records the transfers of a send in the history, and passes all events on.
struct SendRecorder: Reporter {
    let reporter: any Reporter
    let history: TransferLog

    func report(_ event: OperationEvent) {
        if case .sent(let result) = event {
            let entry = TransferLog.Entry(
                when: SystemClock.wall(), peer: result.peer, peerName: result.receiver, content: result.content,
                size: result.byteCount, outcome: result.missing == nil ? result.outcome.word : MissingFiles.word,
                reason: result.declineReason,
                presentSize: result.compared.map { min($0.unsentByteCount, result.byteCount) })
            do {
                try history.append(entry)
            } catch {
                reporter.report(.warning("\(error)"))
            }
        }
        reporter.report(event)
    }

    func showProgress(of transfers: RunningTransfers) async { await reporter.showProgress(of: transfers) }
}
