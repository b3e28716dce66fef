internal import Logging
internal import NearshareBase
internal import NearshareBundles
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareMesh
internal import Synchronization

// Passes the router's events to the parts of the mesh, and to the bundles and messages.
extension MeshDriver {
    func handle(_ event: MeshEvent) {
        switch event {
        case .peerChanged(let peer):
            settings.log.debug("mesh: peer \(peer.name.identified(by: peer.id))")
            knownPeers.recordChange(of: peer.id)
        case .peerLost(let id):
            settings.log.debug("mesh: peer \(id) left")
            knownPeers.recordChange(of: id)
        case .bundlePacket(let bytes, let peer): handleBundlePacket(bytes, from: peer)
        case .clockSkewDetected(let id, let difference):
            // Any neighbour can replay an old announcement, so this is only a warning (M14).
            settings.log.warning(
                """
                the clocks of \(id) and this node differ by \(difference.components.seconds) s, so they ignore each other in \
                the mesh; set both clocks
                """)
            publishMessageEvent(.clockDiffers(id, by: difference))
        case .pong, .verificationResponse: queries.receive(event)
        case .publicMessage(let peer, let id, let text, let source):
            publishMessageEvent(.publicText(from: peer, id: id, text: text, source: source))
        case .read(let id, let peer): publishMessageEvent(.read(id: id, by: peer))
        case .sessionEstablished(let peer):
            publishMessageEvent(.peerChanged(peer.id))
            receiver.offerAuthenticated(by: peer)
        case .privateMessage(let peer, let id, let text): handlePrivateMessage(text, id: id, from: peer)
        case .delivered(let id, let peer):
            sender.recordReceipt(id, from: peer.id)
            publishMessageEvent(.delivered(id: id, by: peer))
        case .undelivered(let id, let peer):
            sender.failText(withMessage: id)
            publishMessageEvent(.undelivered(id: id, to: peer))
        case .fileOffered(let offer, let peer): receiver.invite(offer, from: peer)
        case .fragmentsReceived(let progress): receiver.handle(progress)
        case .fileReceived(let file): receiver.handle(file)
        case .fileReceiveEnded(let key, let outcome): receiver.endReceiving(key, outcome)
        case .fileOfferSent(let key): sender.recordOffer(of: key)
        case .fileSendStarted(let key, let fragments, _): sender.recordStart(of: key, fragmentCount: fragments)
        case .fragmentsSent(let key, let sent, let total): sender.recordProgress(of: key, sent: sent, of: total)
        case .fileSendEnded(let key, let outcome): sender.endFile(key, outcome)
        }
    }

    func handlePeerChanges(_ ids: Set<PeerID>) {
        bundles.withLock { $0 }?.updateNeighbours()
        receiver.offerAuthenticated(by: ids)
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
            receiver.acknowledge(id, of: peer.id)
            publishMessageEvent(.favorite(isFavorite, by: peer))
            return
        }
        if !publishMessageEvent(.privateText(from: peer, id: id, text: text)) { receiver.offerText(text, id: id, from: peer) }
    }

    /// - Returns: whether the text was accepted; otherwise it is offered like a file.
    @discardableResult
    private func publishMessageEvent(_ event: MeshMessageEvent) -> Bool {
        guard let receive = messageHandler.withLock({ $0 }) else { return false }
        return receive(event)
    }
}
