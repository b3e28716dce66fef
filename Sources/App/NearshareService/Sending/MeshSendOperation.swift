internal import Nearshare
internal import NearshareMesh

/// Sends something through the mesh, whose node this process runs: each file by itself.
struct MeshSendOperation: Sendable {
    let machine: LocalMachine
    let mesh: MeshDriver
    let source: SendSource
    let follower: OutgoingTransferFollower
    /// Timeout of the receiver's answer.
    let timeout: Duration
    /// nil to send no file that relays can read.
    let unsealed: UnsealedConfirmation?

    private var reporter: any Reporter { follower.reporter }

    /// - Parameters:
    ///   - content: the content of the source that this receiver reads.
    ///   - isIDGiven: whether the user has given the peer's id, and no name that another peer may use as well.
    func send(_ content: any ResourceSource, to peer: MeshPeer, isIDGiven: Bool) async throws {
        let known = machine.name(of: peer.fingerprint, claiming: peer.name)
        let name = known.shown
        let trustStatus = try machine.trust.read().trustStatus(of: peer.fingerprint, claiming: peer.name)
        if !isIDGiven {
            try NameClash.refuseSend(
                to: peer.fingerprint, trustStatus, claiming: peer.name, in: try? machine.trust.read())
        }
        if trustStatus.isBlocked { throw NodeError.blocked(name) }
        for part in try source.parts?() ?? [content] {
            if try await send(part, to: peer, named: known, trustStatus, isEncrypted: true) { continue }
            guard await unsealed?.ask(name) == true else { throw UnsealedConfirmation.refusal(of: name) }
            _ = try await send(part, to: peer, named: known, trustStatus, isEncrypted: false)
        }
    }

    /// - Returns: false where the app of the peer takes no sealed files, and the user can be asked.
    private func send(
        _ part: any ResourceSource, to peer: MeshPeer, named known: DisplayName, _ trustStatus: TrustStatus, isEncrypted: Bool
    ) async throws -> Bool {
        let name = known.shown
        let transfer = try mesh.send(part, to: peer, isEncrypted: isEncrypted, timeout: timeout)
        let estimate = part.offer.totalSize.flatMap { mesh.estimate(byteCount: $0, to: peer) } ?? .zero
        reporter.report(
            .inviting(
                OutgoingInvitation(
                    transfer: transfer.id, peer: peer.id, receiver: known.claimed, name: known.quoted, trustStatus: trustStatus,
                    path: .mesh(isNeighbour: peer.isDirect, estimate: estimate), isEncrypted: isEncrypted,
                    part: source.parts == nil ? nil : (OfferText.summary(part.offer), part.offer.totalSize))))
        let result = MeshAdvice.completed(
            await follower.finish(transfer, of: part, to: name), to: peer.software == .nearshare ? .nearshare : .phone)
        if isEncrypted, unsealed != nil, result.outcome == UnsealedConfirmation.missingEncryption { return false }
        let shown = isEncrypted ? UnsealedConfirmation.withAdvice(result, for: name) : result
        try follower.conclude(shown, of: transfer, part, to: peer.id, name: name)
        return true
    }

    /// Sends to all peers of the mesh.
    func sendToEveryone(_ content: any ResourceSource) async throws {
        guard let everyone = Contact.everyone else { return }
        for part in try source.parts?() ?? [content] {
            let transfer = try mesh.send(part, to: nil, timeout: timeout)
            let notice = part.offer.totalSize.flatMap { MeshAdvice.forFileToEveryone(byteCount: $0, among: mesh.peers) }
            if let notice { reporter.report(.notice(notice)) }
            reporter.report(
                .inviting(
                    OutgoingInvitation(
                        transfer: transfer.id, peer: everyone.id, receiver: everyone.name.claimed, name: everyone.name.shown,
                        trustStatus: .new, path: .node)))
            let result = MeshAdvice.completed(await follower.finish(transfer, of: part, to: everyone.name.shown), to: nil)
            try follower.conclude(result, of: transfer, part, to: everyone.id, name: everyone.name.shown)
        }
    }
}
