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
        /// Time for other peers of the same name to appear; a search by name waits as long for a second one.
        static let namesakes = Duration.milliseconds(60)
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
        if id == nil, trusted.count == 1, let key = trusted.first {
            try trust.requireUnambiguous(key.name, key.id, selectedBy: text)
        }
        let known =
            id.flatMap { trust.entry(claiming: $0)?.fingerprint } ?? (trusted.count == 1 ? trusted.first?.fingerprint : nil)
        guard let fingerprint = Fingerprint(hex: text) ?? known else {
            let found = try requireTrusted(try await find(text, on: node), among: trusted, selectedBy: text)
            // The beginning of a known peer's name does not select another one (K2).
            if id == nil, let peer = found.peer { try trust.requireUnambiguous(peer.name, peer.id, selectedBy: text) }
            guard case .direct(var peer) = found else { return found }
            peer.isIDGiven = id != nil || isTagged(peer, text)
            return .direct(peer)
        }
        do {
            guard let key = trusted.first, key.fingerprint == fingerprint, id == nil else {
                return try pinned(try await find(fingerprint.peerID.hex, on: node), to: fingerprint)
            }
            let destination = try await resolveTrusted(key, selectedBy: text, on: node) {
                try await find(key.id.hex, on: node)
            }
            return try pinned(destination, to: fingerprint)
        } catch NodeError.notFound(_, let nearby) {
            // The text may be an id, the beginning of the name, or the name that the peer calls itself.
            let name = trust[fingerprint].flatMap { $0.givenName ?? ($0.isNameContested ? nil : $0.claimedName) }?.claimed
            guard let mismatch = keyMismatch(of: fingerprint.peerID, called: [name ?? text, text], among: nearby) else {
                if id == nil, let key = trusted.first { try refuseBeginning(text, of: key, among: nearby) }
                throw NodeError.notFound(text, nearby: nearby)
            }
            throw CommandFailure(.notTrusted, "nothing was sent: \(mismatch)")
        }
    }

    /// Whether a text is a peer's name with the tag of its key.
    private func isTagged(_ peer: PeerDestination, _ text: String) -> Bool {
        guard let name = peer.name, let id = peer.id else { return false }
        return TaggedName(text)?.matches(name, id) == true
    }

    /// The sentence about a peer nearby that has the name of a known one, which is not nearby (K2).
    private func keyMismatch(of id: PeerID, called names: [String], among nearby: [NearbyPeer]) -> String? {
        let wanted = Set(names.map { $0.lowercased() })
        guard let other = nearby.first(where: { wanted.contains($0.name.claimed.lowercased()) }) else { return nil }
        let former = (try? machine.trust.read())?.formerName(claiming: other.id, named: other.name)
        return
            "\(other.name.quoted(of: other.id)) is nearby, but with another key (\(other.id)"
            + "\(former.map { ", known as \($0.shown)" } ?? "")) than the one you know (\(id)); it may be another peer that claims the name, or a new machine: ask its owner, and then use its id"
    }

    /// Refuses the beginning of the name of a known peer that is away where the name of another peer nearby begins so, too: the advice of
    /// an ordinary search would name that one alone (K2).
    private func refuseBeginning(_ text: String, of key: NamedKey, among nearby: [NearbyPeer]) throws {
        let trust = try machine.trust.read()
        guard !trust.isWholeName(text, of: key.name, key.id) else { return }
        for peer in trust.unblocked(nearby) where peer.name.claimed.lowercased().hasPrefix(text.lowercased()) {
            try trust.requireUnambiguous(peer.name, peer.id, selectedBy: text)
        }
    }

    /// Finds a trusted peer by its key. Reports which one is used where other peers nearby, or other known ones, have its name (K2).
    /// - Throws: ``CommandFailure`` where the text is only the beginning of its name, or the name that it calls itself beside its local
    ///   one, and another peer nearby has it as its whole name.
    private func resolveTrusted(
        _ key: NamedKey, selectedBy text: String, on node: Node, _ find: () async throws -> Destination
    ) async throws -> Destination {
        let others = Monitor(Set<PeerID>())
        let owners = Monitor<[PeerID: DisplayName]>([:])
        let isWhole = (try? machine.trust.read())?.isWholeName(text, of: key.name, key.id) ?? true
        @Sendable func isOwner(_ id: PeerID, _ name: DisplayName) -> Bool {
            !isWhole && id != key.id && name.claimed.lowercased() == text.lowercased()
        }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            // Without discovery there is nothing to see. A second scan over Bluetooth would cost the search time.
            if transport != .mesh, transport != .bluetooth, let changes = try? await node.browse([.network]) {
                group.addTask {
                    for try await change in changes.compactMap(\.change) where change.peer.id != key.id {
                        let peer = change.peer
                        let isNear = change.isPresent && isOwner(peer.id, peer.name)
                        owners.withLock { $0[peer.id] = isNear ? peer.name : nil }
                        guard SharedName.areEqual(peer.name, key.name) else { continue }
                        others.withLock { others in
                            _ = change.isPresent ? others.insert(change.peer.id).inserted : others.remove(change.peer.id) != nil
                        }
                    }
                }
            }
            let destination = try await find()
            var nodeNotice: String?
            switch destination {
            case .direct: try await Task.sleep(for: Timeout.namesakes)
            case .mesh(let mesh, _):
                let peers = mesh.peers.filter { $0.id != key.id && SharedName.areEqual($0.name, key.name) }
                others.withLock { $0.formUnion(peers.map(\.id)) }
                for peer in mesh.peers where isOwner(peer.id, peer.name) { owners.withLock { $0[peer.id] = peer.name } }
            case .node(let contact):
                let contacts = (try? await withRunningNode(of: machine) { try await $0.contacts() }) ?? []
                nodeNotice = SharedName.notice(for: contact, among: contacts)
                let near = contacts.filter { $0.isNear && $0.software != .blueChat && isOwner($0.id, $0.name) }
                owners.withLock { owners in for peer in near { owners[peer.id] = peer.name } }
            case .everyone: break
            }
            let trust = (try? machine.trust.read()) ?? TrustStore()
            var rows: [String] = []
            for (id, name) in owners.withLock({ $0 }) {
                guard !trust.trustStatus(claiming: id, named: name).isBlocked else { continue }
                rows.append("\(name.shown)  \(id)  \(trust.trustText(claiming: id, named: name))")
            }
            guard rows.isEmpty else {
                throw CommandFailure(.peerNotFound, NodeError.ambiguity(of: text, rows: [key.idRow] + rows))
            }
            let namesakes = others.withLock { $0 }.filter { !trust.trustStatus(claiming: $0, named: key.name).isBlocked }
            let status = trust.trustStatus(of: key.fingerprint, claiming: key.name)
            let known = trust.peersListed(as: key.name.claimed).filter { id in
                id != key.id && trust.isContact(claiming: id)
            }
            let notice =
                nodeNotice ?? SharedName.notice(for: key.name, key.id, status, otherCount: namesakes.count)
                ?? SharedName.awayNotice(for: key.name, key.id, status, besideKnown: known)
            if let notice { reporter.report(.notice(notice)) }
            return destination
        }
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

    /// Refuses a new peer under a name by which the user knows several trusted peers.
    /// - Returns: the destination.
    private func requireTrusted(
        _ destination: Destination, among trusted: [NamedKey], selectedBy text: String
    ) throws(CommandFailure) -> Destination {
        let id: PeerID? =
            switch destination {
            case .direct(let peer): peer.id
            case .mesh(_, let peer): peer.id
            case .node(let contact): contact.id
            case .everyone: nil
            }
        guard !trusted.isEmpty, !trusted.contains(where: { $0.id == id }) else { return destination }
        throw CommandFailure(.peerNotFound, NameSelection.ambiguity(of: text, trusted))
    }

    /// The destination with the key that the connection must prove: an id alone does not identify a key (K4).
    private func pinned(
        _ destination: Destination, to fingerprint: Fingerprint
    ) throws(CommandFailure) -> Destination {
        switch destination {
        case .direct(var peer):
            peer.fingerprint = fingerprint
            return .direct(peer)
        case .mesh(_, let peer):
            guard peer.fingerprint == fingerprint else {
                throw CommandFailure(
                    .notTrusted,
                    "nothing was sent: \(peer.name.quoted) has the id \(peer.id.hex), but not the key of this fingerprint; check it "
                        + "with its owner")
            }
            return destination
        case .everyone: return destination
        case .node:
            // The node takes no key but that of the known peer for its id.
            guard let trust = try? machine.trust.read(), trust[fingerprint] != nil else {
                throw CommandFailure(
                    .failure,
                    "the key of an unknown peer cannot be checked through the running node; use --via lan or --via bluetooth")
            }
            return destination
        }
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
        return found.map { withLastAddress($0.destination, on: media) }
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
        if trusted.count == 1, let key = trusted.first, PeerID(hex: text) == nil {
            try trust.requireUnambiguous(key.name, key.id, selectedBy: text)
            do {
                let destination = try await resolveTrusted(key, selectedBy: text, on: node) {
                    .direct(try await node.find(key.id.hex, timeout: Timeout.connection, on: media).destination)
                }
                if case .direct(var peer) = destination {
                    peer.fingerprint = key.fingerprint
                    return peer
                }
            } catch NodeError.notFound(_, let nearby) {
                guard let mismatch = keyMismatch(of: key.id, called: [key.name.claimed, text], among: nearby) else {
                    try refuseBeginning(text, of: key, among: nearby)
                    throw NodeError.notFound(text, nearby: nearby)
                }
                throw CommandFailure(.notTrusted, mismatch)
            }
        }
        let found: NearbyPeer
        do {
            found = try await node.find(text, timeout: Timeout.connection, on: media, knownAs: idsListed(as: text))
        } catch NodeError.ambiguous(let text, let peers) {
            found = try requireOne(selectedBy: text, among: peers)
        }
        if PeerID(hex: text) == nil { try trust.requireUnambiguous(found.name, found.id, selectedBy: text) }
        return found.destination
    }

    /// The one of several peers nearby that a text selects: the only one that is not blocked, or the only one that the user has decided
    /// about, where the text is its stored name. Other keys do not take that name away, while a name that it merely claims now may be that
    /// of a new peer (K2). Reports which one is used, unless all others are blocked.
    /// - Throws: ``CommandFailure`` where there is none, or more than one, and for the tag of a blocked peer: another one with that text
    ///   as its name is not meant. A peer that only a rule has accepted counts as new: it may have come first with the name.
    func requireOne(selectedBy text: String, among peers: [NearbyPeer]) throws(CommandFailure) -> NearbyPeer {
        let trust = (try? machine.trust.read()) ?? TrustStore()
        let unblocked = peers.filter { !trust.trustStatus(claiming: $0.id, named: $0.name).isBlocked }
        let tag = TaggedName(text)
        let tagged = peers.filter { tag?.matches($0.name, $0.id) == true }
        guard tagged.allSatisfy(unblocked.contains) else { throw CommandFailure(.peerNotFound, ambiguity(of: text, peers)) }
        if unblocked.count == 1 { return unblocked[0] }
        let contacts = unblocked.filter { trust.isContact(claiming: $0.id) }
        guard contacts.count == 1, let peer = contacts.first, trust.isStoredName(text, of: peer.id),
            !tagged.contains(where: { $0.id != peer.id }),
            let name = trust.entry(claiming: peer.id)?.entry.name,
            let notice = SharedName.notice(
                for: name, peer.id, trust.trustStatus(claiming: peer.id, named: name), otherCount: unblocked.count - 1)
        else { throw CommandFailure(.peerNotFound, ambiguity(of: text, peers)) }
        reporter.report(.notice("\(notice); for another one, use its id"))
        return peer
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
            let peer = try requireOne(selectedBy: text, among: peers)
            destination = withLastAddress(peer.destination, on: media)
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
        guard media.contains(.network), let last = lastDestination(of: text, knownAs: ids) else {
            let found = try await node.find(text, timeout: timeout, on: media, knownAs: ids)
            return withLastAddress(found.destination, on: media)
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
        return withLastAddress(found, on: media)
    }

    /// The last address of a peer that the user knows, with its key.
    /// - Parameter ids: of the peers that the user knows by the text.
    private func lastDestination(of text: String, knownAs ids: Set<PeerID>) -> PeerDestination? {
        guard let id = PeerID(hex: text) ?? (ids.count == 1 ? ids.first : nil),
            let known = (try? machine.trust.read())?.entry(claiming: id),
            let address = machine.lastAddress(of: id)
        else { return nil }
        var destination = PeerDestination(addresses: [address], id: id, name: known.entry.name)
        destination.fingerprint = known.fingerprint
        return destination
    }

    /// The destination with the last address of the peer: the first one, or the second where it is not announced now.
    private func withLastAddress(_ destination: PeerDestination, on media: Set<LinkAddress.Medium>) -> PeerDestination {
        guard media.contains(.network), let id = destination.id, !destination.isLocalSend,
            let address = machine.lastAddress(of: id)
        else { return destination }
        var destination = destination
        let index = destination.addresses.contains(address) ? 0 : min(1, destination.addresses.count)
        destination.addresses.removeAll { $0 == address }
        destination.addresses.insert(address, at: index)
        return destination
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
            peer = try await mesh.find(requireOne(selectedBy: text, among: peers).id.hex, timeout: .zero)
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

    /// The message for a text that selects several peers nearby, with the trust in each.
    private func ambiguity(of text: String, _ peers: [NearbyPeer]) -> String {
        let trust = (try? machine.trust.read()) ?? TrustStore()
        let rows = peers.map { peer in
            "\(peer.name.shown)  \(peer.id)  \(trust.trustText(claiming: peer.id, named: peer.name))"
        }
        return NodeError.ambiguity(of: text, rows: rows)
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
    fileprivate var peer: (id: PeerID, name: DisplayName)? {
        switch self {
        case .direct(let peer):
            if let id = peer.id, let name = peer.name { (id, name) } else { nil }
        case .mesh(_, let peer): (peer.id, peer.name)
        case .node(let contact): (contact.id, contact.name)
        case .everyone: nil
        }
    }
}
