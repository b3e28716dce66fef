internal import Nearshare
internal import NearshareMesh

/// Searches for a peer by its name or id on the media of a transport: among the announcements on the network and over Bluetooth, and in
/// the mesh, by a node of its own or through the running one.
struct PeerSearch: Sendable {
    typealias Destination = PeerResolver.Destination

    let machine: LocalMachine
    let reporter: any Reporter
    /// nil for the best available one.
    let transport: Transport?
    /// Whether the mesh is searched only if the user has chosen it.
    let needsDirectPath: Bool
    /// Whether the content is a folder, or larger than the mesh carries: nearshare peers get it over a direct path only.
    let exceedsMesh: Bool
    let times: SearchTimes
    let selection: TrustedSelection
    let lastAddress: LastAddress

    /// Searches on the transport.
    /// - Throws: ``NodeError/notFound(_:nearby:)`` at the timeout, ``CommandFailure`` for a name of several peers.
    func find(_ name: String, on node: Node) async throws -> Destination {
        switch transport {
        case .mesh: return try await resolveInMeshAlone(name, on: node)
        case .bluetooth: return try await resolveDirectly(name, on: node, timeout: times.limited(SearchTimes.bluetooth))
        case .network: return try await resolveDirectly(name, on: node, timeout: times.limited(SearchTimes.network))
        case nil where needsDirectPath:
            do {
                return try await resolveDirectly(name, on: node, timeout: SearchTimes.networkFirst, media: [.network])
            } catch NodeError.notFound {
                let timeout = times.remainder(of: SearchTimes.bluetooth)
                reportSearch(name, timeout: timeout)
                return try await resolveDirectly(name, on: node, timeout: timeout)
            }
        case nil: return try await resolveOnAnyTransport(name, on: node)
        }
    }

