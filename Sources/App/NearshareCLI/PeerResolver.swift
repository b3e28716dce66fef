internal import Nearshare
internal import NearshareMesh
internal import NearshareService

/// Finds somebody by name, on the network or in the mesh.
struct PeerResolver: Sendable {
    enum Destination {
        case direct(PeerDestination)
        case mesh(MeshDriver, MeshPeer)
        /// Through the node of this person, which has their place in the mesh.
        case node(Person)
    }

    let machine: LocalMachine
    let voice: SendVoice
    /// nil for the best way there is.
    let via: Way?

    /// How long a name is looked for.
    private static let lookTime = Duration.seconds(5)
    /// Before the mesh is asked as well.
    private static let firstLookTime = Duration.milliseconds(1500)
    /// Those behind others, or in range of a radio, take longer to show.
    private static let meshLookTime = Duration.seconds(10)
    static let radioLookTime = Duration.seconds(15)
    /// Neighbours are connected to one by one, and one that is hardly in range takes its time.
    private static let radioMeshLookTime = Duration.seconds(30)

    /// - Parameter text: a name, the beginning of one, an id, or an address with a port.
    func locate(_ text: String, on node: Node) async throws -> Destination {
        if let address = Address.parse(text) { return .direct(PeerDestination(addresses: [address])) }
        voice.say("looking for \(TerminalText.escaped(text))…")
        voice.emit("looking", ["peer": .text(text)])
        let name = resolveGivenName(text)
        if via == .mesh {
            if let found = try await locateThroughNode(name, Self.meshLookTime) { return found }
            let mesh = node.joinMesh()
            return try await locateInMesh(name, mesh, await node.opensRadio() ? Self.radioMeshLookTime : Self.meshLookTime)
        }
        if via == .bluetooth { return try await locateDirectly(name, on: node, Self.radioLookTime, [.bluetooth]) }
        do {
            return try await locateDirectly(name, on: node, via == nil ? Self.firstLookTime : Self.lookTime, [.network])
        } catch PeerLookupError.notFound where via == nil {
            if let found = try await locateThroughNode(name, Self.lookTime) { return found }
            // Not at once: most are found directly, and then the mesh would be joined for nothing.
            let mesh = node.joinMesh()
            do {
                let time = await node.opensRadio() ? Self.meshLookTime : Self.lookTime - Self.firstLookTime
                return try await locateDirectly(name, on: node, time, [.network, .bluetooth])
            } catch let error as PeerLookupError {
                guard case .notFound = error, let found = try? await locateInMesh(name, mesh, .zero) else { throw error }
                return found
            }
        }
    }

    private func locateDirectly(
        _ name: String, on node: Node, _ time: Duration, _ media: Set<LinkAddress.Medium>
    ) async throws -> Destination {
        let peer = try await node.find(name, timeout: time, on: media)
        remember(peer.id, peer.name)
        let way = Way(peer.addresses.first?.medium ?? .network)
        voice.emit("found", ["peer": .text(peer.id.hex), "name": .text(peer.name.claimed), "via": .text(way.rawValue)])
        return .direct(peer.destination)
    }

    private func locateInMesh(_ name: String, _ mesh: MeshDriver, _ time: Duration) async throws -> Destination {
        let peer = try await mesh.find(name, timeout: time)
        remember(peer.id, peer.name)
        voice.emit(
            "found", ["peer": .text(peer.id.hex), "name": .text(peer.name.claimed), "via": .text(Way.mesh.rawValue)])
        return .mesh(mesh, peer)
    }

    /// - Returns: nil when no node runs on this machine.
    private func locateThroughNode(_ name: String, _ time: Duration) async throws -> Destination? {
        try await askRunningNode(of: machine) { door in
            guard case .people(let people) = try await door.ask(.find(name, seconds: time.inSeconds)), let person = people.first
            else { throw PeerLookupError.notFound(name, nearby: []) }
            remember(person.id, person.name)
            voice.emit(
                "found",
                ["peer": .text(person.id.hex), "name": .text(person.name.claimed), "via": .text(Way.mesh.rawValue)])
            return .node(person)
        }
    }

    /// A name that the local person has given stands for the key it was given to.
    private func resolveGivenName(_ text: String) -> String {
        guard let book = try? machine.trust.read() else { return text }
        let given = book.entries.filter { $0.value.givenName?.claimed.lowercased() == text.lowercased() }
        return given.count == 1 ? given.first!.key.peerID.hex : text
    }

    private func remember(_ id: PeerID, _ name: DisplayName) {
        // Only for completing names; nothing depends on it.
        try? RecentPeers.record([RecentPeers.Entry(id: id, name: name, lastSeen: SystemClock.wall())], in: machine.state)
    }
}
