internal import Nearshare

/// Sends something to a LocalSend device.
struct DeviceSendOperation: Sendable {
    let machine: LocalMachine
    let node: Node
    let follower: OutgoingTransferFollower
    /// Timeout of the receiver's answer.
    let timeout: Duration
    let rateLimit: TransmissionLimit?
    /// nil where there is neither a PIN for the device nor a user to ask.
    let pin: PINPrompt?
    /// Whether another target has selected the receiver, which is then reported. Who is at an address is known only when the key is proven.
    let isRepeated: @Sendable (PeerID, DisplayName?) -> Bool

    private var reporter: any Reporter { follower.reporter }
    private var running: RunningTransfers { follower.running }

    func send(_ content: any ResourceSource, to destination: PeerDestination) async throws {
        let target: LocalSendTarget
        do {
            target = try await node.localSendTarget(destination)
        } catch {
            throw CommandFailure(error, connectingTo: destination)
        }
        let peer = target.peer
        let known = machine.name(of: peer.fingerprint, claiming: target.name)
        if isRepeated(peer.id, known) { return }
        let name = known.shown
        let trust = try machine.trust.read()
        let trustStatus = trust.trustStatus(of: peer.fingerprint, claiming: target.name)
        // The name by which the user has chosen it, too: the device says another one only now (F16).
        for claimed in [target.name, destination.name].compactMap(\.self) {
            guard case .nameClash(let other) = trust.trustStatus(of: peer.fingerprint, claiming: claimed) else { continue }
            throw CommandFailure(
                .notTrusted,
                "nothing was sent: \(claimed.shown) has another certificate than the device that you know by that name "
                    + "(\(other.peerID), now \(peer.id)); if it is a new device, or LocalSend was installed again, "
                    + "`nearshare peers forget \(other.peerID)`; otherwise another device uses the name")
        }
        if trustStatus.isBlocked { throw NodeError.blocked(name) }
        let content = content.offer.totalSize == nil ? try await spool(content) : content
        let transfer = try node.send(content, to: target, timeout: timeout, rateLimit: rateLimit) { [pin] wasWrong in
            await pin?.ask(name, wasWrong)
        }
        reporter.report(
            .inviting(
                OutgoingInvitation(
                    transfer: transfer.id, peer: peer.id, receiver: known.claimed, name: known.quoted, trustStatus: trustStatus,
                    path: .localSend(target.address, certificate: target.foreign.certificate ?? []))))
        var result = await follower.finish(transfer, of: content, to: name)
        if result.outcome == .declined(.notAllowed), let detail = result.detail, let advice = pin?.advice {
            result.detail = "\(detail). \(advice)"
        }
        if result.outcome == .completed, let certificate = target.foreign.certificate {
            _ = try? machine.trust.update {
                $0.recordDevice(peer.fingerprint, certificate: certificate, named: target.name, at: SystemClock.wall())
            }
        }
        try follower.conclude(result, of: transfer, content, to: peer.id, name: name, isDevice: true)
    }

    /// Reads standard input to its end: LocalSend needs to know the size beforehand.
    private func spool(_ stream: any ResourceSource) async throws -> any ResourceSource {
        reporter.report(.notice("reading standard input to its end first: LocalSend needs to know the size beforehand"))
        var generator = SystemRandomNumberGenerator()
        let reading = Transfer(
            progress: TransferProgress(
                id: TransferID(using: &generator), direction: .outgoing, total: nil, totalEntries: 1),
            clock: SystemClock.monotonic)
        reading.onCancel { stream.cancel() }
        let path = machine.state.path
        let read: Result<SpooledSource, StorageError> = try await running.reading(reading) {
            try await BlockingThread.run {
                do throws(StorageError) {
                    return .success(
                        try SpooledSource(try stream.makeReader(), in: path) { reading.recordProgress(to: $0, of: nil) })
                } catch {
                    return .failure(error)
                }
            }
        }
        do throws(StorageError) {
            return try read.get()
        } catch  where running.isCancelled {
            throw CommandFailure.silent(.interrupted)
        } catch {
            throw CommandFailure(
                error.code == .overLimit || error.code == .noSpace ? .noSpace : .failure,
                "standard input was not sent: \(error), and LocalSend needs to know the size beforehand; "
                    + "save it as a file, and send that"
            )
        }
    }
}
