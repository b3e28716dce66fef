internal import Nearshare
internal import NearshareMesh

/// Decides which of several peers of a name is meant, by the user's trust in them, and reports which one is used (K2).
struct TrustedSelection: Sendable {
    typealias Destination = PeerResolver.Destination

    /// Time for other peers of the same name to appear; a search by name waits as long for a second one.
    private static let namesakeTime = Duration.milliseconds(60)

    private let machine: LocalMachine
    private let reporter: any Reporter
    /// The transport of the search; nil for the best available one.
    private let transport: Transport?

    init(on machine: LocalMachine, reporter: any Reporter, transport: Transport?) {
        self.machine = machine
        self.reporter = reporter
        self.transport = transport
    }

    // MARK: Trusted peers

    /// The key that a text means by its name alone.
    /// - Parameter trusted: the trusted peers that the text selects.
    /// - Returns: nil for an id, and where there is no trusted peer, or more than one.
    /// - Throws: ``ControlFailure`` for a beginning that other known peers' names have as well.
    static func onlyKey(
        among trusted: [NamedKey], selectedBy text: String, in trust: TrustStore
    ) throws(ControlFailure) -> NamedKey? {
        guard PeerID(hex: text) == nil, trusted.count == 1, let key = trusted.first else { return nil }
        try trust.requireUnambiguous(key.name, key.id, selectedBy: text)
        return key
    }

    /// Finds the owner of a key, which the connection must prove.
    /// - Parameters:
    ///   - key: the trusted peer whose name the text is; nil for an id or a fingerprint.
    ///   - failurePrefix: the beginning of the message about a peer nearby that has the name, but another key.
    ///   - find: searches for the id of the key.
    /// - Throws: ``CommandFailure`` where another peer nearby may be meant, or claims the name;
    ///   ``NodeError/notFound(_:nearby:)`` with the text.
    func destination(
        of fingerprint: Fingerprint, named key: NamedKey?, selectedBy text: String, on node: Node,
        failurePrefix: String = "", _ find: () async throws -> Destination
    ) async throws -> Destination {
        do {
            guard let key else { return try pinned(try await find(), to: fingerprint) }
            return try pinned(try await findAmongNamesakes(key, selectedBy: text, on: node, find), to: fingerprint)
        } catch NodeError.notFound(_, let nearby) {
            let trust = (try? machine.trust.read()) ?? TrustStore()
            if let mismatch = Self.keyMismatch(of: fingerprint, selectedBy: text, among: nearby, in: trust) {
                throw CommandFailure(.notTrusted, failurePrefix + mismatch)
            }
            if let key { try Self.refuseBeginning(text, of: key, among: nearby, in: trust) }
            throw NodeError.notFound(text, nearby: nearby)
        }
    }

    /// The sentence about a peer nearby that has the name of a known one, which is not nearby (K2); nil where there is none.
    /// - Parameter text: an id, the name, the beginning of it, or the name that the peer calls itself.
    static func keyMismatch(
        of fingerprint: Fingerprint, selectedBy text: String, among nearby: [NearbyPeer], in trust: TrustStore
    ) -> String? {
        let name = trust[fingerprint].flatMap { $0.givenName ?? ($0.isNameContested ? nil : $0.claimedName) }
        let wanted = Set([name?.claimed ?? text, text].map { $0.lowercased() })
        guard let other = nearby.first(where: { wanted.contains($0.name.claimed.lowercased()) }) else { return nil }
        let former = trust.formerName(claiming: other.id, named: other.name)
        return
            "\(other.name.quoted(of: other.id)) is nearby, but with another key (\(other.id)"
            + "\(former.map { ", known as \($0.shown)" } ?? "")) than the one you know (\(fingerprint.peerID)); it may be another peer that claims the name, or a new machine: ask its owner, and then use its id"
    }

    /// Refuses the beginning of the name of a known peer that is away where the name of another peer nearby begins so, too: the advice of
    /// an ordinary search would name that one alone (K2).
    private static func refuseBeginning(
        _ text: String, of key: NamedKey, among nearby: [NearbyPeer], in trust: TrustStore
    ) throws(ControlFailure) {
        guard !trust.isWholeName(text, of: key.name, key.id) else { return }
        for peer in trust.unblocked(nearby) where peer.name.claimed.lowercased().hasPrefix(text.lowercased()) {
            try trust.requireUnambiguous(peer.name, peer.id, selectedBy: text)
        }
    }

    /// Finds a trusted peer by its key. Reports which one is used where other peers nearby, or other known ones, have its name (K2).
    /// - Throws: ``CommandFailure`` where the text is only the beginning of its name, or the name that it calls itself beside its local
    ///   one, and another peer nearby has it as its whole name.
    private func findAmongNamesakes(
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
            case .direct: try await Task.sleep(for: Self.namesakeTime)
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

    /// The destination with the key that the connection must prove: an id alone does not identify a key (K4).
    func pinned(_ destination: Destination, to fingerprint: Fingerprint) throws(CommandFailure) -> Destination {
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

    // MARK: Several peers of a name

    /// Refuses a new peer under a name by which the user knows several trusted peers.
    /// - Returns: the destination.
    func requireTrusted(
        _ destination: Destination, among trusted: [NamedKey], selectedBy text: String
    ) throws(CommandFailure) -> Destination {
        let id = destination.peer?.id
        guard !trusted.isEmpty, !trusted.contains(where: { $0.id == id }) else { return destination }
        throw CommandFailure(.peerNotFound, NameSelection.ambiguity(of: text, trusted))
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

    /// The message for a text that selects several peers nearby, with the trust in each.
    private func ambiguity(of text: String, _ peers: [NearbyPeer]) -> String {
        let trust = (try? machine.trust.read()) ?? TrustStore()
        let rows = peers.map { peer in
            "\(peer.name.shown)  \(peer.id)  \(trust.trustText(claiming: peer.id, named: peer.name))"
        }
        return NodeError.ambiguity(of: text, rows: rows)
    }
}
