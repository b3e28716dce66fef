import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareEngine

/// A node that calls a peer of the mesh at its last address, and ends meanwhile, as that of a command with nothing to send does.
@Suite(.timeLimit(.minutes(1)), .leavesNothing) struct NeighbourCallTests {
    @Test("a node ends although the peer that it calls answers only after its end has begun", arguments: LinkKind.allCases)
    func answersLate(_ linkKind: LinkKind) async throws {
        try await withPeer(Stage(linkKind)) { stage, peer in
            try await withNode(stage.sender) { node in
                call(peer, from: node)
                _ = await peer.called.value
                node.beginShutdown()
                peer.answer()
            }
        }
    }

    @Test("a node does not wait for the answer of the peer that it calls", arguments: LinkKind.allCases)
    func neverAnswers(_ linkKind: LinkKind) async throws {
        try await withPeer(Stage(linkKind)) { stage, peer in
            var settings = stage.sender
            // Longer than the test: the call ends for another reason.
            settings.limits.connectTimeout = .seconds(600)
            try await withNode(settings) { node in
                call(peer, from: node)
                _ = await peer.called.value
            }
        }
    }

    @Test("a node ends at any moment of a call") func anyMoment() async throws {
        try await withPeer(Stage(.memory)) { stage, peer in
            peer.answer()
            for round in 0..<200 {
                try await withNode(stage.sender) { node in
                    call(peer, from: node)
                    for _ in 0..<round % 40 { await Task.yield() }
                }
            }
        }
    }

    private func call(_ peer: CalledPeer, from node: Node) {
        _ = node.joinMesh()
        node.connectMesh(to: Stage.bea.peerID) { LinkAddress(host: "127.0.0.1", port: peer.port) }
    }

    private func withPeer(_ stage: Stage, _ body: (Stage, CalledPeer) async throws -> Void) async throws {
        let peer = CalledPeer(try stage.transport.listen(port: 0, interface: stage.interface))
        let thread = try BlockingThread.start { peer.run() }
        do {
            try await body(stage, peer)
        } catch {
            Issue.record(error)
        }
        peer.close()
        await thread.join()
    }
}

/// A peer that answers the preamble of mesh links once it may, and then sends nothing.
private final class CalledPeer: Sendable {
    /// Fulfilled by the first preamble.
    let called = Promise<Void>()
    private let listener: any StreamListener
    private let mayGoOn = Monitor((answer: false, end: false))

    init(_ listener: any StreamListener) { self.listener = listener }

    var port: UInt16 { listener.port }

    /// Lets it answer from now on.
    func answer() { mayGoOn.update { $0.answer = true } }

    func close() {
        mayGoOn.update { $0.end = true }
        listener.close()
    }

    /// Serves one link after the other, until it is closed.
    func run() {
        while let link = try? listener.accept() {
            serve(link)
            link.close()
        }
    }

    private func serve(_ link: any StreamLink) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 10, alignment: 1)
        defer { buffer.deallocate() }
        guard let count = try? link.read(into: buffer), count > 0 else { return }
        called.fulfil()
        guard mayGoOn.wait({ state in state.answer || state.end ? state.answer : nil }) else { return }
        guard (try? LinkDemultiplexer.write(Preamble.supportedMesh.encoded, to: link)) != nil else { return }
        while let count = try? link.read(into: buffer), count > 0 {}
    }
}
