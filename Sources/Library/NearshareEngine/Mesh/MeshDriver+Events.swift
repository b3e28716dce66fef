internal import Logging
internal import NearshareBase
internal import NearshareBundles
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareMesh
internal import Synchronization

// Translates the router's events into transfers, invitations and texts.
extension MeshDriver {
    func handle(_ event: MeshEvent) {
        switch event {
        case .peerChanged(let peer):
            settings.log.debug("mesh: peer \(peer.name.shown) (\(peer.id))")
            handlePeerChange(of: peer.id)
        case .peerLost(let id):
            settings.log.debug("mesh: peer \(id) left")
            handlePeerChange(of: id)
        case .bundlePacket(let bytes, let peer): handleBundlePacket(bytes, from: peer)
        case .clockSkewDetected(let id, let difference):
            // Unauthenticated: any key can sign such a packet, so this is only a warning.
            settings.log.warning(
                """
                the clocks of \(id) and this node differ by \(difference.components.seconds) s, so they ignore each other in \
                the mesh; set both clocks
                """)
        case .pong, .verificationResponse: answers.publish(event)
        case .publicMessage(let peer, let id, let text, _): publishMessageEvent(.publicText(from: peer, id: id, text: text))
        case .read(let id, let peer): publishMessageEvent(.read(id: id, by: peer))
        case .sessionEstablished(let peer):
            updateContacts()
            publishMessageEvent(.peerChanged(peer.id))
            offerAuthenticated(by: peer)
        case .privateMessage(let peer, let id, let text): handlePrivateMessage(text, id: id, from: peer)
        case .delivered(let id, let peer):
            completeText(withMessage: id, receivedBy: peer.id)
            publishMessageEvent(.delivered(id: id, by: peer))
        case .undelivered(let id, let peer):
            failText(withMessage: id)
            publishMessageEvent(.undelivered(id: id, to: peer))
        case .fileOffered(let offer, let peer): invite(offer, from: peer)
        case .fragmentsReceived(let progress): handle(progress)
        case .fileReceived(let file): handle(file)
        case .fileReceiveEnded(let key, let outcome): endReceiving(key, outcome)
        case .fileOfferSent(let key): outgoingFile(key)?.transfer.enter(.waiting)
        case .fileSendStarted(let key, let fragments, _): outgoingFile(key)?.transfer.startFragments(of: fragments)
        case .fragmentsSent(let key, let sent, let total):
            guard let file = outgoingFile(key) else { return }
            file.transfer.recordProgress(fragments: sent, of: total, size: file.size)
            if sent == total { file.transfer.enter(.finishing) }
        case .fileSendEnded(let key, let outcome):
            guard let file = outgoing.withLock({ $0.removeFile(key) }) else { return }
            let isExpired = file.isExpired && outcome == .cancelledLocally
            file.transfer.end(isExpired ? TransferResult(outcome: .expired) : Self.result(of: outcome, for: file.receiver))
        }
    }

    private func updateContacts() {
        let contacts = settings.contacts()
        update { router, _ in router.setContacts(contacts) }
        bundles.withLock { $0 }?.setContacts(contacts)
    }

    private func handlePeerChange(of id: PeerID) {
        peerChanges.publish(id)
        collectedPeerChanges.insert(id)
    }

    func handlePeerChanges(_ ids: Set<PeerID>) {
        bundles.withLock { $0 }?.neighboursChanged()
        for id in ids { publishMessageEvent(.peerChanged(id)) }
    }

    private func handleBundlePacket(_ bytes: [UInt8], from peer: PeerID) {
        guard let packet = try? BundlePacket(decoding: bytes[...]) else {
            settings.log.debug("mesh: malformed bundle packet from \(peer)")
            return
        }
        bundles.withLock { $0 }?.receive(packet, from: peer)
    }

    private func handlePrivateMessage(_ text: String, id: String, from peer: AuthenticatedPeer) {
        if let isFavorite = ChatContent.isFavorite(text) {
            acknowledge(id, of: peer.id)
            publishMessageEvent(.favorite(isFavorite, by: peer))
            return
        }
        if !publishMessageEvent(.privateText(from: peer, id: id, text: text)) { offerText(text, id: id, from: peer) }
    }

    /// - Returns: whether the text was accepted; otherwise it is offered like a file.
    @discardableResult
    private func publishMessageEvent(_ event: MeshMessageEvent) -> Bool {
        guard let receive = messageHandler.withLock({ $0 }) else { return false }
        return receive(event)
    }

    /// Interrupts all transfers and ends all invitations, because the node stops.
    func interruptAll() {
        let outgoing = outgoing.withLock { outgoing in
            defer { outgoing = OutgoingMeshTransfers() }
            return outgoing
        }
        let incoming = incoming.withLock { incoming in
            defer { incoming = IncomingMeshTransfers() }
            return incoming
        }
        for transfer in outgoing.transfers + incoming.transfers { transfer.end(TransferResult(outcome: .interrupted)) }
        for invitation in incoming.openInvitations { invitation.end(.interrupted) }
    }

    // MARK: Outgoing transfers

    private func outgoingFile(_ key: MeshFileKey) -> OutgoingMeshTransfers.File? { outgoing.withLock { $0[key] } }

    private func completeText(withMessage id: String, receivedBy peer: PeerID) {
        guard let transfer = outgoing.withLock({ $0.recordReceipt(id, from: peer) })?.transfer else { return }
        transfer.recordProgress(to: transfer.snapshot.total ?? 0, entries: 1)
        transfer.end(TransferResult(outcome: .completed))
    }

    private func failText(withMessage id: String) {
        guard let text = outgoing.withLock({ $0.removeText(withMessage: id) }) else { return }
        text.transfer.end(Self.result(of: .noResponse, for: text.receiverName))
    }

    private static func result(of outcome: MeshFileOutcome, for name: String) -> TransferResult {
        switch outcome {
        case .stored: TransferResult(outcome: .completed)
        case .sent: TransferResult(outcome: .completed, detail: "sent; \(name) does not confirm what arrives")
        case .declined(.declined): TransferResult(outcome: .declined(.declined))
        case .declined(.busy): TransferResult(outcome: .declined(.busy))
        case .declined(.tooLarge): TransferResult(outcome: .declined(.tooLarge))
        case .declined(.expired): TransferResult(outcome: .expired)
        case .declined(.notAllowed): TransferResult(outcome: .declined(.notAllowed))
        case .cancelledLocally: TransferResult(outcome: .cancelled(by: .local))
        case .cancelledByPeer: TransferResult(outcome: .cancelled(by: .remote))
        case .noResponse:
            TransferResult(outcome: .interrupted, detail: "no response from \(name) in the mesh; they may be out of reach")
        case .unsupported:
            TransferResult(
                outcome: .failed(.refused, at: .remote),
                detail: "\(name)'s app does not accept private files; ask for an update"
            )
        case .lost:
            TransferResult(
                outcome: .interrupted, detail: "too many fragments to \(name) were lost; move closer, or send it again")
        }
    }
}
