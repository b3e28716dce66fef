package import NearshareBase
package import NearshareBundles
package import NearshareCrypto
package import NearshareInterfaces
package import NearshareMesh

/// The peers in the mesh: their keys, whether they answer, and what they prove.
extension Messenger {
    /// The peers that are known in the mesh.
    package var peers: [MeshPeer] { mesh.peers }

    /// The strength of the advertisement of a neighbour over Bluetooth that this machine received last; nil where none is known.
    package func signal(of id: PeerID) -> SignalReading? { mesh.signal(of: id) }

    /// Waits until a peer is known in the mesh that `text` selects: an ID, a name, or the beginning of one.
    /// - Parameter ids: of peers that the user knows by this whole name, whatever they call themselves now.
    /// - Throws: ``NodeError``.
    package func find(_ text: String, knownAs ids: Set<PeerID> = [], timeout: Duration) async throws -> MeshPeer {
        try await mesh.find(text, knownAs: ids, timeout: timeout)
    }

    /// The peers with an established Noise session.
    package var secureSessions: [PeerID] { mesh.read { $0.peersWithSession } }

    /// The keys for which messages to a peer can be sealed: those of the address book, or those that it announces in the mesh.
    package func endpointKeys(of id: PeerID) -> EndpointKeys? { keys(of: id)?.keys }

    func keys(of id: PeerID) -> ContactKeys? {
        // A peer in range without support for bundles cannot open them, whichever keys are known.
        if let peer = mesh.read({ $0.peer(id) }), peer.capabilities?.contains(.bundles) != true { return nil }
        // Any peer can announce another's agreement key beside a signing key of its own (K2): proven keys outrank announced ones,
        // and the announcement of a peer in range outranks an earlier one.
        let stored = settings.contact(id)
        if let stored, stored.areProven { return stored }
        let announced = messages.announcedKeys(of: id)
        return announced.map { ContactKeys($0, areProven: mesh.read { $0.hasAuthenticatedKeys(id) }) } ?? stored
    }

    /// The shortest possible duration of a file transfer to a peer, and whether it takes a Bluetooth hop; nil when unknown.
    package func estimate(byteCount: UInt64, to id: PeerID) -> (time: Duration, needsRadio: Bool)? {
        guard let (peer, needsRadio) = mesh.read({ router in router.peer(id).map { ($0, router.needsRadio(to: id)) } }),
            let time = mesh.estimate(byteCount: byteCount, to: peer)
        else { return nil }
        return (time, needsRadio)
    }

    /// The keys that a peer in the mesh has announced, and whether a session has authenticated both; nil without support for
    /// bundles.
    package func announcedKeys(of id: PeerID) -> (keys: EndpointKeys, name: DisplayName, isProven: Bool)? {
        guard let peer = mesh.read({ $0.peer(id) }), peer.capabilities?.contains(.bundles) == true,
            let keys = messages.announcedKeys(of: id)
        else { return nil }
        return (keys, peer.name, mesh.read { $0.hasAuthenticatedKeys(id) })
    }

    /// Establishes a session with a peer in the mesh, unless there is one, so that its keys are authenticated.
    package func secure(_ id: PeerID) {
        mesh.update { router, now in
            if router.peer(id) != nil { router.ensureSession(with: id, now: now) }
        }
    }

    /// Asks the owner of a verification code to prove that it holds both keys, inside a session.
    /// - Returns: nil when the peer does not answer, or does not prove it.
    package func verify(_ code: MeshVerificationCode) async -> AuthenticatedPeer? { await mesh.queries.verify(code) }

    /// The verification link of this node, which is valid for five minutes; nil when it cannot be encoded.
    package func verificationLink() -> String? {
        MeshVerificationCode.address(
            of: node.identity, name: node.name, nonce: node.random(MeshVerification.nonceByteCount), now: node.wallClock())
    }

    /// Checks whether a peer in the mesh answers.
    /// - Returns: nil when it does not answer.
    package func ping(_ id: PeerID) async -> MeshPingResult? { await mesh.queries.ping(id) }

    /// The peer with a key that a session has authenticated; establishes one where there is none.
    /// - Returns: nil when there is none in time.
    package func authenticatedPeer(_ id: PeerID, timeout: Duration) async -> AuthenticatedPeer? {
        let events = subscribers.subscribe()
        let present: @Sendable () -> AuthenticatedPeer? = { self.mesh.read { $0.authenticatedPeer(id) } }
        if let peer = present() { return peer }
        secure(id)
        let peer = await withTimeout(timeout) { () -> AuthenticatedPeer? in
            for await _ in events { if let peer = present() { return peer } }
            return nil
        }
        return peer ?? nil
    }

    /// Tells a phone in range that its user is a favourite here, or no longer.
    package func sendFavorite(_ isFavorite: Bool, to id: PeerID) {
        mesh.update { router, now in
            // A phone that is full of waiting messages learns it the next time.
            try? router.sendPrivateMessage(
                ChatContent.favoriteText(isFavorite), id: DerivedMessageID.uuid(from: node.random(16)), to: id, now: now)
        }
    }
}
