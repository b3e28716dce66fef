internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces

/// The peer at the other end of a link, as far as the link's events have described it.
struct LinkPeerInfo {
    let remote: LinkAddress
    private(set) var proven: AuthenticatedPeer?
    private(set) var handshake: HandshakeResult?
    private(set) var name: DisplayName?
    private(set) var shortCode: ShortAuthenticationDigits?

    init(_ remote: LinkAddress) {
        self.remote = remote
    }

    mutating func learn(from event: LinkEvent) {
        switch event {
        case .established(let peer, let handshake): (proven, self.handshake) = (peer, handshake)
        case .greeted(let claimed, _): name = claimed
        case .shortCode(let text): shortCode = text
        case .verificationRequested, .verificationAnswered, .invited, .invitationEnded, .session, .hotspot, .closed: break
        }
    }

    /// The peer; nil before its key is proven and its name is known, and for a blocked peer.
    func peer(_ settings: NodeSettings) -> Peer? {
        guard let proven, let name, let handshake else { return nil }
        let trustStatus = settings.trustStatus(proven, name)
        if trustStatus.isBlocked { return nil }
        return Peer(proven: proven, name: name, trustStatus: trustStatus, address: remote, version: handshake.version)
    }
}

/// The unanswered invitations of one link.
struct OpenInvitations {
    private var open: [TransferID: WeakReference<Invitation>] = [:]

    mutating func insert(_ invitation: Invitation, as id: TransferID, _ shortCode: ShortAuthenticationDigits?) {
        if let shortCode { invitation.setShortCode(shortCode) }
        open = open.filter { $0.value.object != nil }
        open[id] = WeakReference(object: invitation)
    }

    func setShortCode(_ code: ShortAuthenticationDigits) {
        for waiting in open.values { waiting.object?.setShortCode(code) }
    }

    mutating func end(_ id: TransferID, _ outcome: TransferOutcome) {
        open.removeValue(forKey: id)?.object?.end(outcome)
    }

    mutating func endAll() {
        for waiting in open.values { waiting.object?.end(.interrupted) }
        open = [:]
    }
}
