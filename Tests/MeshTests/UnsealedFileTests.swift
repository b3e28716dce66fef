import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareMesh

/// Files that every relay can read: broadcasts, and files for apps without support for sealed ones.
@Suite("files that are not sealed") struct UnsealedFileTests {
    private let file = MeshFile(name: "a.bin", mediaType: "application/octet-stream", content: [UInt8](0..<200)[...])

    private func victim(knowing peer: UntrustedPeer, _ capabilities: MeshCapabilities?) throws -> AttackedRouter {
        var victim = AttackedRouter(links: 1)
        victim.receive(try peer.announcement(at: victim.now, capabilities: capabilities))
        return victim
    }

    @Test("a file for an old app is signed, directed to it, in a fragment, and needs no session")
    func oldApp() throws {
        let old = UntrustedPeer(seed: 720)
        var victim = try victim(knowing: old, nil)
        victim.forgetWritten()
        victim.act { router, now in
            #expect(throws: Never.self) { try router.sendFile(file, to: old.id, isSealed: false, now: now) }
        }
        victim.run(for: .seconds(2))
        #expect(victim.written(.noiseHandshake, on: 0).isEmpty)
        let pieces = victim.written(.fragment, on: 0)
        #expect(pieces.count == 1 && pieces.allSatisfy { $0.recipient == old.id && $0.ttl == 7 })
        var assembler = FragmentAssembler(limits: .init())
        var whole: [UInt8]?
        for piece in pieces {
            let fragment = try MeshFragment(decoding: piece.payload)
            let result = assembler.add(
                fragment, from: piece.sender, on: AttackedRouter.link(0), isExpected: true, now: victim.moment.monotonic)
            if case .complete(let bytes) = result { whole = bytes }
        }
        let frame = try MeshFrame(decodingReassembled: try #require(whole))
        #expect(frame.packet.type == .fileTransfer && frame.packet.recipient == old.id && frame.packet.version == .v2)
        #expect(frame.isSigned(by: AttackedRouter.identity.signingKey.publicKey))
        #expect(try MeshFile(decoding: frame.packet.payload).content == file.content)
        #expect(victim.events.contains { if case .fileSendEnded(_, .sent) = $0 { true } else { false } })
    }

    @Test(
        "a file whose receiver goes out of reach, or leaves, before all of it was sent is not reported as sent",
        arguments: [false, true])
    func receiverLost(leaves: Bool) throws {
        let old = UntrustedPeer(seed: 722)
        var victim = try victim(knowing: old, nil)
        let content = (0..<60_000).map { UInt8(truncatingIfNeeded: $0 &* ($0 >> 7)) }
        let large = MeshFile(name: "b.bin", mediaType: "application/octet-stream", content: content[...])
        victim.act { router, now in
            #expect(throws: Never.self) { try router.sendFile(large, to: old.id, isSealed: false, now: now) }
        }
        victim.run(for: .seconds(1))
        if leaves {
            victim.receive(try old.leave(at: victim.now + 1))
        } else {
            victim.act { router, now in router.linkDown(AttackedRouter.link(0), now: now) }
        }
        victim.run(for: .seconds(10))
        let ends = victim.events.compactMap { if case .fileSendEnded(_, let outcome) = $0 { outcome } else { nil } }
        #expect(ends == [.receiverLost])
    }

    @Test("K12: no file is sent unsealed to a nearshare peer")
    func capable() throws {
        let peer = UntrustedPeer(seed: 721)
        var victim = try victim(knowing: peer, .supported)
        victim.act { router, now in
            #expect(throws: MeshSendError.sealedFilesSupported) {
                try router.sendFile(file, to: peer.id, isSealed: false, now: now)
            }
        }
        #expect(victim.written(.fragment, on: 0).isEmpty)
    }

    @Test("a file for one phone has at most the 256 fragments that it reassembles; one for everyone may have more")
    func tooLarge() throws {
        let old = UntrustedPeer(seed: 722)
        var victim = try victim(knowing: old, nil)
        var random = SeededRandom(seed: 1)
        let large = MeshFile(name: "a", mediaType: "application/octet-stream", content: random.bytes(120_000)[...])
        victim.act { router, now in
            #expect {
                try router.sendFile(large, to: old.id, isSealed: false, now: now)
            } throws: {
                if case MeshSendError.fileTooLarge = $0 { true } else { false }
            }
            #expect(throws: Never.self) { try router.sendFile(large, to: nil, now: now) }
        }
    }

    @Test("software is known by what it supports, also in later versions")
    func software() {
        let cases: [(UInt64?, MeshPeer.Software)] = [
            (nil, .other), (0, .other), (0x20, .other), (0x100, .bitchatOnAndroid), (0x500, .bitchatOnAndroid),
            (0x110, .bitchatOnAndroid), (0x329, .bitchatOnIOS), (0x729, .bitchatOnIOS), (0x300, .other), (0x700, .other),
            (0x1_0000_0300, .nearshare), (0x1_0000_0329, .nearshare),
        ]
        for (flags, software) in cases {
            #expect(MeshPeer.Software(flags.map { MeshCapabilities(rawValue: $0) }) == software, "\(flags ?? 0)")
        }
    }
}
