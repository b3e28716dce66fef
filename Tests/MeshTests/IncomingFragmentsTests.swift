import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareCrypto
@testable import NearshareMesh

@Suite struct IncomingFragmentsTests {
    private let now = MonotonicInstant(nanoseconds: 1_000_000_000)
    private let link = MeshLinkID(rawValue: 1)
    private let id = MeshFragment.ID(rawValue: 1)
    private let peer: AuthenticatedPeer

    init() throws {
        var random = SeededRandom(seed: 6)
        peer = AuthenticatedPeer(key: LocalIdentity(seed: random.bytes(LocalIdentity.seedByteCount)).agreementKey.publicKey)
    }

    /// The fragments of a packet of 30 bytes.
    private func fragments(of type: MeshPacketType = .noiseEncrypted, chunk: Int = 10) throws -> [MeshFragment] {
        let fragmentation = try MeshFragmentation(
            MeshPacket(type: type, timestamp: 1, sender: peer.id, payload: []), frame: [UInt8](repeating: 1, count: 30),
            id: id, chunkByteCount: chunk)
        return try (0..<fragmentation.count).map { try MeshFragment(decoding: fragmentation[$0].payload) }
    }

    /// Fragments of which a file is expected, after its offer was accepted.
    private func incoming() throws -> (IncomingFragments, MeshFileKey) {
        var incoming = IncomingFragments(limits: FragmentAssembler.Limits())
        let file = MeshFile(name: "a", mediaType: "a/b", content: [UInt8](repeating: 7, count: 60)[...])
        let key = MeshFileKey(.init(ofEncoded: try file.encoded()[...]), with: peer.id)
        let offer = MeshFileOffer(of: file, id: key.file, fragmentCount: 3, fragmentID: id)
        _ = incoming.receive(offer, from: peer, now: now)
        _ = incoming.files.accept(key, timeout: .seconds(900), now: now)
        return (incoming, key)
    }

    @Test func `the progress of a file follows its fragments`() throws {
        var (incoming, key) = try incoming()
        let fragments = try fragments()
        for (index, fragment) in fragments.enumerated() {
            switch incoming.add(fragment, from: peer.id, on: link, now: now) {
            case .stored(let progress): #expect(progress?.received == index + 1 && progress?.file == key.file)
            case .complete(let packet, let progress):
                #expect(packet.count == 30 && progress?.received == 3 && index == 2)
            case .rejected: Issue.record("rejected \(index)")
            }
        }
        #expect(incoming.finish(fragments[2], from: peer.id, isGenuine: true, trusting: link) == nil)
        #expect(incoming.assembler.count == 0)
    }

    @Test("M4: fragments that contradict the offer of a file are no progress of it")
    func forged() throws {
        var (incoming, key) = try incoming()
        for fragment in try fragments(chunk: 2).prefix(2) + fragments(of: .message).prefix(1) {
            guard case .stored(progress: nil) = incoming.add(fragment, from: peer.id, on: link, now: now) else {
                Issue.record("a forged fragment counts")
                return
            }
        }
        guard case .stored(let progress?) = incoming.add(try fragments()[0], from: peer.id, on: link, now: now) else {
            Issue.record("the genuine fragment does not count")
            return
        }
        #expect(progress.received == 1 && progress.file == key.file)
    }
}