    private func resolveOnAnyTransport(_ name: String, on node: Node) async throws -> Destination {
        do {
            return try await resolveDirectly(name, on: node, timeout: SearchTimes.networkFirst, media: [.network])
        } catch NodeError.notFound {
            if machine.localSendDevice(named: name) != nil {
                // The mesh carries nothing to LocalSend devices.
                return try await resolveDirectly(name, on: node, timeout: times.restOnNetwork)
            }
            if try await isNodeRunning(on: machine) {
                reportSearch(name, timeout: times.restOnNetwork)
                return try await resolveDirectlyOrThroughNode(name, on: node)
            }
            // Joined only now: most peers are found directly.
            let mesh = node.joinMesh()
            do {
                let timeout = await node.opensRadio() ? times.remainder(of: SearchTimes.mesh) : times.restOnNetwork
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

    /// Searches on the network and, through the running node, in the mesh at the same time. A peer that the node knows, but that is
    /// out of range or that the mesh carries the content not to, is returned only when nothing else is found: the error about it is
    /// more precise than "not found".
    private func resolveDirectlyOrThroughNode(_ name: String, on node: Node) async throws -> Destination {
        enum Search: Sendable {
            case direct(Result<Destination, any Error>)
            case throughNode(Result<Destination?, any Error>)
        }
        let found = await withTaskGroup(of: Search.self) { group -> Result<Destination, any Error> in
            group.addTask {
                do {
                    return .direct(
                        .success(try await resolveDirectly(name, on: node, timeout: times.restOnNetwork, media: [.network])))
                } catch {
                    return .direct(.failure(error))
                }
            }
            group.addTask {
                do {
                    return .throughNode(.success(try await resolveThroughNode(name, timeout: times.restThroughNode)))
                } catch {
                    return .throughNode(.failure(error))
                }
            }
            defer { group.cancelAll() }
            var unreached: Destination?
            var directFailure: (any Error)?
            var nodeFailure: (any Error)?
            for await search in group {
                switch search {
                case .direct(.success(let found)): return .success(found)
                case .throughNode(.success(.node(let contact)?))
                where !contact.isNear || (exceedsMesh && contact.software == .nearshare):
                    unreached = .node(contact)
                case .throughNode(.success(let found?)): return .success(found)
                case .throughNode(.success(nil)): break
                case .direct(.failure(let error)): directFailure = error
                case .throughNode(.failure(let error)): nodeFailure = error
                }
            }
            // The error with the peers on the network is more useful than that of the node, which lists none.
            if case NodeError.notFound(_, let nearby)? = directFailure, !nearby.isEmpty,
                (nodeFailure as? ControlFailure)?.kind == .peerNotFound
            {
                nodeFailure = directFailure
            }
            return unreached.map { .success($0) }
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

    /// Searches among the announced peers. A peer that was reached before is also tried at its last address, with or without an
    /// announcement: any host can hide the announcements of others, or forge further ones (D1, D6).
    private func search(
        _ text: String, on node: Node, timeout: Duration, media: Set<LinkAddress.Medium>
    ) async throws -> PeerDestination {
        let ids = (try? machine.trust.read())?.peersListed(as: text) ?? []
        guard media.contains(.network), let last = lastAddress.destination(of: text, knownAs: ids) else {
            let found = try await node.find(text, timeout: timeout, on: media, knownAs: ids)
            return lastAddress.inserted(into: found.destination, on: media)
        }
        let found = try await firstResult(
            of: { try await node.find(text, timeout: timeout, on: media, knownAs: ids).destination },
            {
                try await Task.sleep(for: SearchTimes.announcement)
                if (try? await node.withConnection(to: last) { _ in true }) == true { return last }
                // The other search ends earlier, and its result counts.
                try await Task.sleep(for: timeout)
                throw CancellationError()
            })
        return lastAddress.inserted(into: found, on: media)
    }

    /// Searches the mesh alone: through the running node of this machine, or else by joining the mesh. Reports that the search
    /// goes on when the peer is not found at once.
    private func resolveInMeshAlone(_ name: String, on node: Node) async throws -> Destination {
        let isRunning = try await isNodeRunning(on: machine)
        let timeout = await isRunning ? times.limited(SearchTimes.mesh) : times.inMesh(opensRadio: node.opensRadio())
        return try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                try await Task.sleep(for: SearchTimes.networkFirst)
                reportSearch(name, at: "in the mesh", timeout: timeout - SearchTimes.networkFirst)
            }
            if isRunning, let found = try await resolveThroughNode(name, timeout: timeout) { return found }
            return try await resolveInMesh(name, node.joinMesh(), timeout: timeout)
        }
    }

    private func resolveInMesh(_ name: String, _ mesh: MeshDriver, timeout: Duration) async throws -> Destination {
        let peer: MeshPeer
        let trust = (try? machine.trust.read()) ?? TrustStore()
        let ids = trust.peersListed(as: name)
        // A peer that only a rule has accepted is no contact: it may have taken the name before its owner came (K2).
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

    /// Reports that a peer was not found at once, and how long it is searched for.
    /// - Parameter place: where the peer is searched for, as the report says it.
    private func reportSearch(_ name: String, at place: String = "on the network", timeout: Duration) {
        guard timeout >= .milliseconds(500) else { return }
        let seconds = SearchTimes.shownSeconds(of: timeout)
        let shown = (try? machine.trust.read()).flatMap { trust in
            PeerID(hex: name).flatMap { trust.entry(claiming: $0)?.entry.name.shown }
        }
        reporter.report(
            .notice("\(shown ?? TerminalText.escaped(name)) is not \(place) yet; looking for \(seconds) s more…"))
    }

    private func recordFound(_ id: PeerID, _ name: DisplayName, _ transport: Transport, isLocalSend: Bool = false) {
        // Errors are ignored: only the shell's completion and advice depend on the recent peers.
        try? RecentPeers.record(
            [RecentPeers.Entry(id: id, name: name, lastSeen: SystemClock.wall(), isLocalSend: isLocalSend)], in: machine.state)
        reporter.report(.found(id, name, transport))
    }
}
