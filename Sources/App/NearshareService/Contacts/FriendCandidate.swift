package import Nearshare

/// A peer that the user may make a friend.
package struct FriendCandidate: Sendable {
    package let fingerprint: Fingerprint
    package let name: DisplayName
    package let isVerified: Bool
    package let isFriend: Bool
    /// Whether the text that has found the peer among the known ones may mean another peer nearby as well: it is only the beginning of
    /// the peer's name, or the name that the peer calls itself beside its local one.
    private(set) var mayMeanAnotherPeer = false
    /// Whether the peer is in the trust store.
    private let isKnown: Bool
    /// Puts a peer that is not known into the trust store.
    private let record: @Sendable (inout TrustStore) -> Void

    /// A peer that need not be nearby: it is known, or the text is the id of a key in the address book that was proven.
    /// - Returns: nil when there is none.
    /// - Throws: ``CommandFailure`` for a blocked peer.
    package init?(known text: String, on machine: LocalMachine) throws {
        guard LinkAddress(parsing: text) == nil else { return nil }
        let trust = try machine.trust.read()
        if let known = try trust.peer(named: text) {
            let id = known.fingerprint.peerID
            try self.init(known.fingerprint, known.entry.name, known.entry) { _ in }
            mayMeanAnotherPeer =
                PeerID(hex: text) != id && Fingerprint(hex: text) != known.fingerprint
                && !trust.isWholeName(text, of: known.entry.name, id)
            return
        }
        // Not by name: a peer that was met may have the name of the one that is meant.
        guard let id = PeerID(hex: text), let met = try machine.contacts.read().entry(of: id), met.isProven else { return nil }
        try Self.refuseNameClash(trust.trustStatus(of: met.fingerprint, claiming: met.name), met.name, id)
        try self.init(met.fingerprint, met.name, nil) {
            $0.recordEarlierProof(of: met.fingerprint, named: met.name, at: SystemClock.wall())
        }
    }

    /// - Parameter connection: to the peer, which is neither asked nor notified.
    /// - Throws: ``CommandFailure`` for a blocked peer, and for a name that is known with another key.
    package init(authenticatedOver connection: Connection, on machine: LocalMachine) async throws {
        let claimedName = try await connection.peerName
        let trust = try machine.trust.read()
        let peer = connection.proven
        let known = trust[peer.fingerprint]
        if known == nil { try Self.refuseNameClash(trust.trustStatus(of: peer, claiming: claimedName), claimedName, peer.id) }
        try self.init(peer.fingerprint, claimedName, known) {
            $0.recordContact(with: peer, named: claimedName, at: SystemClock.wall())
        }
    }

    /// - Throws: ``CommandFailure`` for a name that is known with another key.
    package static func refuseNameClash(
        _ trustStatus: TrustStatus, _ name: DisplayName, _ id: PeerID
    ) throws(CommandFailure) {
        guard case .nameClash(let owner) = trustStatus else { return }
        throw CommandFailure(.notTrusted, NameClash.sentence(about: name, id, ownedBy: owner))
    }

    /// - Parameters:
    ///   - claimedName: the name of a peer that is not known.
    ///   - known: nil for such a peer.
    private init(
        _ fingerprint: Fingerprint, _ claimedName: DisplayName, _ known: TrustStore.Entry?,
        record: @escaping @Sendable (inout TrustStore) -> Void
    ) throws(CommandFailure) {
        self.fingerprint = fingerprint
        self.record = record
        name = known?.name ?? claimedName
        isVerified = known?.trust == .verified
        isFriend = known?.isFriend == true
        isKnown = known != nil
        if known?.trust == .blocked { throw Self.isBlocked(name) }
    }

    /// Makes the peer a friend.
    /// - Throws: ``CommandFailure`` when the user has blocked the peer meanwhile, or the trust store is full.
    package func befriend(on machine: LocalMachine) throws {
        let isStored = try machine.trust.update { trust in
            record(&trust)
            return trust[fingerprint]?.trust == .blocked ? nil : trust.setFriend(fingerprint, to: true)
        }
        switch isStored {
        case true: break
        case nil: throw Self.isBlocked(name)
        case false where isKnown:
            throw CommandFailure(.peerNotFound, "\(name.shown) was removed from the known peers meanwhile")
        case false: throw CommandFailure.addressBookFull
        }
    }

    private static func isBlocked(_ name: DisplayName) -> CommandFailure {
        CommandFailure(.notTrusted, "\(name.shown) is blocked; run `nearshare peers unblock` first")
    }
}
