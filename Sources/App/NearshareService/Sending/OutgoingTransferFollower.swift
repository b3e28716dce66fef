internal import Nearshare

/// Follows the transfers of a send while they run, and reports their progress and their results.
struct OutgoingTransferFollower: Sendable {
    let reporter: any Reporter
    /// Lists the transfers, so that they are shown and can be cancelled.
    let running: RunningTransfers
    /// Called before a completed transfer is reported.
    var onCompletion: @Sendable () -> Void = {}

    /// Reports the progress of a transfer until it ends.
    /// - Parameter receiver: escaped.
    func follow(_ transfer: Transfer, to receiver: String) async {
        var last = TransferProgress.Phase.connecting
        var isPartReported = false
        var reported: UInt64 = 0
        for await progress in transfer.progress {
            if progress.phase != last {
                switch progress.phase {
                case .waiting: reporter.report(.waitingForAnswer(transfer.id))
                case .comparing: reporter.report(.acceptedByReceiver(transfer.id))
                case .moving where progress.resumed > 0: reporter.report(.resumed(transfer.id, offset: progress.resumed))
                default: break
                }
                last = progress.phase
            }
            if let part = progress.part, !isPartReported {
                isPartReported = true
                reporter.report(.partAccepted(transfer.id, part, by: receiver))
            }
            if progress.isReported(after: reported) {
                reported = progress.done
                reporter.report(.progress(progress))
            }
        }
    }

    /// Follows a transfer through the mesh or to a LocalSend device until it ends.
    /// - Parameter name: of the receiver, escaped.
    func finish(_ transfer: Transfer, of part: any ResourceSource, to name: String) async -> TransferResult {
        await running.following(transfer, label: TransferLabel(OfferText.summary(part.offer), to: name)) {
            await follow(transfer, to: name)
            return await transfer.result
        }
    }

    /// Ends a transfer through the mesh or to a LocalSend device, neither of which is resumed.
    func conclude(
        _ result: TransferResult, of transfer: Transfer, _ part: any ResourceSource, to peer: PeerID, name: String,
        isDevice: Bool = false
    ) throws(CommandFailure) {
        report(
            result, of: transfer, to: peer, name: name, content: OfferText.summary(part.offer), canResume: false,
            isDevice: isDevice)
        guard result.outcome == .completed else {
            throw CommandFailure(
                ExitStatus(result),
                result.detail ?? result.outcome.sentence(name, canResume: false, content: OfferText.summary(part.offer)))
        }
    }

    /// Reports the result of a transfer.
    func report(
        _ result: TransferResult, of transfer: Transfer, to peer: PeerID, name: String, content: String, canResume: Bool,
        isDevice: Bool = false
    ) {
        let progress = transfer.snapshot
        if result.outcome == .completed { onCompletion() }
        reporter.report(
            .sent(
                SendResult(
                    transfer: transfer.id, peer: peer, outcome: result.outcome, detail: result.detail,
                    label: TransferLabel(content, to: name).text, content: content,
                    byteCount: progress.done.subtractingClamped(result.missing?.contentByteCount ?? 0),
                    resumedByteCount: progress.resumed, canResume: canResume,
                    changedNames: result.changedNames, compared: result.compared, part: progress.part,
                    receiver: name, missing: result.missing, isConfirmed: result.isConfirmed, isDevice: isDevice)))
    }
}
