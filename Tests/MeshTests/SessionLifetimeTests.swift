import NearshareBase
import NearshareMesh
import Testing

/// A session with a single peer counts as secure for a limited time after an incoming message.
@Suite struct SessionLifetimeTests {
    private func pair(lifetime: Duration) -> SimulatedMesh {
        var settings = MeshRouter.Settings()
        settings.sessionLifetime = lifetime
        var mesh = SimulatedMesh(seed: 1)
        mesh.addNode("anna", settings: settings)
        mesh.addNode("ben", settings: settings)
        mesh.connect(0, 1)
        mesh.run(for: .seconds(1))
        return mesh
    }

    private func say(_ id: String, in mesh: inout SimulatedMesh) {
        let ben = mesh.nodes[1].router.id
        mesh.node(0) { try? $0.sendPrivateMessage("hello", id: id, to: ben, now: $1) }
    }

    @Test("K12: incoming messages renew a session; without them it ends, and the next text creates a new one")
    func renewal() {
        var mesh = pair(lifetime: .seconds(60))
        let (anna, ben) = (mesh.nodes[0].router.id, mesh.nodes[1].router.id)
        #expect(mesh.nodes[0].router.peersWithSession.isEmpty)
        for number in 0..<5 {
            say("\(number)", in: &mesh)
            mesh.run(for: .seconds(40))
            #expect(mesh.nodes[0].router.peersWithSession == [ben], "after \(number)")
            #expect(mesh.nodes[1].router.peersWithSession == [anna], "after \(number)")
        }
        mesh.run(for: .seconds(61))
        #expect(mesh.nodes[0].router.peersWithSession.isEmpty && mesh.nodes[1].router.peersWithSession.isEmpty)
        say("again", in: &mesh)
        mesh.run(for: .seconds(5))
        #expect(mesh.nodes[0].router.peersWithSession == [ben])
        let texts = mesh.nodes[1].events.compactMap { if case .privateMessage(_, let id, _) = $0 { id } else { nil } }
        #expect(texts == ["0", "1", "2", "3", "4", "again"])
    }
}
