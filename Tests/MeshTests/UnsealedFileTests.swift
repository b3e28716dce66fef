import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareMesh

/// Files that every relay can read: for everyone, and for apps that take no others.
@Suite("files that are not sealed") struct UnsealedFileTests {
    private let file = MeshFile(name: "a.bin", mediaType: "application/octet-stream", content: [UInt8](0..<200)[...])

    private func victim(knowing peer: UntrustedPeer, _ capabilities: MeshCapabilities?) throws -> AttackedRouter {
        var victim = AttackedRouter(links: 1)
        victim.receive(try peer.announcement(at: victim.now, capabilities: capabilities))
        return victim
    }

    @Test("a file for an old app is signed, directed to it, in a phone's fragments, and needs no session")
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
        var compressor = PayloadCompressor()
        let keys = LocalIdentity(seed: [UInt8](repeating: 7, count: LocalIdentity.seedByteCount))
        #expect(frame.packet.type == .fileTransfer && frame.packet.recipient == old.id && frame.packet.version == .v2)
        #expect(frame.isSigned(by: keys.signingKey.publicKey, using: &compressor))
        #expect(try MeshFile(decoding: frame.packet.payload).content == file.content)
        #expect(victim.events.contains { if case .fileSendEnded(_, .sent) = $0 { true } else { false } })
    }

    @Test(
        "a file whose receiver goes out of reach, or leaves, before all of it was sent is not reported as sent",
        arguments: [false, true])
    func receiverLost(leaves: Bool) throws {
        let old = UntrustedPeer(seed: 722)
        var victim = try victim(knowing: old, nil)
        let content = (0..<60_000).map { UInt8(truncatingIfNeeded: $0 &* $0 >> 7) }
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

    @Test("no phone reassembles more than 256 fragments of such a file")
    func tooLarge() throws {
        let old = UntrustedPeer(seed: 722)
        var victim = try victim(knowing: old, nil)
        var random = SeededRandom(seed: 1)
        let large = MeshFile(name: "a", mediaType: "application/octet-stream", content: random.bytes(120_000)[...])
        victim.act { router, now in
            #expect(throws: MeshSendError.self) { try router.sendFile(large, to: old.id, isSealed: false, now: now) }
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

@Suite("sync of files and fragments") struct FileSyncTests {
    private let now = MonotonicInstant(nanoseconds: 1_000_000_000)
    private let link = MeshLinkID(rawValue: 1)
    private let wall = WallTime(milliseconds: 100_000_000)

    private func packet(_ type: MeshPacketType, _ number: UInt64, sender: UInt8 = 8, payload: [UInt8] = [1]) throws -> MeshFrame
    {
        try MeshFrame(
            MeshPacket(type: type, timestamp: 99_999_000 + number, sender: PeerID(fitting: [sender]), payload: payload[...]))
    }

    private func fragment(_ id: UInt8, _ index: UInt8) throws -> MeshFrame {
        try packet(.fragment, UInt64(index), payload: [id, 0, 0, 0, 0, 0, 0, 0, 0, index, 0, 9, 0x22, 5])
    }

    private func answer(
        _ sync: inout PublicSync, _ wanted: MeshSyncRequest.Wanted?, having: [MeshFrame] = [], ids: [MeshFragment.ID]? = nil,
        on link: UInt64 = 1
    ) -> [MeshPacket] {
        let hashes = having.map { MeshPacketID(of: $0.packet).filterHash }
        let request = MeshSyncRequest(filter: GolombFilter(hashes: hashes), wanted: wanted, fragmentIDs: ids)
        return sync.answer(request, on: MeshLinkID(rawValue: link), now: now).map(\.packet)
    }

    @Test("a phone gets the kinds that it asks for, without those that it has")
    func kinds() throws {
        var sync = PublicSync()
        let fragments = [try fragment(1, 0), try fragment(1, 1), try fragment(2, 0)]
        let file = try packet(.fileTransfer, 5)
        for frame in fragments + [file, try packet(.message, 6), try packet(.announce, 7)] { sync.insert(frame, from: link) }
        #expect(Set(answer(&sync, nil).map(\.type)) == [.announce, .message])
        #expect(answer(&sync, .files).map(\.type) == [.fileTransfer])
        #expect(answer(&sync, .files, having: [file]).isEmpty)
        #expect(answer(&sync, .fragments).count == 3)
        #expect(answer(&sync, .fragments, having: [fragments[0]]).count == 2)
        let set = try MeshFragment(decoding: fragments[0].packet.payload).id
        let missing = answer(&sync, .fragments, having: [fragments[1]], ids: [set])
        #expect(missing.map(\.payload) == [fragments[0].packet.payload])
    }

    @Test("M6: fragments and files are bounded, expire, and push out no text")
    func bounds() throws {
        var sync = PublicSync()
        sync.insert(try packet(.message, 1, sender: 9), from: link)
        for number in 0..<3_000 as Range<UInt64> {
            sync.insert(try packet(.fragment, number, payload: [UInt8](repeating: UInt8(number % 251), count: 400)), from: link)
        }
        for number in 0..<100 as Range<UInt64> { sync.insert(try packet(.fileTransfer, number), from: link) }
        #expect(sync.fragments.count <= 2_048 && sync.fragments.byteCount <= 2 << 20)
        #expect(sync.files.count == 8)
        #expect(sync.store.count == 1)
        // An answer is bounded, too.
        #expect(answer(&sync, [.fragments, .files, .messages]).count <= 64 + 4 + 1)
        sync.removePeer(PeerID(fitting: [8]))
        #expect(sync.files.count == 0)
        sync.expire(now: WallTime(milliseconds: wall.milliseconds + 16 * 60_000))
        #expect(sync.fragments.count == 0 && sync.store.count == 1)
    }
}
