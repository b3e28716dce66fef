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
        var store = TrustStore()
        let known = try peer(10)
        store.recordContact(with: known, named: Self.ada, at: now)
        let impostor = try peer(11)
        let trustStatus = store.trustStatus(of: impostor, claiming: try DisplayName(claimed))
        #expect(trustStatus == .nameClash(knownAs: known.fingerprint))
        #expect(!trustStatus.isFriend && !trustStatus.isVerified && !trustStatus.isBlocked)
        #expect(trustStatus.label == "changed")
        #expect(store.trustStatus(of: known, claiming: Self.ada) == .known(.seen, isFriend: false))
        #expect(store.trustStatus(of: impostor, claiming: try DisplayName("Eve")) == .new)
    }

    @Test("K2: a known peer that claims the name of another one is still known by its own") func formerName() throws {
        var store = TrustStore()
        let (ada, dora) = (try peer(10), try peer(11))
        let name = try DisplayName("Dora")
        store.recordContact(with: ada, named: Self.ada, at: now)
        #expect(store.formerName(of: dora.fingerprint, claiming: Self.ada) == nil)
        store.recordContact(with: dora, named: name, at: now)
        #expect(store.formerName(of: dora.fingerprint, claiming: Self.ada) == name)
        #expect(store.formerName(of: dora.fingerprint, claiming: name) == nil)
        #expect(store.formerName(of: ada.fingerprint, claiming: Self.ada) == nil)
        // Under `--accept all` an attacker can choose any name before: the user does not know it.
        let eve = try peer(12)
        store.recordContact(with: eve, named: try DisplayName("Ada (new phone)"), isChosen: false, at: now)
        #expect(store.formerName(of: eve.fingerprint, claiming: Self.ada) == nil)
    }

    @Test("R6: another meeting within a minute changes nothing; another name, version or peer does") func recorded() throws {
        var store = TrustStore()
        let (ada, eve) = (try peer(10), try peer(11))
        #expect(!store.isRecorded(ada, named: Self.ada, at: now))
        store.recordContact(with: ada, named: Self.ada, version: 1, at: now)
        let later = WallTime(milliseconds: now.milliseconds + 59_999)
        #expect(store.isRecorded(ada, named: Self.ada, version: 1, at: later))
        #expect(!store.isRecorded(ada, named: Self.ada, version: 2, at: later))
        #expect(!store.isRecorded(ada, named: try DisplayName("Ida"), version: 1, at: later))
        #expect(!store.isRecorded(eve, named: Self.ada, version: 1, at: later))
        for time in [Int64.min, 0, now.milliseconds + 60_000, .max] {
            #expect(!store.isRecorded(ada, named: Self.ada, version: 1, at: WallTime(milliseconds: time)))
        }
    }

    @Test("M12: a peer that only a rule has accepted is no contact, until the user decides something about it")
    func chosen() throws {
        var store = TrustStore()
        let (ada, eve) = (try peer(10), try peer(11))
        for peer in [ada, eve] { store.recordContact(with: peer, named: Self.ada, isChosen: false, at: now) }
        #expect(!store.isContact(ada.fingerprint) && !store.isContact(eve.fingerprint))
        #expect(store.isRecorded(ada, named: Self.ada, isChosen: false, at: now))
        #expect(!store.isRecorded(ada, named: Self.ada, at: now))
        let stored = try JSONDecoder().decode(TrustStore.self, from: JSONEncoder().encode(store))
        #expect(stored == store)
        store.recordContact(with: ada, named: Self.ada, at: now)
        store.recordContact(with: ada, named: Self.ada, isChosen: false, at: now)
        #expect(store.isContact(ada.fingerprint) && !store.isContact(eve.fingerprint))
        let isFriend = store.setFriend(eve.fingerprint, to: true)
        #expect(isFriend && store.isContact(eve.fingerprint))
    }

    @Test("R6, K2: a meeting with a peer that claims another's name changes nothing, until that peer is forgotten")
    func recordedContestedName() throws {
        var store = TrustStore()
        let (ada, eve, impostor) = (try peer(10), try peer(11), try peer(12))
        store.recordContact(with: ada, named: Self.ada, at: now)
        store.recordContact(with: eve, named: try DisplayName("Eve"), at: now)
        store.recordContact(with: impostor, named: Self.ada, at: now)
        for other in [eve, impostor] {
            var copy = store
            copy.recordContact(with: other, named: Self.ada, at: now)
            #expect(copy == store && store.isRecorded(other, named: Self.ada, at: now))
        }
        store.remove(ada.fingerprint)
        #expect(!store.isRecorded(impostor, named: Self.ada, at: now))
        store.recordContact(with: impostor, named: Self.ada, at: now)
        #expect(store[impostor.fingerprint]?.isNameContested == false)
    }

    @Test("a blocked peer that proves its key for the first time is recorded again") func recordedProof() throws {
        var store = TrustStore()
        let blocked = try peer(10)
        let isStored = store.block(blocked.fingerprint, named: Self.ada, at: now)
        #expect(isStored && !store.isRecorded(blocked, named: Self.ada, at: now))
        store.recordContact(with: blocked, named: Self.ada, at: now)
        #expect(store.isRecorded(blocked, named: Self.ada, at: now))
    }

    @Test("K12: a peer that speaks an older version than before is noticed, also after the store was read again")
    func downgrade() throws {
        var store = TrustStore()
        let ada = try peer(10)
        store.recordContact(with: ada, named: Self.ada, version: 1, at: now)
        #expect(store.downgrade(of: ada, to: 1) == nil)
        store.recordContact(with: ada, named: Self.ada, version: 2, at: now)
        store.recordContact(with: ada, named: Self.ada, version: 1, at: now)
        store.recordContact(with: ada, named: Self.ada, at: now)
        let read = try JSONDecoder().decode(TrustStore.self, from: JSONEncoder().encode(store))
        #expect(read.downgrade(of: ada, to: 1) == 2)
        #expect(read.downgrade(of: ada, to: 2) == nil)
        #expect(read.downgrade(of: try peer(11), to: 1) == nil)
    }

    @Test("K4: a key with the id of a known one is not taken for it, and a blocked id stays blocked")
    func equalIDs() throws {
        let known = Fingerprint(bytes: [UInt8](repeating: 7, count: 32))!
        let other = Fingerprint(bytes: [UInt8](repeating: 7, count: 31) + [8])!
        #expect(known.peerID == other.peerID)
        var store = TrustStore()
        let isAdded = store.introduce(known, claiming: Self.ada, as: Self.ada, at: now)
        #expect(isAdded)
        #expect(store.trustStatus(of: other, claiming: try DisplayName("Eve")) == .nameClash(knownAs: known))
        #expect(store.trustStatus(of: other, claiming: nil) == .nameClash(knownAs: known))
        #expect(store.entry(claiming: known.peerID)?.fingerprint == known)
        store.setBlocked(known, to: true)
        #expect(store.trustStatus(of: other, claiming: nil).isBlocked)
        store.setBlocked(known, to: false)
        let isOtherAdded = store.introduce(other, claiming: Self.ada, as: try DisplayName("Eve"), at: now)
        #expect(isOtherAdded)
        // Both are known now: the fingerprint decides, and the id selects neither.
        #expect(store.trustStatus(of: other, claiming: nil) == .known(.seen, isFriend: false))
        #expect(store.entry(claiming: known.peerID) == nil)
        store.remove(known)
        #expect(store.entry(claiming: known.peerID)?.fingerprint == other)
        #expect(store.trustStatus(of: known, claiming: nil) == .nameClash(knownAs: other))
    }

    @Test("R6: in a full store names are found, also after changes")
    func fullStore() throws {
        func fingerprint(_ number: Int) -> Fingerprint {
            Fingerprint(bytes: UInt64(number).bigEndianBytes + [UInt8](repeating: 1, count: 24))!
        }
        var store = TrustStore()
        for number in 0..<TrustStore.capacity {
            let name = try DisplayName("Peer \(number)")
            let isAdded = store.introduce(fingerprint(number), claiming: name, as: name, at: now)
            #expect(isAdded)
        }
        for number in 0..<500 {
            let name = try DisplayName("p e e r \(number)")
            #expect(store.trustStatus(of: fingerprint(9_000), claiming: name) == .nameClash(knownAs: fingerprint(number)))
        }
        store.rename(fingerprint(3), to: try DisplayName("Mia"))
        #expect(
            store.trustStatus(of: fingerprint(9_000), claiming: try DisplayName("mia")) == .nameClash(knownAs: fingerprint(3)))
        store.remove(fingerprint(4))
        #expect(store.trustStatus(of: fingerprint(9_000), claiming: try DisplayName("Peer 4")) == .new)
        let decoded = try JSONDecoder().decode(TrustStore.self, from: try JSONEncoder().encode(store))
        #expect(decoded == store)
        #expect(
            decoded.trustStatus(of: fingerprint(9_000), claiming: try DisplayName("MIA")) == .nameClash(knownAs: fingerprint(3))
        )
    }

    @Test("K2: no other key can claim a name that the user has given") func givenName() throws {
        var store = TrustStore()
        let known = try peer(10)
        store.recordContact(with: known, named: Self.ada, at: now)
        #expect(store.rename(known.fingerprint, to: try DisplayName("Boss")) == true)
        #expect(
            store.trustStatus(of: try peer(11), claiming: try DisplayName("boss")) == .nameClash(knownAs: known.fingerprint))
        #expect(store[known.fingerprint]?.name.claimed == "Boss")
        store.rename(known.fingerprint, to: nil)
        #expect(store[known.fingerprint]?.name == Self.ada)
    }

    @Test("K2: an imported key has the name given at the import, which no other key can claim; known keys keep theirs")
    func introduced() throws {
        var store = TrustStore()
        let (ada, eve) = (try peer(10), try peer(11))
        let given = try DisplayName("Boss")
        #expect(store.introduce(ada.fingerprint, claiming: Self.ada, as: given, at: now) == true)
        #expect(store[ada.fingerprint]?.name == given && store[ada.fingerprint]?.claimedName == Self.ada)
        #expect(store[ada.fingerprint]?.trust == .seen && store[ada.fingerprint]?.isFriend == false)
        #expect(store.trustStatus(of: eve, claiming: given) == .nameClash(knownAs: ada.fingerprint))
        store.recordVerification(of: eve, named: try DisplayName("Eve"), at: now)
        #expect(store.introduce(eve.fingerprint, claiming: Self.ada, as: try DisplayName("Eva"), at: now) == true)
        #expect(store[eve.fingerprint]?.trust == .verified)
    }

    @Test("K2: the pinned key of a name is never replaced by another") func neverOverwritten() throws {
        var store = TrustStore()
        let (first, second) = (try peer(10), try peer(11))
        store.recordVerification(of: first, named: Self.ada, at: now)
        store.recordContact(with: second, named: Self.ada, at: now)
        #expect(store.trustStatus(of: first, claiming: Self.ada).isVerified)
        #expect(store.trustStatus(of: second, claiming: Self.ada) == .nameClash(knownAs: first.fingerprint))
        #expect(store.entries.count == 2)
    }

    @Test("K2: a trusted peer keeps its standing and its own name when it claims the name of another")
    func knownPeerTakesAName() throws {
        var store = TrustStore()
        let (ada, eve) = (try peer(10), try peer(11))
        let eveName = try DisplayName("Eve")
        store.recordVerification(of: ada, named: Self.ada, at: now)
        store.recordVerification(of: eve, named: eveName, at: now)
        store.setFriend(eve.fingerprint, to: true)
        #expect(store.trustStatus(of: eve, claiming: eveName).isFriend)
        #expect(store.trustStatus(of: eve, claiming: Self.ada) == .known(.verified, isFriend: true))
        #expect(store.name(of: eve.fingerprint, claiming: Self.ada) == eveName)
        #expect(store.otherOwner(of: Self.ada, claimedBy: eve.fingerprint) == ada.fingerprint)
        // An accepted offer of Eve does not hand the name over, and takes nothing from Ada.
        store.recordContact(with: eve, named: Self.ada, at: now)
        #expect(store[eve.fingerprint]?.claimedName == eveName)
        #expect(store.trustStatus(of: eve, claiming: Self.ada) == .known(.verified, isFriend: true))
        #expect(store.trustStatus(of: ada, claiming: Self.ada).isVerified)
        // Nor does comparing codes: that proves a key, not a name.
        store.recordVerification(of: eve, named: Self.ada, at: now)
        #expect(store.name(of: eve.fingerprint, claiming: Self.ada) == eveName)
        // A verified peer that has no name of its own is told apart.
        let twin = try peer(12)
        store.recordVerification(of: twin, named: Self.ada, at: now)
        #expect(store.trustStatus(of: twin, claiming: Self.ada) == .nameClash(knownAs: ada.fingerprint))
    }

    @Test("K2: two peers of one name are told apart once the user has given one of them a name") func twoOfOneName() throws {
        var store = TrustStore()
        let (first, second) = (try peer(10), try peer(11))
        store.recordContact(with: first, named: Self.ada, at: WallTime(milliseconds: 9))
        // The second meeting has the earlier time: the order in which they were recorded decides, not the clock.
        store.recordContact(with: second, named: Self.ada, at: WallTime(milliseconds: 1))
        #expect(store.trustStatus(of: first, claiming: Self.ada) == .known(.seen, isFriend: false))
        #expect(store.trustStatus(of: second, claiming: Self.ada) == .nameClash(knownAs: first.fingerprint))
        #expect(store.peer(knownAs: Self.ada, otherThan: second.fingerprint) == first.fingerprint)
        #expect(store.peer(knownAs: Self.ada, otherThan: first.fingerprint) == nil)
        #expect(store.peer(knownAs: try DisplayName("ben"), otherThan: first.fingerprint) == nil)
        store.rename(second.fingerprint, to: try DisplayName("Ada at work"))
        #expect(store.trustStatus(of: second, claiming: Self.ada) == .known(.seen, isFriend: false))
        store.recordContact(with: second, named: Self.ada, at: now)
        store.rename(second.fingerprint, to: nil)
        #expect(store.trustStatus(of: second, claiming: Self.ada) == .nameClash(knownAs: first.fingerprint))
        // A given name outweighs every claim, also that of who came first.
        store.rename(second.fingerprint, to: Self.ada)
        #expect(store.trustStatus(of: second, claiming: Self.ada) == .known(.seen, isFriend: false))
        #expect(store.trustStatus(of: first, claiming: Self.ada) == .nameClash(knownAs: second.fingerprint))
        store.rename(first.fingerprint, to: try DisplayName("The other one"))
        #expect(store.trustStatus(of: first, claiming: Self.ada) == .nameClash(knownAs: second.fingerprint))
    }

    @Test(
        "K2, A5: a friend or verified peer that has changed its name keeps the old one against an unknown key",
        arguments: [true, false])
    func friendUnderTwoNames(isFriend: Bool) throws {
        var store = TrustStore()
        let (ada, impostor) = (try peer(10), try peer(11))
        let otherName = try DisplayName("Ada two")
        let trusted = TrustStatus.known(isFriend ? .seen : .verified, isFriend: isFriend)
        if isFriend {
            store.recordContact(with: ada, named: Self.ada, at: now)
            store.setFriend(ada.fingerprint, to: true)
        } else {
            store.recordVerification(of: ada, named: Self.ada, at: now)
        }
        store.recordContact(with: ada, named: otherName, at: now)
        #expect(store[ada.fingerprint]?.claimedName == otherName)
        // The impostor claims the name while it is free: reported as a clash, before and after a decision.
        #expect(store.trustStatus(of: impostor, claiming: Self.ada) == .nameClash(knownAs: ada.fingerprint))
        #expect(store.trustStatus(claiming: impostor.id, named: Self.ada) == .nameClash(knownAs: ada.fingerprint))
        store.recordContact(with: impostor, named: Self.ada, at: now)
        #expect(store.trustStatus(of: impostor, claiming: Self.ada) == .nameClash(knownAs: ada.fingerprint))
        #expect(store.trustStatus(of: ada, claiming: Self.ada) == trusted)
        #expect(store.trustStatus(of: ada, claiming: otherName) == trusted)
        store.recordContact(with: ada, named: Self.ada, at: now)
        #expect(store.trustStatus(of: ada, claiming: Self.ada) == trusted)
        #expect(store.trustStatus(of: impostor, claiming: otherName) == .nameClash(knownAs: ada.fingerprint))
        let decoded = try JSONDecoder().decode(TrustStore.self, from: try JSONEncoder().encode(store))
        #expect(decoded == store)
        // A peer that is no longer trusted has only the name that it claims.
        store.setBlocked(ada.fingerprint, to: true)
        store.setBlocked(ada.fingerprint, to: false)
        #expect(store.trustStatus(of: try peer(12), claiming: otherName) == .new)
    }

    @Test(
        "K2, A5: a friend that claims the name of a peer merely seen stays a friend, under its old name; the peer keeps the name"
    )
    func friendBehindAStranger() throws {
        var store = TrustStore()
        let (ada, impostor) = (try peer(10), try peer(11))
        store.recordContact(with: ada, named: try DisplayName("Ada two"), at: now)
        store.recordContact(with: impostor, named: Self.ada, at: now)
        #expect(
            store.trustStatus(of: ada, claiming: Self.ada) == .nameClash(knownAs: impostor.fingerprint), "both are merely seen")
        store.setFriend(ada.fingerprint, to: true)
        #expect(store.trustStatus(of: ada, claiming: Self.ada).isFriend)
        store.recordContact(with: ada, named: Self.ada, at: now)
        // Whom the user means by the name is not for the friend to decide.
        #expect(store[ada.fingerprint]?.claimedName.claimed == "Ada two")
        #expect(store.name(of: ada.fingerprint, claiming: Self.ada).claimed == "Ada two")
        #expect(store.otherOwner(of: Self.ada, claimedBy: ada.fingerprint) == impostor.fingerprint)
        #expect(store.trustStatus(of: impostor, claiming: Self.ada) == .known(.seen, isFriend: false))
        #expect(store.otherOwner(of: Self.ada, claimedBy: impostor.fingerprint) == nil)
        #expect(store.name(of: impostor.fingerprint, claiming: Self.ada) == Self.ada)
        // A name that the local user has given is no peer's to claim.
        store.rename(impostor.fingerprint, to: Self.ada)
        #expect(store.otherOwner(of: Self.ada, claimedBy: ada.fingerprint) == impostor.fingerprint)
        #expect(store.name(of: ada.fingerprint, claiming: Self.ada).claimed == "Ada two")
        // The friend has the name that the user has given to it, whatever it claims.
        store.rename(ada.fingerprint, to: try DisplayName("My Ada"))
        store.rename(impostor.fingerprint, to: nil)
        #expect(store.otherOwner(of: Self.ada, claimedBy: ada.fingerprint) == nil)
        #expect(store.name(of: ada.fingerprint, claiming: Self.ada).claimed == "My Ada")
    }

    @Test(
        "T9: a claim that mixes alphabets replaces no stored name, and a friend is shown under the stored one",
        arguments: [true, false])
    func mixedAlphabets(isFriend: Bool) throws {
        var store = TrustStore()
        let (ada, clara) = (try peer(10), try peer(11))
        let (name, imitation) = (try DisplayName("Clara"), try DisplayName("\u{410}da"))
        store.recordContact(with: ada, named: Self.ada, at: now)
        store.recordContact(with: clara, named: name, at: now)
        store.setFriend(clara.fingerprint, to: isFriend)
        store.recordContact(with: clara, named: imitation, at: now)
        #expect(store[clara.fingerprint]?.claimedName == name)
        #expect(store.name(of: clara.fingerprint, claiming: imitation) == (isFriend ? name : imitation))
        // A new peer is known by the name that it claims, and the question about it says that it mixes alphabets.
        let new = try peer(12)
        store.recordContact(with: new, named: imitation, at: now)
        #expect(store[new.fingerprint]?.claimedName == imitation)
    }

    @Test("K2: a friend returns to a name of its own that a peer has claimed meanwhile") func friendReturnsToItsName() throws {
        var store = TrustStore()
        let (ada, impostor) = (try peer(10), try peer(11))
        let other = try DisplayName("Ada two")
        store.recordVerification(of: ada, named: Self.ada, at: now)
        store.recordContact(with: ada, named: other, at: now)
        store.recordContact(with: impostor, named: Self.ada, at: now)
        #expect(store.otherOwner(of: Self.ada, claimedBy: ada.fingerprint) == nil)
        #expect(store.otherOwner(of: Self.ada, claimedBy: impostor.fingerprint) == ada.fingerprint)
        store.recordContact(with: ada, named: Self.ada, at: now)
        #expect(store[ada.fingerprint]?.claimedName == Self.ada)
        #expect(store.name(of: ada.fingerprint, claiming: other) == other)
    }

    @Test("K2: of two peers of one name the verified one has it, if the other was only seen") func verifiedSecond() throws {
        var store = TrustStore()
        let (first, second) = (try peer(10), try peer(11))
        store.recordContact(with: first, named: Self.ada, at: now)
        store.recordVerification(of: second, named: Self.ada, at: now)
        #expect(store.trustStatus(of: second, claiming: Self.ada).isVerified)
        #expect(store.trustStatus(of: first, claiming: Self.ada) == .nameClash(knownAs: second.fingerprint))
    }

    @Test("R6: a friend who has many names keeps few of them") func manyNames() throws {
        var store = TrustStore()
        let friend = try peer(10)
        store.recordVerification(of: friend, named: Self.ada, at: now)
        for number in 0..<20 { store.recordContact(with: friend, named: try DisplayName("name \(number % 15)"), at: now) }
        let names = try #require(store[friend.fingerprint]?.formerNames.map(\.claimed))
        #expect(names.count == 8 && Set(names).count == 8 && names.last == "name 3" && !names.contains("name 4"))
    }

    @Test("K3: differing codes revoke an earlier verification, and nothing else") func denied() throws {
        var store = TrustStore()
        let (ada, eve) = (try peer(10), try peer(11))
        store.recordVerification(of: ada, named: Self.ada, at: now)
        store.setFriend(ada.fingerprint, to: true)
        store.recordMismatch(with: ada)
        #expect(store.trustStatus(of: ada, claiming: Self.ada) == .known(.seen, isFriend: true))
        store.recordMismatch(with: eve)
        #expect(store[eve.fingerprint] == nil)
        store.recordContact(with: eve, named: try DisplayName("Eve"), at: now)
        store.setBlocked(eve.fingerprint, to: true)
        store.recordMismatch(with: eve)
        let isVerified = store.recordVerification(of: eve, named: try DisplayName("Eve"), at: now)
        #expect(!isVerified)
        #expect(store.trustStatus(of: eve, claiming: nil).isBlocked)
    }

    @Test("K2: the name of a forgotten or blocked peer is free for the next one that claims it", arguments: [true, false])
    func nameIsFreed(byForgetting: Bool) throws {
        var store = TrustStore()
        let (first, second, third) = (try peer(10), try peer(11), try peer(12))
        store.recordContact(with: first, named: Self.ada, at: now)
        store.recordContact(with: second, named: Self.ada, at: now)
        if byForgetting { store.remove(first.fingerprint) } else { store.setBlocked(first.fingerprint, to: true) }
        #expect(store.trustStatus(of: second, claiming: Self.ada) == .known(.seen, isFriend: false))
        #expect(store.trustStatus(of: third, claiming: Self.ada) == .new)
        store.recordContact(with: second, named: Self.ada, at: now)
        #expect(store.trustStatus(of: third, claiming: Self.ada) == .nameClash(knownAs: second.fingerprint))
    }

    @Test("K2: a blocked peer is blocked under every name") func blockedUnderEveryName() throws {
        var store = TrustStore()
        let (ada, eve) = (try peer(10), try peer(11))
        store.recordContact(with: ada, named: Self.ada, at: now)
        store.recordContact(with: eve, named: try DisplayName("Eve"), at: now)
        store.setBlocked(eve.fingerprint, to: true)
        for name in [Self.ada, try DisplayName("Eve"), try DisplayName("Mallory"), nil] {
            #expect(store.trustStatus(of: eve, claiming: name).isBlocked)
        }
    }

    @Test(
        "K2: neither the case of ß, nor what has no shape, nor another composition makes another name",
        arguments: [("Groß", "GROSS"), ("Ada", "A\u{200b}d\u{2060}a"), ("José", "jose\u{301}")])
    func alike(_ names: (known: String, claimed: String)) throws {
        var store = TrustStore()
        let known = try peer(10)
        store.recordContact(with: known, named: try DisplayName(names.known), at: now)
        #expect(
            store.trustStatus(of: try peer(11), claiming: try DisplayName(names.claimed))
                == .nameClash(knownAs: known.fingerprint))
    }

    @Test("A5: only a key makes a friend, and blocking ends it") func friends() throws {
        var store = TrustStore()
        let friend = try peer(10)
        #expect(store.setFriend(friend.fingerprint, to: true) == false)
        store.recordContact(with: friend, named: Self.ada, at: now)
        #expect(store.setFriend(friend.fingerprint, to: true) == true)
        #expect(store.trustStatus(of: friend, claiming: nil).isFriend)
        #expect(!store.trustStatus(of: try peer(11), claiming: Self.ada).isFriend)
        #expect(store.setBlocked(friend.fingerprint, to: true) == true)
        #expect(!store.trustStatus(of: friend, claiming: Self.ada).isFriend)
        #expect(store.trustStatus(of: friend, claiming: Self.ada).isBlocked)
        store.recordVerification(of: friend, named: Self.ada, at: now)
        #expect(store.trustStatus(of: friend, claiming: Self.ada).isBlocked, "comparing codes does not lift a block")
        #expect(store.setBlocked(friend.fingerprint, to: false) == true)
        #expect(store.trustStatus(of: friend, claiming: Self.ada) == .known(.seen, isFriend: false))
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
        var store = TrustStore()
        let silent = try peer(10)
        #expect(store.block(silent.fingerprint, named: Self.ada, at: now) == true)
        #expect(store.trustStatus(of: silent, claiming: nil).isBlocked)
        let read = try JSONDecoder().decode(TrustStore.self, from: try JSONEncoder().encode(store))
        #expect(read == store)
        #expect(store.setBlocked(silent.fingerprint, to: false) == true)
        #expect(store.trustStatus(of: silent, claiming: Self.ada) == .new)
        #expect(store.setFriend(silent.fingerprint, to: true) == false)
        // One that has proven its key meanwhile is known.
        #expect(store.block(silent.fingerprint, named: Self.ada, at: now) == true)
        store.recordContact(with: silent, named: Self.ada, at: now)
        #expect(store.setBlocked(silent.fingerprint, to: false) == true)
        #expect(store.trustStatus(of: silent, claiming: Self.ada) == .known(.seen, isFriend: false))
        #expect(store.block(silent.fingerprint, named: try DisplayName("Eve"), at: now) == true)
        #expect(store[silent.fingerprint]?.claimedName == Self.ada)
    }

    @Test func `a forgotten peer is new again`() throws {
        var store = TrustStore()
        let known = try peer(10)
        store.recordContact(with: known, named: Self.ada, at: now)
        #expect(store.entry(claiming: known.id)?.fingerprint == known.fingerprint)
        #expect(store.remove(known.fingerprint) == true)
        #expect(store.remove(known.fingerprint) == false)
        #expect(store.trustStatus(of: known, claiming: Self.ada) == .new)
        #expect(store.entry(claiming: known.id) == nil)
    }

    @Test("D5: a clock that goes back does not make a peer older") func times() throws {
        var store = TrustStore()
        let known = try peer(10)
        store.recordContact(with: known, named: Self.ada, at: now)
        store.recordContact(with: known, named: Self.ada, at: WallTime(milliseconds: 5))
        #expect(store[known.fingerprint]?.lastSeen == now)
        #expect(store[known.fingerprint]?.firstSeen == now)
    }

    @Test func `a stored file is read as it was written`() throws {
        var store = TrustStore()
        for byte in 10..<14 as Range<UInt8> { store.recordContact(with: try peer(byte), named: Self.ada, at: now) }
        store.recordVerification(of: try peer(10), named: Self.ada, at: now)
        store.rename(try peer(11).fingerprint, to: try DisplayName("x"))
        let decoded = try JSONDecoder().decode(TrustStore.self, from: try JSONEncoder().encode(store))
        #expect(decoded == store)
    }

    @Test func `a file that names a peer twice, or one without a name, is rejected`() throws {
        var store = TrustStore()
        store.recordContact(with: try peer(10), named: Self.ada, at: now)
        let record = String(decoding: try JSONEncoder().encode(store).dropFirst().dropLast(), as: UTF8.self)
        func decode(_ json: String) throws -> TrustStore { try JSONDecoder().decode(TrustStore.self, from: Data(json.utf8)) }
        #expect(try decode("[\(record)]") == store)
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
        func store(_ count: Int, friends: (Int) -> Bool) throws -> TrustStore {
            let json = "[\((0..<count).map { record($0, friends($0)) }.joined(separator: ","))]"
            return try JSONDecoder().decode(TrustStore.self, from: Data(json.utf8))
        }
        #expect(try store(TrustStore.capacity + 10) { _ in false }.entries.count == TrustStore.capacity)
        // The first is a friend: the second gives way.
        var full = try store(TrustStore.capacity) { $0 == 0 }
        full.recordContact(with: try peer(10), named: Self.ada, at: now)
        #expect(full.entries.count == TrustStore.capacity)
        #expect(full.entries.values.contains { $0.isFriend })
        #expect(!full.entries.values.contains { $0.claimedName.claimed == "p1" })
        var friends = try store(TrustStore.capacity) { _ in true }
        friends.recordContact(with: try peer(10), named: Self.ada, at: now)
        #expect(friends[try peer(10).fingerprint] == nil)
        let isVerified = friends.recordVerification(of: try peer(10), named: Self.ada, at: now)
        #expect(!isVerified)
    }
}
