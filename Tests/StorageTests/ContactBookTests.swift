import NearshareBase
import NearshareCrypto
import NearshareInterfaces
import Testing

@testable import NearshareStorage

@Suite("keys of those who are away")
struct ContactBookTests {
    /// A peer with its own keys, which depend only on the number.
    private struct Person {
        let agreementKey: AgreementPublicKey
        let signingKey: SigningPublicKey
        let name: DisplayName

        init(_ number: Int) {
            let seed = withUnsafeBytes(of: number.bigEndian) { Array($0) + [UInt8](repeating: 7, count: 24) }
            agreementKey = try! AgreementPrivateKey(seed: seed).publicKey
            signingKey = try! SigningPrivateKey(seed: seed).publicKey
            name = try! DisplayName("p\(number)")
        }

        var fingerprint: Fingerprint { Fingerprint(of: agreementKey) }
    }

    private static let crowd = (0..<ContactBook.capacity + 8).map { Person($0) }
    private let anna = Person(-1)
    private let ben = Person(-2)

    private func time(_ hours: Int64) -> WallTime { WallTime(milliseconds: 1_700_000_000_000 + hours * 3_600_000) }

    private func meet(
        _ person: Person, signingKey: SigningPublicKey? = nil, name: DisplayName? = nil, isProven: Bool = false,
        friends: Set<Fingerprint> = [], at hours: Int64 = 0, in book: inout ContactBook
    ) -> Bool {
        book.storeAnnouncedKeys(
            agreementKey: person.agreementKey, signingKey: signingKey ?? person.signingKey, name: name ?? person.name,
            isProven: isProven, isFriend: { friends.contains($0) }, at: time(hours))
    }

    private func bring(
        _ person: Person, signingKey: SigningPublicKey? = nil, friends: Set<Fingerprint> = [], in book: inout ContactBook
    ) -> Bool {
        book.recordImport(
            agreementKey: person.agreementKey, signingKey: signingKey ?? person.signingKey, name: person.name,
            isFriend: { friends.contains($0) }, at: time(0))
    }

    /// A full book of people who were met one hour after the other.
    private func fullBook(isProven: Bool = false) -> ContactBook {
        var book = ContactBook()
        for (hour, person) in Self.crowd.prefix(ContactBook.capacity).enumerated() {
            #expect(meet(person, isProven: isProven, at: Int64(hour), in: &book))
        }
        return book
    }

    @Test("who was met is found by fingerprint and by id, until forgotten")
    func meeting() {
        var book = ContactBook()
        #expect(meet(anna, in: &book))
        let entry = book.entry(of: anna.fingerprint)
        #expect(entry?.agreementKey == anna.agreementKey && entry?.signingKey == anna.signingKey)
        #expect(entry?.name == anna.name && entry?.origin == .met && entry?.since == time(0))
        #expect(book.entry(of: anna.fingerprint.peerID) == entry)
        #expect(book.entry(of: ben.fingerprint) == nil && book.entry(of: ben.fingerprint.peerID) == nil)
        #expect(book.remove(anna.fingerprint) && !book.remove(anna.fingerprint))
        #expect(book.entries.isEmpty)
    }

    @Test("meeting again is news after an hour, under another name, or with a proof; never for an hour's chatter")
    func meetingAgain() {
        var book = ContactBook()
        #expect(meet(anna, at: 0, in: &book))
        #expect(!meet(anna, at: 0, in: &book))
        #expect(meet(anna, at: 1, in: &book))
        #expect(book.entry(of: anna.fingerprint)?.lastMet == time(1) && book.entry(of: anna.fingerprint)?.since == time(0))
        #expect(meet(anna, name: ben.name, at: 1, in: &book))
        #expect(meet(anna, name: ben.name, isProven: true, at: 1, in: &book))
        // A name that was proven stays proven.
        #expect(!meet(anna, name: ben.name, at: 1, in: &book))
        #expect(book.entry(of: anna.fingerprint)?.isProven == true)
    }

    @Test("D5: a contact that was met by a clock years ahead is not the newest for good")
    func wrongClock() {
        var book = ContactBook()
        #expect(meet(anna, at: 100_000, in: &book))
        #expect(meet(anna, at: 5, in: &book))
        #expect(book.entry(of: anna.fingerprint)?.lastMet == time(5))
    }

    @Test("K2: another signing key for a known agreement key is believed only when proven")
    func changedSigningKey() {
        var book = ContactBook()
        #expect(meet(anna, in: &book))
        #expect(!meet(anna, signingKey: ben.signingKey, name: ben.name, in: &book))
        #expect(book.entry(of: anna.fingerprint)?.signingKey == anna.signingKey)
        #expect(book.entry(of: anna.fingerprint)?.name == anna.name)
        #expect(meet(anna, signingKey: ben.signingKey, isProven: true, at: 2, in: &book))
        let entry = book.entry(of: anna.fingerprint)
        #expect(entry?.signingKey == ben.signingKey && entry?.isProven == true && entry?.since == time(2))
        // And what was proven is not taken back by a mere claim.
        #expect(!meet(anna, at: 3, in: &book))
        #expect(book.entry(of: anna.fingerprint)?.signingKey == ben.signingKey)
    }

