import FoundationEssentials
import Nearshare
import NearshareInterfaces
import NearshareTestTraits
import Testing

@testable import NearshareService

@Suite("the default port", .leavesNothing) struct DefaultPortTests {
    private let stage = ServiceStage()

    /// The settings of two nodes of one user.
    private func settings() throws -> (NodeSettings, NodeSettings) {
        let user = try stage.user("anna")
        return (try user.settings(), try user.settings())
    }

    @Test func `a second node falls back to a free port, and both are announced at theirs`() async throws {
        let settings = try settings()
        let segment = stage.segment
        try await withNode(settings.0) { first in
            let one = try first.listen(onPort: nil, joinsMesh: false)
            #expect(one.port == Node.defaultPort)
            try await withNode(settings.1) { second in
                let two = try second.listen(onPort: nil, joinsMesh: false)
                #expect(two.port != Node.defaultPort)
                var ports: Set<UInt16> = []
                let browser = segment.join(host: "10.0.0.2")
                for try await event in try browser.browse(for: .nearshare, interface: nil) {
                    if case .seen(let sighting) = event { ports.insert(sighting.address.port) }
                    if ports.count == 2 { break }
                }
                #expect(ports == [one.port, two.port])
                second.beginShutdown()
            }
            first.beginShutdown()
        }
    }

    @Test func `a port that the user has chosen is not replaced by another one`() async throws {
        let settings = try settings()
        try await withNode(settings.0) { first in
            _ = try first.listen(onPort: 4711, joinsMesh: false)
            try await withNode(settings.1) { second in
                #expect(throws: NodeError.self) { try second.listen(onPort: 4711, joinsMesh: false) }
                second.beginShutdown()
            }
            first.beginShutdown()
        }
    }

    @Test func `the files for ufw and firewalld, the help and the manual name the port`() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        for path in [
            "packaging/ufw/nearshare", "packaging/firewalld/nearshare.xml", "docs/decisions/default-port.md",
            "man/nearshare-receive.1", "man/nearshare-mesh.1", "Sources/App/NearshareCLI/Options/ReceivingOptions.swift",
        ] {
            let text = try String(contentsOf: root.appending(path: path), encoding: .utf8)
            #expect(text.contains("\(Node.defaultPort)"), "\(path)")
        }
    }

    @Test func `the process that has the port is named where it is one of this user`() {
        let own = Node.fallbackText(port: 40_000, usedBy: 4711)
        #expect(own.hasPrefix("port 29742 is in use by another nearshare of this user (process 4711); listening on 40000"))
        #expect(own.hasSuffix("end that process and start again"))
        #expect(
            Node.fallbackText(port: 40_000, usedBy: nil).contains(
                "by another nearshare or by another program; listening on 40000"))
    }

    @Test func `a peer that is found but does not answer leads to its firewall`() throws {
        let peer = PeerDestination(
            addresses: [LinkAddress(host: "10.0.0.9", port: 29742)], id: PeerID(bytes: [UInt8](repeating: 1, count: 8)),
            name: try DisplayName("anna"))
        let failure = CommandFailure(NodeError.timedOut("timed out connecting to 10.0.0.9:29742"), connectingTo: peer)
        #expect(failure.status == .timedOut)
        for part in [
            "anna", "10.0.0.9:29742", "a firewall there may drop it", "sudo nearshare doctor", "sudo ufw allow 29742/tcp",
        ] {
            #expect(failure.message.contains(part))
        }
        let chosen = PeerDestination(
            addresses: [LinkAddress(host: "10.0.0.9", port: 445)], id: peer.id, name: try DisplayName("anna"))
        let other = CommandFailure(NodeError.timedOut("timed out"), connectingTo: chosen)
        #expect(other.message.contains("sudo nearshare doctor") && !other.message.contains("445"))
        // A port that the user has typed was not found by discovery, and may be wrong.
        let typed = CommandFailure(
            NodeError.timedOut("timed out"), connectingTo: PeerDestination(addresses: peer.addresses))
        #expect(typed.message.hasPrefix("timed out; check the address, that `nearshare receive` runs there, that port 29742"))
        #expect(!typed.message.contains("ufw allow"))
    }

    @Test func `this machine at a given address is a wrong argument, and in the place of a peer another key`() throws {
        let error = NodeError.identityMismatch(
            "the peer at this address is this machine itself, or has its key; connect to another peer")
        #expect(error.isOwnKey && CommandFailure(error).status == .notTrusted)
        let given = PeerDestination(addresses: [LinkAddress(host: "10.0.0.9", port: 29742)])
        #expect(CommandFailure(error, connectingTo: given).status == .usage)
        let peer = PeerDestination(
            addresses: given.addresses, id: PeerID(bytes: [UInt8](repeating: 1, count: 8)), name: try DisplayName("anna"))
        #expect(CommandFailure(error, connectingTo: peer).status == .notTrusted)
    }

    @Test func `a network that this machine does not reach leads to this machine`() {
        let peer = PeerDestination(addresses: [LinkAddress(host: "10.0.0.9", port: 29742)])
        let failure = CommandFailure(
            NodeError(LinkError(.networkUnreachable, "could not connect to 10.0.0.9:29742: network is unreachable")),
            connectingTo: peer)
        #expect(failure.status == .peerNotFound)
        #expect(failure.message.contains("network is unreachable; this machine has no way there"))
        #expect(!failure.message.contains("firewall"))
    }
}
