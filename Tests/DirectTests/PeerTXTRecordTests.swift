import NearshareBase
import NearshareDirect
import NearshareTesting
import Testing

@Suite struct PeerTXTRecordTests {
    private let record = PeerTXTRecord(id: PeerID(hex: "0011223344556677")!, name: DisplayName(truncating: "Ada = 1")!)

    @Test func `a record is decoded as it was encoded`() {
        #expect(PeerTXTRecord(strings: record.strings) == record)
    }

    @Test(
        "D3, D4: encodings that no peer writes are rejected",
        arguments: [
            [], [""], ["="], ["id=0011223344556677"], ["n=Ada"], ["id=001122334455667", "n=Ada"],
            ["id=00112233445566770", "n=Ada"], ["id=../../../../../x", "n=Ada"], ["id=0011223344556677", "n="],
            ["id", "n=Ada"], ["id=0011223344556677", "n=\(String(repeating: "x", count: 64))"],
        ])
    func refused(_ strings: [String]) {
        #expect(PeerTXTRecord(strings: strings.map { Array($0.utf8) }) == nil)
    }

    @Test("P11: a name that is not UTF-8 is rejected") func invalidUTF8() {
        #expect(PeerTXTRecord(strings: [record.strings[1], Array("n=".utf8) + [0xc0, 0xaf]]) == nil)
    }

    @Test func `the first of a repeated key counts`() {
        let more = [Array("zz=1".utf8)] + record.strings + [Array("n=Eve".utf8), Array("ID=7766554433221100".utf8)]
        let read = PeerTXTRecord(strings: more)
        #expect(read?.id == record.id && read?.name == record.name)
        // A key without a value is present as well (RFC 6763, section 6.4).
        let withoutValue = [Array("m".utf8)] + record.strings + [Array("m=1".utf8)]
        #expect(PeerTXTRecord(strings: withoutValue)?.acceptsMeshLinks == false)
        let capitals = record.strings.map { string in
            Array(String(decoding: string, as: UTF8.self).replacing("id=", with: "ID=").utf8)
        }
        #expect(PeerTXTRecord(strings: capitals) == record)
    }

    @Test("R1: a record with more strings than the limit is rejected") func bounded() {
        let noise = [[UInt8]](repeating: Array("x=1".utf8), count: 16)
        #expect(PeerTXTRecord(strings: noise + record.strings) == nil)
    }

    @Test(arguments: 0..<1000 as Range<UInt64>) func `a changed record is rejected, or decoded to one that is encoded alike`(
        seed: UInt64
    ) {
        var random = SeededRandom(seed: seed)
        guard let claim = PeerTXTRecord(strings: record.strings.map { $0.mutated(using: &random) }) else { return }
        #expect(PeerTXTRecord(strings: claim.strings) == claim, "seed \(seed)")
    }
}
