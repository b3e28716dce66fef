import Nearshare
import Testing

@testable import NearshareService

@Suite("whose keys a file holds")
struct KeysOwnerTests {
    private let now = WallTime(milliseconds: 1000)
    private let anna = Fingerprint(bytes: [UInt8](repeating: 0xa1, count: 32))!
    private let ben = Fingerprint(bytes: [UInt8](repeating: 0xb2, count: 32))!

    private func name(_ text: String) throws -> DisplayName { try DisplayName(text) }

    /// Anna is known by this name.
    private func book(_ called: String = "Anna") throws -> TrustStore {
        var book = TrustStore()
        #expect(book.introduce(anna, claiming: try name("a"), as: try name(called), at: now) == true)
        return book
    }

    private func owner(_ text: String, _ fingerprint: Fingerprint, _ book: TrustStore, claiming claimed: String = "x") throws
        -> KeysOwner
    {
        try KeysOwner(named: text, of: fingerprint, claiming: try name(claimed), in: book)
    }

    @Test("a known peer, by name, id or fingerprint")
    func known() throws {
        let book = try book()
        let entry = try #require(book[anna])
        for text in ["Anna", "anna", anna.hex, anna.peerID.hex, anna.hex.uppercased()] {
            #expect(try owner(text, anna, book) == .known(entry), "\(text)")
        }
    }

    @Test("a new name is taken as it was given, an id brings the name in the file")
    func new() throws {
        #expect(try owner("Ben", ben, try book()) == .new(try name("Ben")))
        // The beginning of a known name is a name of its own.
        #expect(try owner("Ann", ben, try book()) == .new(try name("Ann")))
        for text in [ben.hex, ben.peerID.hex] {
            #expect(try owner(text, ben, try book(), claiming: "bb") == .new(try name("bb")))
        }
    }

    @Test(
        "K2: a known name, or one that looks like it, with another key is rejected, and both ids are named",
        arguments: ["Anna", "anna", "an na", "ANNA\u{a0}"])
    func clash(_ text: String) throws {
        let book = try book()
        let mismatch = #expect(throws: KeysOwner.Mismatch.self) { try owner(text, ben, book) }
        #expect(mismatch == .other(ben.peerID, known: anna.peerID, as: try name("Anna")))
        let sentence = mismatch?.sentence(about: "f") ?? ""
        #expect(sentence.contains(anna.peerID.hex) && sentence.contains(ben.peerID.hex))
    }

    @Test("K2: an id that is not the file's is rejected, also where only the end of a fingerprint differs")
    func otherID() throws {
        let near = Fingerprint(bytes: ben.bytes.dropLast() + [0])!
        for text in [anna.peerID.hex, anna.hex, near.hex] {
            #expect(throws: KeysOwner.Mismatch.self) { try owner(text, ben, try book()) }
        }
        // Nor does the id add the name of another peer.
        #expect(throws: KeysOwner.Mismatch.other(ben.peerID, known: anna.peerID, as: try name("Anna"))) {
            try owner(ben.hex, ben, try book(), claiming: "anna")
        }
    }

    @Test("a key that is known by another name is not known by two")
    func knownAs() throws {
        #expect(throws: KeysOwner.Mismatch.knownAs(try name("Anna"), anna.peerID)) { try owner("Ben", anna, try book()) }
    }

    @Test("of two that claim one name, the one with the key is meant")
    func twoOfAName() throws {
        var book = try book()
        #expect(book.introduce(ben, claiming: try name("b"), as: try name("Anna"), at: now) == true)
        #expect(try owner("anna", ben, book) == .known(try #require(book[ben])))
        #expect(try owner("anna", anna, book) == .known(try #require(book[anna])))
    }

    @Test("a blocked peer's keys are not imported, and a name that is none is told")
    func refused() throws {
        var book = try book()
        book.setBlocked(anna, to: true)
        #expect(throws: KeysOwner.Mismatch.blocked(try name("Anna"))) { try owner("Anna", anna, book) }
        for text in ["", String(repeating: "n", count: 64)] {
            #expect(throws: KeysOwner.Mismatch.noName) { try owner(text, ben, book) }
        }
    }
}
