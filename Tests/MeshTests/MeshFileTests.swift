import NearshareBase
import NearshareMesh
import NearshareTesting
import Testing

@Suite struct MeshFileTests {
    private static let whole = wire("01 0005 612e747874  02 0004 00000003  03 000a 746578742f706c61696e  04 00000003 010203")

    @Test func `a file has the bytes of its format`() throws {
        #expect(try MeshSamples.files[0].encoded() == Self.whole)
        #expect(try MeshFile(decoding: Self.whole[...]) == MeshSamples.files[0])
    }

    @Test(arguments: MeshSamples.files) func `a file is decoded as it was encoded`(_ file: MeshFile) throws {
        #expect(try MeshFile(decoding: try file.encoded()[...]) == file)
    }

    @Test("R12: a truncated file is rejected") func truncation() {
        for length in Self.whole.indices {
            #expect(throws: MalformedInput.self, "cut to \(length)") { try MeshFile(decoding: Self.whole[..<length]) }
        }
    }

    @Test func `content in several fields is joined`() throws {
        let bytes = wire("04 00000001 01  7e 0002 ffff  04 00000000  04 00000002 0203")
        let file = try MeshFile(decoding: bytes[...])
        #expect(file == MeshFile(name: nil, mediaType: nil, content: [1, 2, 3]))
    }

    @Test func `content with the two-byte length of older apps is decoded`() throws {
        #expect(try MeshFile(decoding: wire("04 0002 0102")[...]).content == [1, 2])
        // Where four bytes of a length make sense, they are one.
        #expect(try MeshFile(decoding: wire("04 00000002 0102")[...]).content == [1, 2])
    }

    @Test("R1, R7: at most 5 MiB, announced or sent") func bounds() throws {
        let largest = [UInt8](repeating: 7, count: MeshFile.maximumContentByteCount)
        let encoded = try MeshFile(name: "a", mediaType: "b", content: largest[...]).encoded()
        #expect(try MeshFile(decoding: encoded[...]).content.count == largest.count)
        let larger = MeshFile(name: "a", mediaType: "b", content: (largest + [7])[...])
        #expect(throws: MalformedInput.self) { try larger.encoded() }
        let pieces = wire("04 00500000") + largest + wire("04 00000001 07")
        #expect(throws: MalformedInput.self) { try MeshFile(decoding: pieces[...]) }
        for size in ["0004 00500001", "0004 ffffffff", "0008 0000000100000000", "0008 ffffffffffffffff"] {
            #expect(throws: MalformedInput.self) { try MeshFile(decoding: wire("02 \(size) 04 00000001 07")[...]) }
        }
    }

    @Test("a peer state has a limit on fragments, or none where the field is malformed, repeated or missing") func peerState()
        throws
    {
        let key = [UInt8](repeating: 7, count: 32)
        let plain = MeshPeerState(capabilities: [.privateMedia], signingKey: key)
        let limited = MeshPeerState(capabilities: [.privateMedia], signingKey: key, fragmentLimit: 0x1234)
        #expect(limited.encoded == plain.encoded + [0x03, 0x02, 0x12, 0x34])
        #expect(try MeshPeerState(decoding: limited.encoded[...]) == limited)
        for field in [
            [0x03, 0x02, 0, 0], [0x03, 0x01, 9], [0x03, 0x03, 0, 1, 2], [0x03, 0], [0x03, 0x02, 1, 0, 0x03, 0x02, 1, 0], [],
        ]
            as [[UInt8]]
        {
            #expect(try MeshPeerState(decoding: (plain.encoded + field)[...]) == plain, "\(field)")
        }
    }

    @Test("message ids are upper-case UUIDs, also those of further parts, which are the same each time") func messageIDs()
        throws
    {
        let id = DerivedMessageID.uuid(from: [UInt8](repeating: 0xff, count: 16))
        #expect(id == "FFFFFFFF-FFFF-4FFF-BFFF-FFFFFFFFFFFF")
        let parts = (1...3).map { DerivedMessageID.idOfPart($0, of: id) }
        #expect(Set(parts).count == 3 && parts == (1...3).map { DerivedMessageID.idOfPart($0, of: id) })
        #expect(
            try parts.allSatisfy {
                try #/[0-9A-F]{8}-[0-9A-F]{4}-4[0-9A-F]{3}-[89AB][0-9A-F]{3}-[0-9A-F]{12}/#.wholeMatch(in: $0) != nil
            })
    }

    @Test("M1: changed files are rejected or understood", arguments: 0..<1000 as Range<UInt64>)
    func mutation(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        guard var read = try? MeshFile(decoding: Self.whole.mutated(using: &random)[...]) else { return }
        // A size is always sent.
        read.declaredSize = read.declaredSize ?? UInt64(read.content.count)
        #expect(try MeshFile(decoding: try read.encoded()[...]) == read, "seed \(seed)")
    }
}
