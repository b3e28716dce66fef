import NearshareBase
import NearshareMesh
import NearshareTesting
import Testing

@Suite struct MeshSyncTests {
    private static let whole = wire(
        "01 0001 07  02 0004 00000080  03 0001 17  04 0001 a0  05 0008 0000000000000005  06 0010 30313032303330343035303630373038"
    )

    @Test func `a sync request has the bytes of its format`() throws {
        let request = MeshSyncRequest(
            filter: try GolombFilter(parameter: 7, range: 128, bytes: [0x17]), wanted: [.fragments, .files], since: 5,
            fragmentIDs: [MeshSamples.fragmentID])
        #expect(request.encoded == Self.whole)
        #expect(try MeshSyncRequest(decoding: Self.whole[...]) == request)
        // q = 0 and seven bits: 0 0010111 is 23, and so the first difference 24.
        #expect(request.filter.values == [24])
    }

    @Test(arguments: MeshSamples.requests) func `a sync request is decoded as it was encoded`(_ request: MeshSyncRequest) throws
    {
        #expect(try MeshSyncRequest(decoding: request.encoded[...]) == request)
    }

    @Test("each member is found, and the filter is never too long", arguments: seeds(0..<100))
    func members(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let hashes = (0..<Int.random(in: 0...600, using: &random)).map { _ in random.next() }
        let parameter = Int.random(in: 1...23, using: &random)
        let byteCount = Int.random(in: 1...1024, using: &random)
        let filter = GolombFilter(hashes: hashes, parameter: parameter, byteCount: byteCount)
        #expect(filter.bytes.count <= byteCount, "seed \(seed)")
        let members = filter.values
        #expect(members.allSatisfy { $0 > 0 && $0 < filter.range }, "seed \(seed)")
        // A filter that is too long drops a tenth of its members, the oldest, twice at most.
        let capacity = min(hashes.count, GolombFilter.capacity(parameter: parameter, byteCount: byteCount))
        for hash in hashes.prefix(capacity * 8 / 10) {
            #expect(members.contains(GolombFilter.value(of: hash, range: filter.range)), "seed \(seed)")
        }
    }

    @Test(
        "R7: numbers out of bounds are rejected",
        arguments: [
            "01 0001 00  02 0004 00000080  03 0000", "01 0001 21  02 0004 00000080  03 0000",
            "01 0001 07  02 0004 00000000  03 0000",
            "01 0001 07  02 0004 00000080  03 ffff", "01 0001 07  02 0004 00000080", "01 0001 07  03 0000",
        ]) func refused(_ bytes: String)
    {
        #expect(throws: MalformedInput.self) { try MeshSyncRequest(decoding: wire(bytes)[...]) }
    }

    @Test("R7: decoding a filter of any bits ends, with no more members than bits", arguments: [UInt8(0), 0xff, 0x55, 0xfe])
    func anyBits(_ byte: UInt8) throws {
        for parameter in 1...32 {
            for range in [1, 2, 1 << 20, UInt32.max] {
                let filter = try GolombFilter(
                    parameter: parameter, range: range, bytes: [UInt8](repeating: byte, count: GolombFilter.maximumByteCount))
                #expect(filter.values.count <= 8 * GolombFilter.maximumByteCount / (parameter + 1))
            }
        }
    }

    @Test("M2: at most 60 sets of fragments can be requested") func fragmentIDs() throws {
        let list = [String](repeating: "0102030405060708", count: 3000).joined(separator: ",")
        var bytes =
            wire("01 0001 07  02 0004 00000080  03 0000  06") + [UInt8(list.utf8.count >> 8), UInt8(list.utf8.count & 0xff)]
        bytes += Array(list.utf8)
        #expect(try MeshSyncRequest(decoding: bytes[...]).fragmentIDs?.count == MeshSyncRequest.maximumFragmentIDCount)
    }

    @Test("M1: a changed request is rejected, or decoded", arguments: 0..<1000 as Range<UInt64>)
    func mutation(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        guard let read = try? MeshSyncRequest(decoding: Self.whole.mutated(using: &random)[...]) else { return }
        #expect(try MeshSyncRequest(decoding: read.encoded[...]) == read, "seed \(seed)")
        _ = read.filter.values
    }
}
