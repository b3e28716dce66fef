import NearshareBase
import NearshareMesh
import NearshareTesting
import Testing

@Suite struct MeshAnnouncementTests {
    private static let key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
    private static let whole = wire(
        "01 03 416461  02 20 \(key)  03 20 \(key)  04 10 0101010101010101 0202020202020202  05 05 0003000001  06 05 7534707275")

    @Test func `an announcement has the bytes of its format`() throws {
        let announcement = MeshSamples.announcements[1]
        #expect(try announcement.encoded() == Self.whole)
        #expect(try MeshAnnouncement(decoding: Self.whole[...]) == announcement)
    }

    @Test(arguments: MeshSamples.announcements) func `an announcement is decoded as it was encoded`(
        _ announcement: MeshAnnouncement
    ) throws {
        #expect(try MeshAnnouncement(decoding: try announcement.encoded()[...]) == announcement)
    }

    @Test func `a truncated announcement is decoded only where it ends between two fields`() throws {
        // Behind the third field all that is required is there; and a lone byte behind a field is ignored.
        let ends = [73, 91, 98, 105].flatMap { [$0, $0 + 1] }
        for length in Self.whole.indices {
            let announcement = try? MeshAnnouncement(decoding: Self.whole[..<length])
            #expect((announcement != nil) == ends.contains(length), "cut to \(length)")
        }
    }

    @Test("R7: a value that does not fit into its field is not sent") func bounds() throws {
        var announcement = MeshSamples.announcements[0]
        announcement.nickname = String(repeating: "n", count: 256)
        #expect(throws: MalformedInput.self) { try announcement.encoded() }
        announcement.nickname = "n"
        announcement.neighbours = [PeerID](repeating: MeshSamples.sender, count: 40)
        #expect(try MeshAnnouncement(decoding: try announcement.encoded()[...]).neighbours?.count == 10)
    }

    @Test("T1: a name is transported as claimed, and displayed safely") func claimedName() throws {
        let name = "a\u{1b}[2J\u{202e}b\n"
        let bytes = wire("01 0a") + Array(name.utf8) + Self.whole[5...]
        let announcement = try MeshAnnouncement(decoding: bytes[...])
        #expect(announcement.nickname == name)
        #expect(TerminalText.escaped(announcement.nickname) == #"a\u{1b}[2J\u{202e}b\u{a}"#)
    }

    @Test("P11: a name that is not UTF-8 is rejected") func invalidUTF8() {
        #expect(throws: MalformedInput.self) {
            try MeshAnnouncement(decoding: (wire("01 02 c0af") + Self.whole[5...])[...])
        }
    }

    @Test("M1: changed announcements are rejected or understood", arguments: 0..<1000 as Range<UInt64>)
    func mutation(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        guard let read = try? MeshAnnouncement(decoding: Self.whole.mutated(using: &random)[...]) else { return }
        #expect(try MeshAnnouncement(decoding: try read.encoded()[...]) == read, "seed \(seed)")
    }
}
