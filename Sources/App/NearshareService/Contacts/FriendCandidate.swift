package import Nearshare

/// A peer that the user may make a friend.
package struct FriendCandidate: Sendable {
    package let fingerprint: Fingerprint
    package let name: DisplayName
    package let isVerified: Bool
    package let isFriend: Bool
    /// The peer that was authenticated just now, under the name that it claims; nil for a known peer, which need not be nearby.
    private let authenticated: (peer: AuthenticatedPeer, claimedName: DisplayName)?

    /// - Returns: nil when no known peer has this name or id.
    /// - Throws: ``CommandFailure`` for a blocked peer.
    package init?(known text: String, on machine: LocalMachine) throws {
        guard LinkAddress(parsing: text) == nil, let known = try machine.trust.read().peer(named: text) else { return nil }
        try self.init(known.fingerprint, known.entry.name, known.entry)
    }

    /// - Parameter connection: to the peer, which is neither asked nor notified.
    /// - Throws: ``CommandFailure`` for a blocked peer, and for a name that is known with another key.
    package init(authenticatedOver connection: Connection, on machine: LocalMachine) async throws {
        let claimedName = try await connection.peerName
        let trust = try machine.trust.read()
        let peer = connection.proven
        let known = trust[peer.fingerprint]
        if known == nil, case .nameClash(let owner) = trust.trustStatus(of: peer, claiming: claimedName) {
            throw CommandFailure(
                .notTrusted,
                "\(claimedName.shown) is known with another key, \(owner.peerID), and this is \(peer.id). If the key has "
                    + "changed, run `nearshare peers forget \(owner.peerID)`; otherwise another peer uses the name")
        }
        try self.init(peer.fingerprint, claimedName, known, authenticated: (peer, claimedName))
    }

    /// - Parameters:
    ///   - claimedName: the name of a peer that is not known.
    ///   - known: nil for such a peer.
    private init(
        _ fingerprint: Fingerprint, _ claimedName: DisplayName, _ known: TrustStore.Entry?,
        authenticated: (peer: AuthenticatedPeer, claimedName: DisplayName)? = nil
    ) throws(CommandFailure) {
        self.fingerprint = fingerprint
        name = known?.name ?? claimedName
        isVerified = known?.trust == .verified
        isFriend = known?.isFriend == true
        self.authenticated = authenticated
        if known?.trust == .blocked { throw Self.isBlocked(name) }
    }

    /// Makes the peer a friend.
    /// - Throws: ``CommandFailure`` when the user has blocked the peer meanwhile, or the trust store is full.
    package func befriend(on machine: LocalMachine) throws {
        let now = SystemClock.wall()
        let isStored = try machine.trust.update { trust in
            if let authenticated { trust.recordContact(with: authenticated.peer, named: authenticated.claimedName, at: now) }
            return trust[fingerprint]?.trust == .blocked ? nil : trust.setFriend(fingerprint, true)
        }
        switch isStored {
        case true: break
        case nil: throw Self.isBlocked(name)
        case false where authenticated == nil:
            throw CommandFailure(.peerNotFound, "\(name.shown) was removed from the known peers meanwhile")
        case false:
            throw CommandFailure(.noSpace, "there is no room for another known peer; `nearshare peers forget` removes one")
        }
    }

    private static func isBlocked(_ name: DisplayName) -> CommandFailure {
        CommandFailure(.notTrusted, "\(name.shown) is blocked; run `nearshare peers unblock` first")
    }
}
