package import Nearshare
package import NearshareMesh

/// Finds the peer that a text selects, and the transport to it: the network, Bluetooth, or the mesh. ``PeerSearch`` searches,
/// ``TrustedSelection`` decides among several peers of a name.
package struct PeerResolver: Sendable {
    package enum Destination: Sendable {
        case direct(PeerDestination)
        case mesh(MeshDriver, MeshPeer)
        /// Through the running node of this user, which is in the mesh.
        case node(Contact)
        /// All peers of the mesh, in which this node has a neighbour.
        case everyone(MeshDriver)
    }

    private let machine: LocalMachine
    private let reporter: any Reporter
    /// nil for the best available one.
    package let transport: Transport?
    private let times: SearchTimes
    private let selection: TrustedSelection
    private let lastAddress: LastAddress
    private let search: PeerSearch

    /// - Parameters:
    ///   - transport: nil for the best available one.
    ///   - needsDirectPath: whether the mesh is searched only if the user has chosen it.
    ///   - exceedsMesh: whether the content is a folder, or larger than the mesh carries.
    ///   - searchLimit: time of a search, at least that of the first look at the network; nil for the usual times.
    package init(
        machine: LocalMachine, reporter: any Reporter, transport: Transport?, needsDirectPath: Bool = false,
        exceedsMesh: Bool = false, searchLimit: Duration? = nil
    ) {
        self.machine = machine
        self.reporter = reporter
        self.transport = transport
        times = SearchTimes(limit: searchLimit)
        lastAddress = LastAddress(on: machine)
        selection = TrustedSelection(on: machine, reporter: reporter, transport: transport)
        search = PeerSearch(
            machine: machine, reporter: reporter, transport: transport, needsDirectPath: needsDirectPath,
            exceedsMesh: exceedsMesh, times: times, selection: selection, lastAddress: lastAddress)
    }

    /// - Parameter text: a name, the beginning of one, an id, a fingerprint, or an address with a port.
    package func resolve(_ text: String, on node: Node) async throws -> Destination {
        do {
            return try await resolvePeer(text, on: node)
        } catch NodeError.notFound(_, let nearby) {
            let error = notFound(text, nearby, on: node)
            guard case NodeError.notFound(_, let listed) = error, let advice = Self.idAdvice(on: text, among: listed) else {
                throw error
            }
            throw CommandFailure(.peerNotFound, "\(error); \(advice)")
        }
    }

    private func notFound(_ text: String, _ nearby: [NearbyPeer], on node: Node) -> any Error {
        if nearby.isEmpty, node.hasNoNetwork { return NetworkNotice.SearchFailure(text: text) }
        let trust = (try? machine.trust.read()) ?? TrustStore()
        return NodeError.notFound(text, nearby: trust.unblocked(nearby))
    }

    /// The advice on a text that is the beginning of a listed peer's id: it selects no new peer (K2); nil for another text.
    static func idAdvice(on text: String, among listed: [NearbyPeer]) -> String? {
        let digits = text.lowercased()
        guard digits.utf8.count >= 4, listed.contains(where: { $0.id.hex.hasPrefix(digits) }) else { return nil }
        return "the beginning of an id selects known peers only: a new peer needs all 16 digits"
    }

    /// Does the same as ``resolve(_:on:)``, but names no lack of a network as the cause.
    /// - Throws: ``NodeError/notFound(_:nearby:)`` for a peer that was not found, with or without a network.
    func resolvePeer(_ text: String, on node: Node) async throws -> Destination {
        if let address = LinkAddress(parsing: text) {
            try address.requireZone()
            var destination = PeerDestination(addresses: [address])
            destination.isLocalSend = address.port == Node.localSendPort
            return .direct(destination)
        }
        try refuseOwn(text, on: node)
        reporter.report(.searching(text))
        let trust = (try? machine.trust.read()) ?? TrustStore()
        let id = PeerID(hex: text)
        let trusted = trust.trustedPeers(named: text)
        let key = try TrustedSelection.onlyKey(among: trusted, selectedBy: text, in: trust)
        let known = key?.fingerprint ?? id.flatMap { trust.entry(claiming: $0)?.fingerprint }
        if let fingerprint = Fingerprint(hex: text) ?? known {
            return try await selection.destination(
                of: fingerprint, named: key, selectedBy: text, on: node, failurePrefix: "nothing was sent: "
            ) {
                try await search.find(fingerprint.peerID.hex, on: node)
            }
        }
        let found = try selection.requireTrusted(try await search.find(text, on: node), among: trusted, selectedBy: text)
        // The beginning of a known peer's name does not select another one (K2).
        if id == nil, let peer = found.peer { try trust.requireUnambiguous(peer.name, peer.id, selectedBy: text) }
        guard case .direct(var peer) = found else { return found }
        peer.isIDGiven = id != nil || isTagged(peer, text)
        return .direct(peer)
    }

    /// Whether a text is a peer's name with the tag of its key.
    private func isTagged(_ peer: PeerDestination, _ text: String) -> Bool {
        guard let name = peer.name, let id = peer.id else { return false }
        return TaggedName(text)?.matches(name, id) == true
    }

    /// Refuses a text that names this machine, unless it is the name of a trusted peer as well.
    private func refuseOwn(_ text: String, on node: Node) throws(CommandFailure) {
        let own = OwnPeer(node)
        guard let message = own.message(about: text), own.hasKey(text) || !isTrustedName(text) else { return }
        throw CommandFailure(.usage, message)
    }

    /// Whether a trusted peer has this name.
    private func isTrustedName(_ name: String) -> Bool {
        !((try? machine.trust.read())?.trustedPeers(named: name) ?? []).isEmpty
    }

    /// The mesh with all its peers, through the running node of this machine if there is one.
    func resolveEveryone(on node: Node) async throws -> Destination {
        if let everyone = Contact.everyone, try await isNodeRunning(on: machine) {
            return .node(everyone)
        }
        let mesh = node.joinMesh()
        guard await mesh.awaitNeighbour(timeout: await times.inMesh(opensRadio: node.opensRadio())) else {
            throw CommandFailure(.peerNotFound, "no peers are nearby; files for everyone are not stored")
        }
        return .everyone(mesh)
    }

    /// Finds a peer again after its link broke, on all media of the transport.
    /// - Parameter failedAddresses: used only when the peer is seen at no other address.
    /// - Returns: nil when it is not found in time.
    func resolveAgain(
        _ id: PeerID, on node: Node, avoiding failedAddresses: Set<LinkAddress>, timeout: Duration
    ) async -> PeerDestination? {
        let media = Transport.media(for: transport)
        let found = try? await node.find(id.hex, timeout: timeout, on: media, avoiding: failedAddresses)
        return found.map { lastAddress.inserted(into: $0.destination, on: media) }
    }

    /// Finds a peer after another one has answered at its announced addresses.
    /// - Parameter discardedAddresses: those.
    /// - Returns: nil when it is announced at no other address in time.
    func findElsewhere(
        _ peer: PeerDestination, on node: Node, discarding discardedAddresses: Set<LinkAddress>, timeout: Duration
    ) async -> PeerDestination? {
        guard let id = peer.id, timeout > .zero else { return nil }
        let media = Transport.media(for: transport)
        let found = try? await node.find(id.hex, timeout: timeout, on: media, discarding: discardedAddresses)
        guard let addresses = found?.addresses, found?.certificate == nil else { return nil }
        var peer = peer
        (peer.addresses, peer.announcedService, peer.discardedAddresses) = (addresses, .nearshare, discardedAddresses)
        return peer
    }

    /// Time of the search for a peer after another one has answered in its place.
    var mismatchTimeout: Duration { times.afterMismatch(on: transport) }

    /// Reports that another peer has answered in the place of one, which is searched for further. Its id need not be announced
    /// there: its last address may be another device's now.
    func reportOtherPeer(inPlaceOf peer: PeerDestination) {
        let name = peer.name?.shown ?? peer.id?.hex ?? ""
        let seconds = SearchTimes.shownSeconds(of: mismatchTimeout)
        reporter.report(.notice("another device answers in the place of \(name); looking for \(name) for \(seconds) s more…"))
    }

    /// Finds a peer whose key is to be verified. Of several peers with one name, the known one is selected.
    func resolveForConnection(_ text: String, on node: Node) async throws -> PeerDestination {
        do {
            return try await findForConnection(text, on: node)
        } catch NodeError.notFound(_, let nearby) {
            throw notFound(text, nearby, on: node)
        }
    }

    private func findForConnection(_ text: String, on node: Node) async throws -> PeerDestination {
        if let address = LinkAddress(parsing: text) {
            try address.requireZone()
            return PeerDestination(addresses: [address])
        }
        try refuseOwn(text, on: node)
        let media: Set<LinkAddress.Medium> = node.hasRadio ? [.network, .bluetooth] : [.network]
        let trust = (try? machine.trust.read()) ?? TrustStore()
        let trusted = trust.trustedPeers(named: text)
        if let key = try TrustedSelection.onlyKey(among: trusted, selectedBy: text, in: trust) {
            let destination = try await selection.destination(
                of: key.fingerprint, named: key, selectedBy: text, on: node
            ) {
                .direct(try await node.find(key.id.hex, timeout: SearchTimes.connection, on: media).destination)
            }
            if case .direct(let peer) = destination { return peer }
        }
        let found: NearbyPeer
        do {
            found = try await node.find(text, timeout: SearchTimes.connection, on: media, knownAs: trust.peersListed(as: text))
        } catch NodeError.ambiguous(let text, let peers) {
            found = try selection.requireOne(selectedBy: text, among: peers)
        }
        if PeerID(hex: text) == nil { try trust.requireUnambiguous(found.name, found.id, selectedBy: text) }
        return found.destination
    }
}

extension PeerResolver.Destination {
    /// The id of the peer and the name that it has there; nil for an address alone, and for everyone.
    var peer: (id: PeerID, name: DisplayName)? {
        switch self {
        case .direct(let peer):
            if let id = peer.id, let name = peer.name { (id, name) } else { nil }
        case .mesh(_, let peer): (peer.id, peer.name)
        case .node(let contact): (contact.id, contact.name)
        case .everyone: nil
        }
    }
}
