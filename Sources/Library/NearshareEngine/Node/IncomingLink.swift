internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces

/// Handles the events of one incoming link, from its handshake to its end.
struct IncomingLink {
    private let driver: LinkDriver
    private let remote: LinkAddress
    private let slot: LinkRegistry.Slot
    private let node: Node
    /// Receives the peer's offers; nil on a link for a session of the node.
    private let queues: Listener.Queues?
    /// The peer at the other end; nil for any.
    private let expected: PeerID?

    private var peerInfo: LinkPeerInfo
    private var open = OpenInvitations()
    private let linkEnd = Promise<TransferOutcome>()
    private let peerConfirmed = Promise<Bool>()
    private let sessionLink: IncomingSessionLink
    private let hotspot: HotspotNegotiation

    init(
        _ driver: LinkDriver, _ link: any StreamLink, _ slot: LinkRegistry.Slot, node: Node,
        queues: Listener.Queues?, expecting expected: PeerID?
    ) {
        self.driver = driver
        remote = link.remote
        self.slot = slot
        self.node = node
        self.queues = queues
        self.expected = expected
        peerInfo = LinkPeerInfo(link.remote)
        hotspot = HotspotNegotiation(driver)
        sessionLink = IncomingSessionLink(driver, link) { node.recordMember($0, slot) }
    }

    /// Ends what waits for the link.
    func end() {
        linkEnd.fulfil(.interrupted)
        hotspot.finish()
        if peerInfo.proven == nil { node.recordFailedHandshake(of: remote.host) }
    }

    mutating func handle(_ event: LinkEvent) {
        peerInfo.learn(from: event)
        switch event {
        case .established(let peer, _): checkPeer(peer)
        case .greeted: break
        case .verificationAnswered(let matches): peerConfirmed.fulfil(matches)
        case .shortCode(let code):
            open.setShortCode(code)
            sessionLink.setShortCode(code)
        case .session(let frame): node.receive(frame, on: sessionLink, peerInfo, queues)
        case .verificationRequested: requestVerification()
        case .invited(let offer, let expiry): invite(offer, until: expiry)
        case .invitationEnded(let id, let outcome): open.end(id, outcome)
        case .hotspot(.requested(let roles)): requestHotspot(roles)
        case .hotspot(let event): hotspot.receive(event)
        case .closed(let end):
            node.settings.log.debug("link from \(remote) ended: \(end)")
            open.endAll()
            sessionLink.end(end)
        }
    }

    /// Closes the link of a blocked or unexpected peer; any other gets the slot of a friend, or of an untrusted peer.
    private func checkPeer(_ peer: AuthenticatedPeer) {
        if expected == nil {
            node.recordProvenKey(of: peer, at: remote.host)
        } else {
            // Over a member, for which the rate of unknown keys was not charged.
            node.recordHandshake(of: remote.host, isKnown: false)
        }
        guard peer.id == expected ?? peer.id else { return driver.close(.violation) }
        let trustStatus = node.settings.trustStatus(peer, nil)
        guard !trustStatus.isBlocked else { return driver.close(.blocked) }
        if trustStatus.isFriend { driver.reserve() }
        node.classify(slot, isFriend: trustStatus.isFriend)
    }

    private func requestVerification() {
        guard let peer = peerInfo.peer(node.settings), let code = peerInfo.shortCode else { return }
        guard let queues, let prompt = node.promptLimiter.admit(peer, on: .link(remote)) else {
            // A "no" would mean that the codes differ.
            return driver.close(.unattended)
        }
        queues.verificationRequests.enqueue(
            VerificationRequest(
                peer: peer, shortCode: code, link: driver, end: linkEnd, peerConfirmed: peerConfirmed, prompt: prompt))
    }

    /// Passes a peer's request for a Wi-Fi network on. Only a link over Bluetooth is slow enough for one (A15).
    private func requestHotspot(_ roles: HotspotRoles) {
        guard let peer = peerInfo.peer(node.settings), let queues, remote.medium == .bluetooth else {
            return hotspot.end(.unavailable)
        }
        guard let prompt = node.promptLimiter.admit(peer, on: .link(remote)) else { return hotspot.end(.busy) }
        queues.hotspotRequests.enqueue(
            HotspotRequest(peer: peer, roles: roles, negotiation: hotspot, prompt: prompt))
    }

    private mutating func invite(_ offer: TransferOffer, until expiry: MonotonicInstant) {
        if let (session, link) = sessionLink.joined {
            return session.handle(offer, until: expiry, on: driver, from: peerInfo, invitations: &open, link: link)
        }
        // An offer may arrive with the last handshake message, before a blocked peer is disconnected.
        guard let peer = peerInfo.peer(node.settings), let queues else { return }
        let isShown = peerInfo.shortCode != nil || peer.trustStatus.isVerified
        guard let prompt = node.promptLimiter.admit(peer, on: .link(remote), isShown: isShown) else {
            return driver.decline(offer.id, because: .busy)
        }
        let invitation = node.makeInvitation(offer, from: peer, until: expiry, on: driver, prompt: prompt)
        open.insert(invitation, as: offer.id, peerInfo.shortCode)
        queues.invitations.enqueue(invitation)
    }
}