    @Test("K2: imported keys are not replaced by met ones, proven or not; importing anew replaces them")
    func importedStay() {
        var book = ContactBook()
        #expect(meet(anna, signingKey: ben.signingKey, isProven: true, in: &book))
        #expect(bring(anna, in: &book))
        let imported = book.entry(of: anna.fingerprint)
        #expect(imported?.origin == .imported && imported?.signingKey == anna.signingKey)
        #expect(!meet(anna, signingKey: ben.signingKey, name: ben.name, isProven: false, at: 50, in: &book))
        #expect(!meet(anna, signingKey: ben.signingKey, name: ben.name, isProven: true, at: 50, in: &book))
        #expect(book.entry(of: anna.fingerprint) == imported)
        #expect(bring(anna, signingKey: ben.signingKey, in: &book))
        #expect(book.entry(of: anna.fingerprint)?.signingKey == ben.signingKey)
    }

    @Test("R6: full, the one met longest ago gives way")
    func full() {
        var book = fullBook()
        // The first has come again.
        #expect(meet(Self.crowd[0], at: 5_000, in: &book))
        #expect(meet(anna, at: 5_001, in: &book))
        #expect(book.entries.count == ContactBook.capacity)
        #expect(book.entry(of: Self.crowd[0].fingerprint) != nil && book.entry(of: Self.crowd[1].fingerprint) == nil)
    }

    @Test("R6, M6: no flood of made-up keys pushes out friends, imported ones, or, without proof, those who have proven theirs")
    func flood() {
        var book = ContactBook()
        let friends: Set = [anna.fingerprint]
        let met = Person(-3)
        #expect(meet(anna, friends: friends, in: &book) && bring(ben, friends: friends, in: &book))
        #expect(meet(met, isProven: true, friends: friends, in: &book))
        for person in Self.crowd { #expect(meet(person, friends: friends, at: 10, in: &book)) }
        #expect(book.entries.count == ContactBook.capacity)
        for person in [anna, ben, met] { #expect(book.entry(of: person.fingerprint) != nil) }
        for person in Self.crowd { _ = meet(person, isProven: true, friends: friends, at: 11, in: &book) }
        #expect(book.entries.count == ContactBook.capacity)
        for person in [anna, ben] { #expect(book.entry(of: person.fingerprint) != nil) }
        #expect(book.entry(of: met.fingerprint) == nil)
    }

    @Test("when full of proven contacts, an unproven one is not added; a friend and an imported one are")
    func fullOfProven() {
        var book = fullBook(isProven: true)
        #expect(!meet(anna, at: 9_000, in: &book))
        #expect(meet(anna, friends: [anna.fingerprint], at: 9_000, in: &book))
        #expect(bring(ben, friends: [anna.fingerprint], in: &book))
        #expect(book.entries.count == ContactBook.capacity)
    }

    @Test("when full of friends, no contact is added, and importing reports it")
    func fullOfFriends() {
        var book = fullBook()
        let friends = Set(book.entries.keys)
        #expect(!meet(anna, isProven: true, friends: friends, at: 9_000, in: &book))
        #expect(!bring(anna, friends: friends, in: &book))
        #expect(Set(book.entries.keys) == friends)
        // A contact that is present needs no further space.
        #expect(bring(Self.crowd[0], friends: friends, in: &book))
    }

    @Test("it is kept in a file of one's own, as it was")
    func file() throws {
        let scratch = ScratchFolder()
        let file = ContactFile(in: try StateDirectory(path: scratch("state")))
        #expect(try file.read() == ContactBook())
        var book = ContactBook()
        #expect(meet(anna, isProven: true, at: 3, in: &book) && bring(ben, in: &book))
        #expect(
            try file.update { kept in
                meet(anna, isProven: true, at: 3, in: &kept) && bring(ben, in: &kept)
            })
        #expect(try file.read() == book)
        #expect(try scratch.status("state/contacts.json").st_mode & 0o7777 == 0o600)
    }

    @Test("a file with a key that is none, or a key twice, is told and kept")
    func damagedFile() throws {
        let scratch = ScratchFolder()
        let file = ContactFile(in: try StateDirectory(path: scratch("state")))
        try file.update { kept in _ = meet(anna, in: &kept) }
        let text = String(decoding: try scratch.read("state/contacts.json"), as: UTF8.self)
        let record = text.drop { $0 != "{" }.prefix { $0 != "]" }
        let key = Hex.encode(anna.agreementKey.bytes)
        let lowOrder = text.replacing(key, with: String(repeating: "0", count: 64))
        for damaged in [lowOrder, text.replacing(key, with: "00"), "[\(record), \(record)]"] {
            #expect(damaged != text)
            try scratch.write("state/contacts.json", Array(damaged.utf8))
            #expect(throws: StorageError.self) { try file.read() }
            #expect(throws: StorageError.self) { try file.update { _ in } }
            #expect(try scratch.read("state/contacts.json") == Array(damaged.utf8))
        }
    }
}
