package import NearshareBase
package import NearshareInterfaces
package import NearshareMesh

// The mesh, which a node joins through its neighbours: one driver for all its links.
extension Node {
    /// Joins the mesh through the neighbours nearby, without advertising this node: for sending.
    /// - Parameter usesRadio: also through the radio's neighbours, where the settings have one.
    package func joinMesh(usesRadio: Bool = true) -> MeshDriver {
        let mesh = startMesh(initiator: .local, invitations: nil)
        if usesRadio, settings.radio != nil {
            mesh.start { [self] in
                guard let radio = try? await openRadio() else { return }
                mesh.neighbours.runLinks(of: radio.frames)
            }
        }
        return mesh
    }

    /// Starts the node's only mesh driver, or returns the one that runs, which keeps its arguments: a node that is to receive
    /// over the mesh listens before it joins.
    func startMesh(
        initiator: NeighbourConnector.Initiator, invitations: AsyncQueue<Invitation>?
    ) -> MeshDriver {
        let (mesh, isNew) = state.withLock { state in
            if let mesh = state.mesh { return (mesh, false) }
            let mesh = MeshDriver(
                settings, nodeTasks: tasks, transferProgress, promptLimiter, invitations: invitations)
            state.mesh = mesh
            return (mesh, true)
        }
        guard isNew else { return mesh }
        start { await mesh.run() }
        if settings.discovery != nil {
            mesh.start { [self] in
                do {
                    let changes = try browseNetwork()
                    await mesh.neighbours.maintainLinks(to: changes, initiator)
                } catch {
                    // A command may end before its node has begun to browse.
                    if !state.withLock(\.isShuttingDown) { settings.log.error("\(error)") }
                }
            }
        }
        if state.withLock({ $0.isShuttingDown }) { mesh.stop() }
        return mesh
    }

    /// The link over which a peer of the mesh was heard last, as limits count it: a share of its source's rates; nil for none.
    package func linkShare(of id: PeerID) -> MeshLinkShare? { state.withLock(\.mesh)?.read { $0.linkShare(of: id) } }

    /// Connects to a peer of the mesh, unless it is a neighbour. Returns at once.
    /// - Parameter lastAddress: reads the address at which it was reached last.
    package func connectMesh(to id: PeerID, at lastAddress: () -> LinkAddress?) {
        guard let mesh = state.withLock(\.mesh), !mesh.read({ $0.isNeighbour(id) }), let address = lastAddress() else { return }
        mesh.neighbours.connect(to: id, at: address)
    }

    /// Leaves the mesh for good, announces it, and returns when the messenger and the mesh have stopped; everything else goes
    /// on. A process calls this before another one with the same key takes its place.
    /// - Throws: ``NodeError/unavailable(_:)`` when discovery is no longer available; the mesh then runs on.
    package func leaveMesh(closing listener: Listener) async throws(NodeError) {
        try listener.stopAcceptingMeshLinks()
        guard let mesh = state.withLock({ $0.mesh }) else { return }
        mesh.stop()
        _ = await mesh.ended.value
    }
}
