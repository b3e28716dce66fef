import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareMesh

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
        let (fragments, files) = (SyncStore.Limits.fragments, SyncStore.Limits.files)
        sync.insert(try packet(.message, 1, sender: 9), from: link)
        for number in 0..<3_000 as Range<UInt64> {
            sync.insert(try packet(.fragment, number, payload: [UInt8](repeating: UInt8(number % 251), count: 400)), from: link)
        }
        #expect(sync.fragments.count == fragments.packetCount && sync.fragments.byteCount < fragments.byteCount)
        for sender in 1...5 as ClosedRange<UInt8> {
            for number in 0..<100 as Range<UInt64> {
                sync.insert(try packet(.fileTransfer, number, sender: sender), from: link)
            }
            #expect(sync.files.count == min(Int(sender) * files.packetCountPerSender, files.packetCount))
        }
        #expect(sync.store.count == 1)
        // An answer is bounded, too.
        #expect(answer(&sync, [.fragments, .files, .messages]).count == 64 + 4 + 1)
        // Random, because packets are held compressed.
        var random = SeededRandom(seed: 1)
        let byteCount = 4_000
        for number in 3_000..<4_000 as Range<UInt64> {
            sync.insert(try packet(.fragment, number, payload: random.bytes(byteCount)), from: link)
        }
        #expect(sync.fragments.count < fragments.packetCount)
        // A full store removes 1/64 more than it needs.
        let lowest = fragments.byteCount - fragments.byteCount / 64 - 2 * byteCount
        #expect(lowest...fragments.byteCount ~= sync.fragments.byteCount)
        for sender in 1...5 as ClosedRange<UInt8> { sync.removePeer(PeerID(fitting: [sender])) }
        #expect(sync.files.count == 0)
        sync.expire(now: WallTime(milliseconds: wall.milliseconds + 16 * 60_000))
        #expect(sync.fragments.count == 0 && sync.store.count == 1)
    }
}
