import NearshareBase
import NearshareMesh
import NearshareTesting
import Testing

@Suite struct MeshFragmentTests {
    private func plan(_ count: Int, chunk: Int, version: MeshPacket.Version = .v1) throws -> MeshFragmentation {
        try MeshFragmentation(
            MeshSamples.packets[0], frame: [UInt8](repeating: 7, count: count), id: MeshSamples.fragmentID,
            chunkByteCount: chunk)
    }

    @Test func `a fragment has the bytes of its format`() throws {
        let fragment = try MeshFragment(decoding: wire("0102030405060708 0002 0005 22 aabb")[...])
        #expect(fragment.id == MeshSamples.fragmentID && fragment.originalType == .fileTransfer)
        #expect(fragment.index == 2 && fragment.total == 5 && fragment.slice == [0xaa, 0xbb])
        // Three slices: the second of them.
        #expect(try plan(5, chunk: 2)[1].payload == wire("0102030405060708 0001 0003 03 0707")[...])
    }

    @Test(
        "M4: an index at or beyond the total, a total of zero, and totals above the limit are rejected",
        arguments: ["0000 0000", "0001 0001", "0005 0002", "ffff 0001", "0000 2711", "0000 ffff", "fffe ffff"])
    func refused(_ numbers: String) {
        #expect(throws: MalformedInput.self) { try MeshFragment(decoding: wire("0102030405060708 \(numbers) 22 aa")[...]) }
    }

    @Test("M4: the largest total is accepted") func largestTotal() throws {
        #expect(try MeshFragment(decoding: wire("0102030405060708 270f 2710 22 aa")[...]).index == 9_999)
    }

    @Test func `a fragment with a truncated header is rejected`() {
        let bytes = wire("0102030405060708 0002 0005 22")
        for length in bytes.indices {
            #expect(throws: MalformedInput.self) { try MeshFragment(decoding: bytes[..<length]) }
        }
        #expect(throws: Never.self) { try MeshFragment(decoding: bytes[...]) }
    }

    @Test(arguments: [(1, 454), (454, 454), (455, 454), (10_000, 1), (5_242_880, 525)])
    func `the slices of all fragments join to the frame`(count: Int, chunk: Int) throws {
        let plan = try plan(count, chunk: chunk)
        #expect(plan.count == (count + chunk - 1) / chunk)
        var joined = 0
        for index in 0..<plan.count {
            let fragment = try MeshFragment(decoding: plan[index].payload)
            #expect(fragment.index == index && fragment.total == plan.count)
            joined += fragment.slice.count
        }
        #expect(joined == count)
    }

    @Test("M4: no more fragments are made than a receiver reassembles") func tooMany() {
        #expect(throws: MalformedInput.self) { try plan(10_001, chunk: 1) }
    }

    @Test func `fragments fit into the write for which they were made`() throws {
        var packet = MeshSamples.packets[3]
        for maximumFrameByteCount in [MeshLinkProfile.smallestWrite, 182, 185, 250, 512, 1024] {
            for hops in [0, 1, 2, 3, 4, 7, 10, 63, 255] {
                for recipient in [nil, MeshSamples.recipient] {
                    packet.recipient = recipient
                    packet.route = [PeerID](repeating: MeshSamples.sender, count: hops)
                    let largest = MeshFragmentation.chunkByteCount(forLargestWrite: maximumFrameByteCount, route: packet.route)
                    guard let chunk = largest else {
                        #expect(hops > (maximumFrameByteCount < 182 ? 0 : Int(MeshPacket.maximumTTL)))
                        continue
                    }
                    let plan = try MeshFragmentation(
                        packet, frame: [UInt8](repeating: 7, count: 5000), id: MeshSamples.fragmentID, chunkByteCount: chunk)
                    #expect(try plan[0].encoded(compression: .level(1)).count <= maximumFrameByteCount)
                    var random = SeededRandom(seed: 1)
                    let incompressible = try MeshFragmentation(
                        packet, frame: random.bytes(5000), id: MeshSamples.fragmentID, chunkByteCount: chunk)
                    let reserve = maximumFrameByteCount == MeshLinkProfile.smallestWrite ? 0 : 15
                    #expect(
                        try incompressible[0].encoded().count <= maximumFrameByteCount - reserve + (recipient == nil ? -8 : 0))
                }
            }
        }
        #expect(MeshFragmentation.chunkByteCount(forLargestWrite: 512) == 454)
        #expect(MeshFragmentation.chunkByteCount(forLargestWrite: MeshLinkProfile.smallestWrite) == 63)
    }
}
