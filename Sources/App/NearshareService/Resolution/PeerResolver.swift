package import Nearshare
package import NearshareMesh

/// Finds the peer that a text selects, and the transport to it: the network, Bluetooth, or the mesh.
package struct PeerResolver: Sendable {
    package enum Destination: Sendable {
        case direct(PeerDestination)
        case mesh(MeshDriver, MeshPeer)
        /// Through the running node of this user, which is in the mesh.
        case node(Contact)
        /// All peers of the mesh, in which this node has a neighbour.
        case everyone(MeshDriver)
    }

    /// Limits on the time of a search.
    private enum Timeout {
        static let network = Duration.seconds(5)
        /// On the network, before the mesh is joined as well.
        static let networkFirst = Duration.milliseconds(1_500)
        /// Peers behind others appear with a neighbour's first exchange of announcements, or with their own next one.
        static let mesh = Duration.seconds(20)
        static let bluetooth = Duration.seconds(15)
        /// Neighbours are connected to one by one, and one at the edge of the range takes its time.
        static let meshOverBluetooth = Duration.seconds(30)
        /// For a peer whose key is to be verified.
        static let connection = Duration.seconds(8)
        /// For the announcement of a known peer, before its last address is tried as well.
        static let announcement = Duration.milliseconds(500)
    }

    private let machine: LocalMachine
    private let reporter: any Reporter
    /// nil for the best available one.
    package let transport: Transport?
    /// Whether the mesh is not used unless it is chosen.
    private let needsDirectPath: Bool
    /// Whether the mesh carries the content to no peer that can be reached directly as well.
    private let exceedsMesh: Bool
    /// Time of a search, at least that of the first look at the network; nil for the usual times.
    private let searchLimit: Duration?
    private let selection: TrustedSelection
    private let lastAddress: LastAddress

    package init(
        machine: LocalMachine, reporter: any Reporter, transport: Transport?, needsDirectPath: Bool = false,
        exceedsMesh: Bool = false, searchLimit: Duration? = nil
    ) {
        self.searchLimit = searchLimit
        self.machine = machine
        self.reporter = reporter
        self.transport = transport
        self.needsDirectPath = needsDirectPath
        self.exceedsMesh = exceedsMesh
        lastAddress = LastAddress(on: machine)
        selection = TrustedSelection(on: machine, reporter: reporter, transport: transport)
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
                try await find(fingerprint.peerID.hex, on: node)
            }
        }
        let found = try selection.requireTrusted(try await find(text, on: node), among: trusted, selectedBy: text)
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

    private func idsListed(as name: String) -> Set<PeerID> { (try? machine.trust.read())?.peersListed(as: name) ?? [] }

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
        if let everyone = Contact.everyone, try await withRunningNode(of: machine, { _ in true }) == true {
            return .node(everyone)
        }
        let mesh = node.joinMesh()
        guard await mesh.awaitNeighbour(timeout: await timeoutInMesh(of: node)) else {
            throw CommandFailure(.peerNotFound, "no peers are nearby; files for everyone are not stored")
        }
        return .everyone(mesh)
    }

    private func find(_ name: String, on node: Node) async throws -> Destination {
        switch transport {
        case .mesh: return try await resolveInMeshAlone(name, on: node)
        case .bluetooth: return try await resolveDirectly(name, on: node, timeout: limited(Timeout.bluetooth))
        case .network: return try await resolveDirectly(name, on: node, timeout: limited(Timeout.network))
        case nil where needsDirectPath:
            do {
                return try await resolveDirectly(name, on: node, timeout: Timeout.networkFirst, media: [.network])
            } catch NodeError.notFound {
                let timeout = Self.remainder(of: Timeout.bluetooth, within: searchLimit)
                reportSearch(name, timeout: timeout)
                return try await resolveDirectly(name, on: node, timeout: timeout)
            }
        case nil: return try await resolveOnAnyTransport(name, on: node)
        }
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
    var mismatchTimeout: Duration {
        searchLimit ?? (transport == .bluetooth ? Timeout.bluetooth : Timeout.network)
    }

    /// Reports that another peer has answered in the place of one, which is searched for further. Its id need not be announced
    /// there: its last address may be another device's now.
    func reportOtherPeer(inPlaceOf peer: PeerDestination) {
        let name = peer.name?.shown ?? peer.id?.hex ?? ""
        let seconds = Self.shownSeconds(of: mismatchTimeout)
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
                .direct(try await node.find(key.id.hex, timeout: Timeout.connection, on: media).destination)
            }
            if case .direct(let peer) = destination { return peer }
        }
        let found: NearbyPeer
        do {
            found = try await node.find(text, timeout: Timeout.connection, on: media, knownAs: idsListed(as: text))
        } catch NodeError.ambiguous(let text, let peers) {
            found = try selection.requireOne(selectedBy: text, among: peers)
        }
        if PeerID(hex: text) == nil { try trust.requireUnambiguous(found.name, found.id, selectedBy: text) }
        return found.destination
    }

    private func resolveOnAnyTransport(_ name: String, on node: Node) async throws -> Destination {
        do {
            return try await resolveDirectly(name, on: node, timeout: Timeout.networkFirst, media: [.network])
        } catch NodeError.notFound {
            if machine.localSendDevice(named: name) != nil {
                // No mesh reaches it.
                return try await resolveDirectly(name, on: node, timeout: restOnNetwork)
            }
            if try await withRunningNode(of: machine, { _ in true }) == true {
                reportSearch(name, timeout: restOnNetwork)
                return try await resolveBesideNode(name, on: node)
            }
            // Joined only now: most peers are found directly.
            let mesh = node.joinMesh()
            do {
                let timeout =
                    await node.opensRadio() ? Self.remainder(of: Timeout.mesh, within: searchLimit) : restOnNetwork
                reportSearch(name, timeout: timeout)
                return try await resolveDirectly(name, on: node, timeout: timeout)
            } catch NodeError.notFound(let text, let nearby) {
                do {
                    return try await resolveInMesh(name, mesh, timeout: .zero)
                } catch NodeError.notFound {
                    throw NodeError.notFound(text, nearby: nearby)
                }
            }
        }
    }

    /// The time for the rest of a search, after the first one on the network: at least 0.1 s.
    /// - Parameters:
    ///   - time: the usual one.
    ///   - limit: time of the whole search; nil for the usual one.
    static func remainder(of time: Duration, within limit: Duration?) -> Duration {
        limit.map { max($0 - Timeout.networkFirst, .milliseconds(100)) } ?? time
    }

    /// The seconds of a search in its report, rounded up.
    static func shownSeconds(of timeout: Duration) -> Int64 {
        timeout.components.seconds + (timeout.components.attoseconds > 0 ? 1 : 0)
    }

    /// The time of a search on one transport: at least that of the first one on the network, and 0.1 s.
    /// - Parameters:
    ///   - time: the usual one.
    ///   - limit: time of the whole search; nil for the usual one.
    static func limited(_ time: Duration, to limit: Duration?) -> Duration {
        Timeout.networkFirst + remainder(of: time - Timeout.networkFirst, within: limit)
    }

    private func limited(_ time: Duration) -> Duration { Self.limited(time, to: searchLimit) }

    private func timeoutInMesh(of node: Node) async -> Duration {
        limited(await node.opensRadio() ? Timeout.meshOverBluetooth : Timeout.mesh)
    }

    private var restOnNetwork: Duration {
        Self.remainder(of: Timeout.network - Timeout.networkFirst, within: searchLimit)
    }

    private var restThroughNode: Duration { Self.remainder(of: Timeout.network, within: searchLimit) }

    /// Reports that a peer was not found at once, and how long it is searched for.
    /// - Parameter place: where it is searched for, for the report.
    private func reportSearch(_ name: String, _ place: String = "on the network", timeout: Duration) {
        guard timeout >= .milliseconds(500) else { return }
        let seconds = Self.shownSeconds(of: timeout)
        let shown = (try? machine.trust.read()).flatMap { trust in
            PeerID(hex: name).flatMap { trust.entry(claiming: $0)?.entry.name.shown }
        }
        reporter.report(
            .notice("\(shown ?? TerminalText.escaped(name)) is not \(place) yet; looking for \(seconds) s more…"))
    }

    /// Searches on the network and, through the running node, in the mesh at the same time. A peer that the node knows but does
    /// not reach, or not with so much, is used when nothing else is found, for the message about it.
    private func resolveBesideNode(_ name: String, on node: Node) async throws -> Destination {
        enum Search: Sendable {
            case direct(Result<Destination, any Error>)
            case throughNode(Result<Destination?, any Error>)
        }
        let found = await withTaskGroup(of: Search.self) { group -> Result<Destination, any Error> in
            group.addTask {
                do {
                    return .direct(
                        .success(try await resolveDirectly(name, on: node, timeout: restOnNetwork, media: [.network])))
                } catch {
                    return .direct(.failure(error))
                }
            }
            group.addTask {
                do {
                    return .throughNode(.success(try await resolveThroughNode(name, timeout: restThroughNode)))
                } catch {
                    return .throughNode(.failure(error))
                }
            }
            defer { group.cancelAll() }
            var away: Destination?
            var directFailure: (any Error)?
            var nodeFailure: (any Error)?
            for await search in group {
                switch search {
                case .direct(.success(let found)): return .success(found)
                case .throughNode(.success(.node(let contact)?))
                where !contact.isNear || (exceedsMesh && contact.software == .nearshare):
                    away = .node(contact)
                case .throughNode(.success(let found?)): return .success(found)
                case .throughNode(.success(nil)): break
                case .direct(.failure(let error)): directFailure = error
                case .throughNode(.failure(let error)): nodeFailure = error
                }
            }
            // The peers on the network tell whether another one has the name.
            if case NodeError.notFound(_, let nearby)? = directFailure, !nearby.isEmpty,
                (nodeFailure as? ControlFailure)?.kind == .peerNotFound
            {
                nodeFailure = directFailure
            }
            return away.map { .success($0) }
                ?? .failure(nodeFailure ?? directFailure ?? NodeError.notFound(name, nearby: []))
        }
        return try found.get()
    }

    private func resolveDirectly(
        _ name: String, on node: Node, timeout: Duration, media: Set<LinkAddress.Medium>? = nil
    ) async throws -> Destination {
        let media = media ?? Transport.media(for: transport)
        let destination: PeerDestination
        do {
            destination = try await search(name, on: node, timeout: timeout, media: media)
        } catch NodeError.ambiguous(let text, let peers) {
            let peer = try selection.requireOne(selectedBy: text, among: peers)
            destination = lastAddress.inserted(into: peer.destination, on: media)
        }
        if let id = destination.id, let name = destination.name {
            recordFound(
                id, name, Transport(destination.addresses.first?.medium ?? .network), isLocalSend: destination.isLocalSend)
        }
        return .direct(destination)
    }

    /// Searches among the announced peers. One that was reached before is tried at its last address as well, which is used without
    /// an announcement too: any host can hide the announcements of others, or forge further ones (D1, D6).
    private func search(
        _ text: String, on node: Node, timeout: Duration, media: Set<LinkAddress.Medium>
    ) async throws -> PeerDestination {
        let ids = idsListed(as: text)
        guard media.contains(.network), let last = lastAddress.destination(of: text, knownAs: ids) else {
            let found = try await node.find(text, timeout: timeout, on: media, knownAs: ids)
            return lastAddress.inserted(into: found.destination, on: media)
        }
        let found = try await firstResult(
            of: { try await node.find(text, timeout: timeout, on: media, knownAs: ids).destination },
            {
                try await Task.sleep(for: Timeout.announcement)
                if (try? await node.withConnection(to: last) { _ in true }) == true { return last }
                // The search ends before, and decides.
                try await Task.sleep(for: timeout)
                throw CancellationError()
            })
        return lastAddress.inserted(into: found, on: media)
    }

    /// Searches the mesh alone: through the running node of this machine, or through neighbours of its own. Reports that the search
    /// goes on when the peer is not found at once.
    private func resolveInMeshAlone(_ name: String, on node: Node) async throws -> Destination {
        let isRunning = try await withRunningNode(of: machine, { _ in true }) == true
        let timeout = await isRunning ? limited(Timeout.mesh) : timeoutInMesh(of: node)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                try await Task.sleep(for: Timeout.networkFirst)
                reportSearch(name, "in the mesh", timeout: timeout - Timeout.networkFirst)
            }
            if isRunning, let found = try await resolveThroughNode(name, timeout: timeout) { return found }
            return try await resolveInMesh(name, node.joinMesh(), timeout: timeout)
        }
    }

    private func resolveInMesh(_ name: String, _ mesh: MeshDriver, timeout: Duration) async throws -> Destination {
        let peer: MeshPeer
        let trust = (try? machine.trust.read()) ?? TrustStore()
        let ids = trust.peersListed(as: name)
        // A peer that only a rule has accepted may have come first with the name (K2).
        let isKnown = ids.contains { trust.isContact(claiming: $0) }
        do {
            peer = try await mesh.find(
                name, knownAs: ids, settlingTime: isKnown ? .zero : ContactDirectory.defaultSettlingTime, timeout: timeout)
        } catch NodeError.ambiguous(let text, let peers) {
            peer = try await mesh.find(selection.requireOne(selectedBy: text, among: peers).id.hex, timeout: .zero)
        }
        recordFound(peer.id, peer.name, .mesh)
        return .mesh(mesh, peer)
    }

    /// - Returns: nil when no node runs on this machine.
    private func resolveThroughNode(_ name: String, timeout: Duration) async throws -> Destination? {
        try await withRunningNode(of: machine) { client in
            let contact = try await client.find(name, timeout: timeout)
            recordFound(contact.id, contact.name, .mesh)
            return .node(contact)
        }
    }

    private func recordFound(_ id: PeerID, _ name: DisplayName, _ transport: Transport, isLocalSend: Bool = false) {
        // Only the shell's completion and advice depend on it.
        try? RecentPeers.record(
            [RecentPeers.Entry(id: id, name: name, lastSeen: SystemClock.wall(), isLocalSend: isLocalSend)], in: machine.state)
        reporter.report(.found(id, name, transport))
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
