import FoundationEssentials
import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@Suite struct TrustStoreTests {
    private static let ada = DisplayName(truncating: "Ada")!
    private let now = WallTime(milliseconds: 1000)

    /// A peer that has proven the key made from `byte`.
    private func peer(_ byte: UInt8) throws -> AuthenticatedPeer {
        var pair = HandshakePair(initiator: LocalIdentity(seed: [UInt8](repeating: byte, count: 64)))
        return try pair.complete().responder.peer
    }

    @Test(
        "K2: a known name with a new key stands out, however it is written",
        arguments: ["Ada", "ada", "A da", " ADA\u{a0}", "Ada\u{2800}", "A\u{FFFC}da", "\u{E000}ada"])
    func nameClash(_ claimed: String) throws {
        var book = TrustStore()
        let known = try peer(10)
        book.recordContact(with: known, named: Self.ada, at: now)
        let impostor = try peer(11)
        let trustStatus = book.trustStatus(of: impostor, claiming: try DisplayName(claimed))
        #expect(trustStatus == .nameClash(knownAs: known.fingerprint))
        #expect(!trustStatus.isFriend && !trustStatus.isVerified && !trustStatus.isBlocked)
        #expect(trustStatus.label == "changed")
        #expect(book.trustStatus(of: known, claiming: Self.ada) == .known(.seen, isFriend: false))
        #expect(book.trustStatus(of: impostor, claiming: try DisplayName("Eve")) == .new)
    }

    @Test("R6: another contact within a minute changes nothing; another name, version or peer does") func recorded() throws {
        var book = TrustStore()
        let (ada, eve) = (try peer(10), try peer(11))
        #expect(!book.isRecorded(ada, named: Self.ada, at: now))
        book.recordContact(with: ada, named: Self.ada, version: 1, at: now)
        let later = WallTime(milliseconds: now.milliseconds + 59_999)
        #expect(book.isRecorded(ada, named: Self.ada, version: 1, at: later))
        #expect(!book.isRecorded(ada, named: Self.ada, version: 2, at: later))
        #expect(!book.isRecorded(ada, named: try DisplayName("Ida"), version: 1, at: later))
        #expect(!book.isRecorded(eve, named: Self.ada, version: 1, at: later))
        for time in [Int64.min, 0, now.milliseconds + 60_000, .max] {
            #expect(!book.isRecorded(ada, named: Self.ada, version: 1, at: WallTime(milliseconds: time)))
        }
    }

    @Test("M12: a peer that only a rule has accepted is no contact, until the user decides something about it")
    func chosen() throws {
        var book = TrustStore()
        let (ada, eve) = (try peer(10), try peer(11))
        for peer in [ada, eve] { book.recordContact(with: peer, named: Self.ada, isChosen: false, at: now) }
        #expect(!book.isContact(ada.fingerprint) && !book.isContact(eve.fingerprint))
        #expect(book.isRecorded(ada, named: Self.ada, isChosen: false, at: now))
        #expect(!book.isRecorded(ada, named: Self.ada, at: now))
        let stored = try JSONDecoder().decode(TrustStore.self, from: JSONEncoder().encode(book))
        #expect(stored == book)
        book.recordContact(with: ada, named: Self.ada, at: now)
        book.recordContact(with: ada, named: Self.ada, isChosen: false, at: now)
        #expect(book.isContact(ada.fingerprint) && !book.isContact(eve.fingerprint))
        let isFriend = book.setFriend(eve.fingerprint, to: true)
        #expect(isFriend && book.isContact(eve.fingerprint))
    }

    @Test("R6, K2: a contact that claims another peer's name changes nothing, until that peer is forgotten")
    func recordedContestedName() throws {
        var book = TrustStore()
        let (ada, eve, impostor) = (try peer(10), try peer(11), try peer(12))
        book.recordContact(with: ada, named: Self.ada, at: now)
        book.recordContact(with: eve, named: try DisplayName("Eve"), at: now)
        book.recordContact(with: impostor, named: Self.ada, at: now)
        for other in [eve, impostor] {
            var copy = book
            copy.recordContact(with: other, named: Self.ada, at: now)
            #expect(copy == book && book.isRecorded(other, named: Self.ada, at: now))
        }
        book.remove(ada.fingerprint)
        #expect(!book.isRecorded(impostor, named: Self.ada, at: now))
        book.recordContact(with: impostor, named: Self.ada, at: now)
        #expect(book[impostor.fingerprint]?.isNameContested == false)
    }

    @Test("the first contact that proves the key of a blocked peer is not recorded yet") func recordedProof() throws {
        var book = TrustStore()
        let blocked = try peer(10)
        let isStored = book.block(blocked.fingerprint, named: Self.ada, at: now)
        #expect(isStored && !book.isRecorded(blocked, named: Self.ada, at: now))
        book.recordContact(with: blocked, named: Self.ada, at: now)
        #expect(book.isRecorded(blocked, named: Self.ada, at: now))
    }

    @Test("K12: a peer that speaks an older version than before is noticed, also after the store was read again")
    func downgrade() throws {
        var book = TrustStore()
        let ada = try peer(10)
        book.recordContact(with: ada, named: Self.ada, version: 1, at: now)
        #expect(book.downgrade(of: ada, to: 1) == nil)
        book.recordContact(with: ada, named: Self.ada, version: 2, at: now)
        book.recordContact(with: ada, named: Self.ada, version: 1, at: now)
        book.recordContact(with: ada, named: Self.ada, at: now)
        let read = try JSONDecoder().decode(TrustStore.self, from: JSONEncoder().encode(book))
        #expect(read.downgrade(of: ada, to: 1) == 2)
        #expect(read.downgrade(of: ada, to: 2) == nil)
        #expect(read.downgrade(of: try peer(11), to: 1) == nil)
    }

    @Test("K4: a key with the id of a known one is not taken for it, and a blocked id stays blocked")
    func equalIDs() throws {
        let known = Fingerprint(bytes: [UInt8](repeating: 7, count: 32))!
        let other = Fingerprint(bytes: [UInt8](repeating: 7, count: 31) + [8])!
        #expect(known.peerID == other.peerID)
        var book = TrustStore()
        let isAdded = book.introduce(known, claiming: Self.ada, as: Self.ada, at: now)
        #expect(isAdded)
        #expect(book.trustStatus(of: other, claiming: try DisplayName("Eve")) == .nameClash(knownAs: known))
        #expect(book.trustStatus(of: other, claiming: nil) == .nameClash(knownAs: known))
        #expect(book.entry(claiming: known.peerID)?.fingerprint == known)
        book.setBlocked(known, to: true)
        #expect(book.trustStatus(of: other, claiming: nil).isBlocked)
        book.setBlocked(known, to: false)
        let isOtherAdded = book.introduce(other, claiming: Self.ada, as: try DisplayName("Eve"), at: now)
        #expect(isOtherAdded)
        // Both are known now: the fingerprint decides, and the id selects neither.
        #expect(book.trustStatus(of: other, claiming: nil) == .known(.seen, isFriend: false))
        #expect(book.entry(claiming: known.peerID) == nil)
        book.remove(known)
        #expect(book.entry(claiming: known.peerID)?.fingerprint == other)
        #expect(book.trustStatus(of: known, claiming: nil) == .nameClash(knownAs: other))
    }

    @Test("R6: in a full store each name is found, also after changes")
    func fullStore() throws {
        func fingerprint(_ number: Int) -> Fingerprint {
            Fingerprint(bytes: UInt64(number).bigEndianBytes + [UInt8](repeating: 1, count: 24))!
        }
        var book = TrustStore()
        for number in 0..<TrustStore.capacity {
            let name = try DisplayName("Peer \(number)")
            let isAdded = book.introduce(fingerprint(number), claiming: name, as: name, at: now)
            #expect(isAdded)
        }
        for number in 0..<500 {
            let name = try DisplayName("p e e r \(number)")
            #expect(book.trustStatus(of: fingerprint(9_000), claiming: name) == .nameClash(knownAs: fingerprint(number)))
        }
        book.rename(fingerprint(3), to: try DisplayName("Mia"))
        #expect(
            book.trustStatus(of: fingerprint(9_000), claiming: try DisplayName("mia")) == .nameClash(knownAs: fingerprint(3)))
        book.remove(fingerprint(4))
        #expect(book.trustStatus(of: fingerprint(9_000), claiming: try DisplayName("Peer 4")) == .new)
        let decoded = try JSONDecoder().decode(TrustStore.self, from: try JSONEncoder().encode(book))
        #expect(decoded == book)
        #expect(
            decoded.trustStatus(of: fingerprint(9_000), claiming: try DisplayName("MIA")) == .nameClash(knownAs: fingerprint(3))
        )
    }

    @Test("K2: no other key can claim a name that the user has given") func givenName() throws {
        var book = TrustStore()
        let known = try peer(10)
        book.recordContact(with: known, named: Self.ada, at: now)
        #expect(book.rename(known.fingerprint, to: try DisplayName("Boss")) == true)
        #expect(book.trustStatus(of: try peer(11), claiming: try DisplayName("boss")) == .nameClash(knownAs: known.fingerprint))
        #expect(book[known.fingerprint]?.name.claimed == "Boss")
        book.rename(known.fingerprint, to: nil)
        #expect(book[known.fingerprint]?.name == Self.ada)
    }

    @Test("K2: an imported key has the name given at the import, which no other key can claim; known keys keep theirs")
    func introduced() throws {
        var book = TrustStore()
        let (ada, eve) = (try peer(10), try peer(11))
        let given = try DisplayName("Boss")
        #expect(book.introduce(ada.fingerprint, claiming: Self.ada, as: given, at: now) == true)
        #expect(book[ada.fingerprint]?.name == given && book[ada.fingerprint]?.claimedName == Self.ada)
        #expect(book[ada.fingerprint]?.trust == .seen && book[ada.fingerprint]?.isFriend == false)
        #expect(book.trustStatus(of: eve, claiming: given) == .nameClash(knownAs: ada.fingerprint))
        book.recordVerification(of: eve, named: try DisplayName("Eve"), at: now)
        #expect(book.introduce(eve.fingerprint, claiming: Self.ada, as: try DisplayName("Eva"), at: now) == true)
        #expect(book[eve.fingerprint]?.trust == .verified)
    }

    @Test("K2: the pinned key of a name is never replaced by another") func neverOverwritten() throws {
        var book = TrustStore()
        let (first, second) = (try peer(10), try peer(11))
        book.recordVerification(of: first, named: Self.ada, at: now)
        book.recordContact(with: second, named: Self.ada, at: now)
        #expect(book.trustStatus(of: first, claiming: Self.ada).isVerified)
        #expect(book.trustStatus(of: second, claiming: Self.ada) == .nameClash(knownAs: first.fingerprint))
        #expect(book.entries.count == 2)
    }

    @Test("K2: a trusted peer keeps its standing and its own name when it claims the name of another")
    func knownPeerTakesAName() throws {
        var book = TrustStore()
        let (ada, eve) = (try peer(10), try peer(11))
        let eveName = try DisplayName("Eve")
        book.recordVerification(of: ada, named: Self.ada, at: now)
        book.recordVerification(of: eve, named: eveName, at: now)
        book.setFriend(eve.fingerprint, to: true)
        #expect(book.trustStatus(of: eve, claiming: eveName).isFriend)
        #expect(book.trustStatus(of: eve, claiming: Self.ada) == .known(.verified, isFriend: true))
        #expect(book.name(of: eve.fingerprint, claiming: Self.ada) == eveName)
        #expect(book.otherOwner(of: Self.ada, claimedBy: eve.fingerprint) == ada.fingerprint)
        // Dealing with it all the same does not hand the name over, and takes nothing from its owner.
        book.recordContact(with: eve, named: Self.ada, at: now)
        #expect(book[eve.fingerprint]?.claimedName == eveName)
        #expect(book.trustStatus(of: eve, claiming: Self.ada) == .known(.verified, isFriend: true))
        #expect(book.trustStatus(of: ada, claiming: Self.ada).isVerified)
        // Nor does comparing codes: that proves a key, not a name.
        book.recordVerification(of: eve, named: Self.ada, at: now)
        #expect(book.name(of: eve.fingerprint, claiming: Self.ada) == eveName)
        // A verified peer that has no name of its own is told apart.
        let twin = try peer(12)
        book.recordVerification(of: twin, named: Self.ada, at: now)
        #expect(book.trustStatus(of: twin, claiming: Self.ada) == .nameClash(knownAs: ada.fingerprint))
    }

    @Test("K2: two peers of one name are told apart once the user has given one of them a name") func twoOfOneName() throws {
        var book = TrustStore()
        let (first, second) = (try peer(10), try peer(11))
        book.recordContact(with: first, named: Self.ada, at: WallTime(milliseconds: 9))
        // The clock has gone back since: who was first is not a matter of what it says.
        book.recordContact(with: second, named: Self.ada, at: WallTime(milliseconds: 1))
        #expect(book.trustStatus(of: first, claiming: Self.ada) == .known(.seen, isFriend: false))
        #expect(book.trustStatus(of: second, claiming: Self.ada) == .nameClash(knownAs: first.fingerprint))
        #expect(book.peer(knownAs: Self.ada, otherThan: second.fingerprint) == first.fingerprint)
        #expect(book.peer(knownAs: Self.ada, otherThan: first.fingerprint) == nil)
        #expect(book.peer(knownAs: try DisplayName("ben"), otherThan: first.fingerprint) == nil)
        book.rename(second.fingerprint, to: try DisplayName("Ada at work"))
        #expect(book.trustStatus(of: second, claiming: Self.ada) == .known(.seen, isFriend: false))
        book.recordContact(with: second, named: Self.ada, at: now)
        book.rename(second.fingerprint, to: nil)
        #expect(book.trustStatus(of: second, claiming: Self.ada) == .nameClash(knownAs: first.fingerprint))
        // A given name outweighs every claim, also that of who came first.
        book.rename(second.fingerprint, to: Self.ada)
        #expect(book.trustStatus(of: second, claiming: Self.ada) == .known(.seen, isFriend: false))
        #expect(book.trustStatus(of: first, claiming: Self.ada) == .nameClash(knownAs: second.fingerprint))
        book.rename(first.fingerprint, to: try DisplayName("The other one"))
        #expect(book.trustStatus(of: first, claiming: Self.ada) == .nameClash(knownAs: second.fingerprint))
    }

    @Test(
        "K2, A5: a renamed friend keeps the name against an unknown key, and is let in under it",
        arguments: [true, false])
    func friendUnderTwoNames(isFriend: Bool) throws {
        var book = TrustStore()
        let (ada, impostor) = (try peer(10), try peer(11))
        let otherName = try DisplayName("Ada two")
        let trusted = TrustStatus.known(isFriend ? .seen : .verified, isFriend: isFriend)
        if isFriend {
            book.recordContact(with: ada, named: Self.ada, at: now)
            book.setFriend(ada.fingerprint, to: true)
        } else {
            book.recordVerification(of: ada, named: Self.ada, at: now)
        }
        book.recordContact(with: ada, named: otherName, at: now)
        #expect(book[ada.fingerprint]?.claimedName == otherName)
        // The impostor claims the name while it is free: reported as a clash, before and after a decision.
        #expect(book.trustStatus(of: impostor, claiming: Self.ada) == .nameClash(knownAs: ada.fingerprint))
        #expect(book.trustStatus(claiming: impostor.id, named: Self.ada) == .nameClash(knownAs: ada.fingerprint))
        book.recordContact(with: impostor, named: Self.ada, at: now)
        #expect(book.trustStatus(of: impostor, claiming: Self.ada) == .nameClash(knownAs: ada.fingerprint))
        #expect(book.trustStatus(of: ada, claiming: Self.ada) == trusted)
        #expect(book.trustStatus(of: ada, claiming: otherName) == trusted)
        book.recordContact(with: ada, named: Self.ada, at: now)
        #expect(book.trustStatus(of: ada, claiming: Self.ada) == trusted)
        #expect(book.trustStatus(of: impostor, claiming: otherName) == .nameClash(knownAs: ada.fingerprint))
        let decoded = try JSONDecoder().decode(TrustStore.self, from: try JSONEncoder().encode(book))
        #expect(decoded == book)
        // A peer that is no longer trusted has only the name that it claims.
        book.setBlocked(ada.fingerprint, to: true)
        book.setBlocked(ada.fingerprint, to: false)
        #expect(book.trustStatus(of: try peer(12), claiming: otherName) == .new)
    }

    @Test("K2, A5: a peer that was only seen locks out no friend whose next name it has, and keeps that name")
    func friendBehindAStranger() throws {
        var book = TrustStore()
        let (ada, impostor) = (try peer(10), try peer(11))
        book.recordContact(with: ada, named: try DisplayName("Ada two"), at: now)
        book.recordContact(with: impostor, named: Self.ada, at: now)
        #expect(
            book.trustStatus(of: ada, claiming: Self.ada) == .nameClash(knownAs: impostor.fingerprint), "both are merely seen")
        book.setFriend(ada.fingerprint, to: true)
        #expect(book.trustStatus(of: ada, claiming: Self.ada).isFriend)
        book.recordContact(with: ada, named: Self.ada, at: now)
        // Whom the user means by the name is not for the friend to decide.
        #expect(book[ada.fingerprint]?.claimedName.claimed == "Ada two")
        #expect(book.name(of: ada.fingerprint, claiming: Self.ada).claimed == "Ada two")
        #expect(book.otherOwner(of: Self.ada, claimedBy: ada.fingerprint) == impostor.fingerprint)
        #expect(book.trustStatus(of: impostor, claiming: Self.ada) == .known(.seen, isFriend: false))
        #expect(book.otherOwner(of: Self.ada, claimedBy: impostor.fingerprint) == nil)
        #expect(book.name(of: impostor.fingerprint, claiming: Self.ada) == Self.ada)
        // A name that the local user has given is no peer's to claim.
        book.rename(impostor.fingerprint, to: Self.ada)
        #expect(book.otherOwner(of: Self.ada, claimedBy: ada.fingerprint) == impostor.fingerprint)
        #expect(book.name(of: ada.fingerprint, claiming: Self.ada).claimed == "Ada two")
        // The friend has the name that the user has given to it, whatever it claims.
        book.rename(ada.fingerprint, to: try DisplayName("My Ada"))
        book.rename(impostor.fingerprint, to: nil)
        #expect(book.otherOwner(of: Self.ada, claimedBy: ada.fingerprint) == nil)
        #expect(book.name(of: ada.fingerprint, claiming: Self.ada).claimed == "My Ada")
    }

    @Test("T9: a known peer keeps its name when it claims one that mixes alphabets", arguments: [true, false])
    func mixedAlphabets(isFriend: Bool) throws {
        var book = TrustStore()
        let (ada, clara) = (try peer(10), try peer(11))
        let (name, imitation) = (try DisplayName("Clara"), try DisplayName("\u{410}da"))
        book.recordContact(with: ada, named: Self.ada, at: now)
        book.recordContact(with: clara, named: name, at: now)
        book.setFriend(clara.fingerprint, to: isFriend)
        book.recordContact(with: clara, named: imitation, at: now)
        #expect(book[clara.fingerprint]?.claimedName == name)
        #expect(book.name(of: clara.fingerprint, claiming: imitation) == (isFriend ? name : imitation))
        // A new peer is known by the name that it claims, and the question about it says that it mixes alphabets.
        let new = try peer(12)
        book.recordContact(with: new, named: imitation, at: now)
        #expect(book[new.fingerprint]?.claimedName == imitation)
    }

    @Test("K2: a friend returns to a name of its own that a peer has claimed meanwhile") func friendReturnsToItsName() throws {
        var book = TrustStore()
        let (ada, impostor) = (try peer(10), try peer(11))
        let other = try DisplayName("Ada two")
        book.recordVerification(of: ada, named: Self.ada, at: now)
        book.recordContact(with: ada, named: other, at: now)
        book.recordContact(with: impostor, named: Self.ada, at: now)
        #expect(book.otherOwner(of: Self.ada, claimedBy: ada.fingerprint) == nil)
        #expect(book.otherOwner(of: Self.ada, claimedBy: impostor.fingerprint) == ada.fingerprint)
        book.recordContact(with: ada, named: Self.ada, at: now)
        #expect(book[ada.fingerprint]?.claimedName == Self.ada)
        #expect(book.name(of: ada.fingerprint, claiming: other) == other)
    }

    @Test("K2: of two peers of one name the verified one has it, if the other was only seen") func verifiedSecond() throws {
        var book = TrustStore()
        let (first, second) = (try peer(10), try peer(11))
        book.recordContact(with: first, named: Self.ada, at: now)
        book.recordVerification(of: second, named: Self.ada, at: now)
        #expect(book.trustStatus(of: second, claiming: Self.ada).isVerified)
        #expect(book.trustStatus(of: first, claiming: Self.ada) == .nameClash(knownAs: second.fingerprint))
    }

    @Test("R6: a friend who has many names keeps few of them") func manyNames() throws {
        var book = TrustStore()
        let friend = try peer(10)
        book.recordVerification(of: friend, named: Self.ada, at: now)
        for number in 0..<20 { book.recordContact(with: friend, named: try DisplayName("name \(number % 15)"), at: now) }
        let names = try #require(book[friend.fingerprint]?.formerNames.map(\.claimed))
        #expect(names.count == 8 && Set(names).count == 8 && names.last == "name 3" && !names.contains("name 4"))
    }

    @Test("K3: differing codes revoke an earlier verification, and nothing else") func denied() throws {
        var book = TrustStore()
        let (ada, eve) = (try peer(10), try peer(11))
        book.recordVerification(of: ada, named: Self.ada, at: now)
        book.setFriend(ada.fingerprint, to: true)
        book.recordMismatch(with: ada)
        #expect(book.trustStatus(of: ada, claiming: Self.ada) == .known(.seen, isFriend: true))
        book.recordMismatch(with: eve)
        #expect(book[eve.fingerprint] == nil)
        book.recordContact(with: eve, named: try DisplayName("Eve"), at: now)
        book.setBlocked(eve.fingerprint, to: true)
        book.recordMismatch(with: eve)
        let isVerified = book.recordVerification(of: eve, named: try DisplayName("Eve"), at: now)
        #expect(!isVerified)
        #expect(book.trustStatus(of: eve, claiming: nil).isBlocked)
    }

    @Test("K2: the name of a forgotten or blocked peer is free for the next one that claims it", arguments: [true, false])
    func nameIsFreed(byForgetting: Bool) throws {
        var book = TrustStore()
        let (first, second, third) = (try peer(10), try peer(11), try peer(12))
        book.recordContact(with: first, named: Self.ada, at: now)
        book.recordContact(with: second, named: Self.ada, at: now)
        if byForgetting { book.remove(first.fingerprint) } else { book.setBlocked(first.fingerprint, to: true) }
        #expect(book.trustStatus(of: second, claiming: Self.ada) == .known(.seen, isFriend: false))
        #expect(book.trustStatus(of: third, claiming: Self.ada) == .new)
        book.recordContact(with: second, named: Self.ada, at: now)
        #expect(book.trustStatus(of: third, claiming: Self.ada) == .nameClash(knownAs: second.fingerprint))
    }

    @Test("K2: a blocked peer is blocked under every name") func blockedUnderEveryName() throws {
        var book = TrustStore()
        let (ada, eve) = (try peer(10), try peer(11))
        book.recordContact(with: ada, named: Self.ada, at: now)
        book.recordContact(with: eve, named: try DisplayName("Eve"), at: now)
        book.setBlocked(eve.fingerprint, to: true)
        for name in [Self.ada, try DisplayName("Eve"), try DisplayName("Mallory"), nil] {
            #expect(book.trustStatus(of: eve, claiming: name).isBlocked)
        }
    }

    @Test(
        "K2: neither the case of ß, nor what has no shape, nor another composition makes another name",
        arguments: [("Groß", "GROSS"), ("Ada", "A\u{200b}d\u{2060}a"), ("José", "jose\u{301}")])
    func alike(_ names: (known: String, claimed: String)) throws {
        var book = TrustStore()
        let known = try peer(10)
        book.recordContact(with: known, named: try DisplayName(names.known), at: now)
        #expect(
            book.trustStatus(of: try peer(11), claiming: try DisplayName(names.claimed))
                == .nameClash(knownAs: known.fingerprint))
    }

    @Test("A5: only a key makes a friend, and blocking ends it") func friends() throws {
        var book = TrustStore()
        let friend = try peer(10)
        #expect(book.setFriend(friend.fingerprint, to: true) == false)
        book.recordContact(with: friend, named: Self.ada, at: now)
        #expect(book.setFriend(friend.fingerprint, to: true) == true)
        #expect(book.trustStatus(of: friend, claiming: nil).isFriend)
        #expect(!book.trustStatus(of: try peer(11), claiming: Self.ada).isFriend)
        #expect(book.setBlocked(friend.fingerprint, to: true) == true)
        #expect(!book.trustStatus(of: friend, claiming: Self.ada).isFriend)
        #expect(book.trustStatus(of: friend, claiming: Self.ada).isBlocked)
        book.recordVerification(of: friend, named: Self.ada, at: now)
        #expect(book.trustStatus(of: friend, claiming: Self.ada).isBlocked, "comparing codes does not lift a block")
        #expect(book.setBlocked(friend.fingerprint, to: false) == true)
        #expect(book.trustStatus(of: friend, claiming: Self.ada) == .known(.seen, isFriend: false))
    }

    @Test("A5: a friend who is blocked is no friend, whatever the file says") func blockedFriend() {
        #expect(!TrustStatus.known(.blocked, isFriend: true).isFriend)
        #expect(TrustStatus.known(.blocked, isFriend: true).label == "blocked")
        #expect(TrustStatus.known(.blocked, isFriend: true).listText == "blocked")
        #expect(TrustStatus.known(.verified, isFriend: true).listText == "friend, verified")
        #expect(TrustStatus.known(.seen, isFriend: true).listText == "friend")
    }

    @Test("A5: a key that was only announced can be blocked, and is new again afterwards: it makes no friend")
    func announced() throws {
        var book = TrustStore()
        let silent = try peer(10)
        #expect(book.block(silent.fingerprint, named: Self.ada, at: now) == true)
        #expect(book.trustStatus(of: silent, claiming: nil).isBlocked)
        let read = try JSONDecoder().decode(TrustStore.self, from: try JSONEncoder().encode(book))
        #expect(read == book)
        #expect(book.setBlocked(silent.fingerprint, to: false) == true)
        #expect(book.trustStatus(of: silent, claiming: Self.ada) == .new)
        #expect(book.setFriend(silent.fingerprint, to: true) == false)
        // One that has proven its key meanwhile is known.
        #expect(book.block(silent.fingerprint, named: Self.ada, at: now) == true)
        book.recordContact(with: silent, named: Self.ada, at: now)
        #expect(book.setBlocked(silent.fingerprint, to: false) == true)
        #expect(book.trustStatus(of: silent, claiming: Self.ada) == .known(.seen, isFriend: false))
        #expect(book.block(silent.fingerprint, named: try DisplayName("Eve"), at: now) == true)
        #expect(book[silent.fingerprint]?.claimedName == Self.ada)
    }

    @Test func `the name of a blocked peer is free for others`() throws {
        var book = TrustStore()
        let blocked = try peer(10)
        book.recordContact(with: blocked, named: Self.ada, at: now)
        book.setBlocked(blocked.fingerprint, to: true)
        #expect(book.trustStatus(of: try peer(11), claiming: Self.ada) == .new)
    }

    @Test func `a forgotten peer is new again`() throws {
        var book = TrustStore()
        let known = try peer(10)
        book.recordContact(with: known, named: Self.ada, at: now)
        #expect(book.entry(claiming: known.id)?.fingerprint == known.fingerprint)
        #expect(book.remove(known.fingerprint) == true)
        #expect(book.remove(known.fingerprint) == false)
        #expect(book.trustStatus(of: known, claiming: Self.ada) == .new)
        #expect(book.entry(claiming: known.id) == nil)
    }

    @Test("D5: a clock that goes back does not make a peer older") func times() throws {
        var book = TrustStore()
        let known = try peer(10)
        book.recordContact(with: known, named: Self.ada, at: now)
        book.recordContact(with: known, named: Self.ada, at: WallTime(milliseconds: 5))
        #expect(book[known.fingerprint]?.lastSeen == now)
        #expect(book[known.fingerprint]?.firstSeen == now)
    }

    @Test func `a stored file is read as it was written`() throws {
        var book = TrustStore()
        for byte in 10..<14 as Range<UInt8> { book.recordContact(with: try peer(byte), named: Self.ada, at: now) }
        book.recordVerification(of: try peer(10), named: Self.ada, at: now)
        book.rename(try peer(11).fingerprint, to: try DisplayName("x"))
        let decoded = try JSONDecoder().decode(TrustStore.self, from: try JSONEncoder().encode(book))
        #expect(decoded == book)
    }

    @Test func `a file that names a peer twice is rejected`() throws {
        var book = TrustStore()
        book.recordContact(with: try peer(10), named: Self.ada, at: now)
        let record = String(decoding: try JSONEncoder().encode(book).dropFirst().dropLast(), as: UTF8.self)
        func decode(_ json: String) throws -> TrustStore { try JSONDecoder().decode(TrustStore.self, from: Data(json.utf8)) }
        #expect(try decode("[\(record)]") == book)
        #expect(throws: DecodingError.self) { try decode("[\(record),\(record)]") }
        #expect(throws: DecodingError.self) { try decode("[\(record.replacing("Ada", with: ""))]") }
    }

    @Test("R6: a full store removes peers that were only seen, and no others") func bounded() throws {
        let record = { (number: Int, isFriend: Bool) in
            let fingerprint = String(repeating: "0", count: 60) + String(number + 0x1000, radix: 16).suffix(4)
            return """
                {"fingerprint":"\(fingerprint)","entry":{"claimedName":"p\(number)","isNameContested":false,"trust":"seen","isFriend":\(isFriend),\
                "firstSeen":{"milliseconds":\(number)},"lastSeen":{"milliseconds":\(number)}}}
                """
        }
        func book(_ count: Int, friends: (Int) -> Bool) throws -> TrustStore {
            let json = "[\((0..<count).map { record($0, friends($0)) }.joined(separator: ","))]"
            return try JSONDecoder().decode(TrustStore.self, from: Data(json.utf8))
        }
        #expect(try book(TrustStore.capacity + 10) { _ in false }.entries.count == TrustStore.capacity)
        // The first is a friend: the second gives way.
        var full = try book(TrustStore.capacity) { $0 == 0 }
        full.recordContact(with: try peer(10), named: Self.ada, at: now)
        #expect(full.entries.count == TrustStore.capacity)
        #expect(full.entries.values.contains { $0.isFriend })
        #expect(!full.entries.values.contains { $0.claimedName.claimed == "p1" })
        var chosen = try book(TrustStore.capacity) { _ in true }
        chosen.recordContact(with: try peer(10), named: Self.ada, at: now)
        #expect(chosen[try peer(10).fingerprint] == nil)
        let isVerified = chosen.recordVerification(of: try peer(10), named: Self.ada, at: now)
        #expect(!isVerified)
    }
}
