import Logging
import Nearshare
import NearshareTesting
import Testing

@testable import NearshareEngine
@testable import NearshareMesh
@testable import NearshareService

private let day = WallTime(milliseconds: 86_400_000)

private func fingerprint(_ byte: UInt8) -> Fingerprint { Fingerprint(bytes: [UInt8](repeating: byte, count: 32))! }

private func identity(_ byte: UInt8) -> LocalIdentity { LocalIdentity(seed: [UInt8](repeating: byte, count: 64)) }

@Test("K2: whoever verifies a peer with the name of another known one is told to use its id")
func verifiedUnderTheNameOfAnother() throws {
    var trust = TrustStore()
    let ben = try DisplayName("ben")
    let (known, other) = (fingerprint(1), fingerprint(2).peerID)
    #expect(VerificationOperation.successText(for: ben, other, in: trust) == "ben is verified")
    _ = trust.introduce(known, claiming: ben, as: ben, at: day)
    #expect(VerificationOperation.successText(for: ben, known.peerID, in: trust) == "ben is verified")
    #expect(
        VerificationOperation.successText(for: ben, other, in: trust)
            == "ben#0202 is verified; another peer that you know, \(known.peerID), has this name as well: use the id \(other)"
    )
    #expect(VerificationOperation.successText(for: ben, other, in: nil) == "ben is verified")
}

@Suite("the peer that a text means")
struct NamedKeyTests {
    private let stage = ServiceStage()

    private func find(_ text: String) throws -> Fingerprint? {
        let keys = try [(1, "anna"), (2, "annabel"), (3, "Ben"), (4, "dora"), (5, "dora")].map {
            NamedKey(fingerprint: fingerprint($0.0), name: try DisplayName($0.1))
        }
        return try NamedKey.find(text, among: keys)?.fingerprint
    }

    @Test("a whole name goes before the beginning of one; ids and fingerprints are unambiguous")
    func found() throws {
        #expect(try find("anna") == fingerprint(1))
        #expect(try find("annab") == fingerprint(2))
        #expect(try find("b") == fingerprint(3))
        #expect(try find("BEN") == fingerprint(3))
        #expect(try find(fingerprint(5).peerID.hex) == fingerprint(5))
        #expect(try find(fingerprint(4).hex.uppercased()) == fingerprint(4))
    }

    @Test("K2: a name in the form of another peer's id selects no peer")
    func idAsName() throws {
        let name = fingerprint(1).peerID.hex
        let key = NamedKey(fingerprint: fingerprint(2), name: try DisplayName(name))
        let renamed = NamedKey(fingerprint: fingerprint(3), name: try DisplayName("Mal"), otherName: try DisplayName(name))
        for text in [name, name.uppercased(), String(name.prefix(6))] {
            #expect(try NamedKey.find(text, among: [key]) == nil)
            #expect(try NamedKey.find(text, among: [renamed]) == nil)
        }
        #expect(try NamedKey.find(fingerprint(2).peerID.hex, among: [key]) == key)
        var trust = TrustStore()
        _ = trust.introduce(key.fingerprint, claiming: key.name, as: key.name, at: WallTime(milliseconds: 1))
        #expect(trust.peersListed(as: name).isEmpty && trust.knownPeers(selectedBy: name).isEmpty)
    }

    @Test("a text that means several peers is an error that lists their ids", arguments: ["an", "dora", "d"])
    func ambiguous(_ text: String) {
        let failure = #expect(throws: CommandFailure.self) { try find(text) }
        #expect(failure?.status == .peerNotFound)
        #expect(failure?.message.contains("matches several peers") == true)
        #expect(failure?.message.contains(fingerprint(text == "an" ? 2 : 5).peerID.hex) == true)
    }

    @Test func `a list of peers with similar names tells the trust in each`() throws {
        var trust = TrustStore()
        for (byte, text) in [(UInt8(1), "anna"), (2, "annabel")] {
            let name = try DisplayName(text)
            _ = trust.introduce(fingerprint(byte), claiming: name, as: name, at: WallTime(milliseconds: 1))
        }
        _ = trust.setFriend(fingerprint(2), to: true)
        let failure = #expect(throws: CommandFailure.self) { _ = try trust.requirePeer(named: "an") }
        let (anna, annabel) = (fingerprint(1).peerID, fingerprint(2).peerID)
        #expect(failure?.message.hasSuffix("\n  anna  \(anna)  seen\n  annabel  \(annabel)  friend") == true)
        let newcomer = try DisplayName("anne")
        let clash = #expect(throws: ControlFailure.self) {
            try trust.requireUnambiguous(newcomer, fingerprint(3).peerID, selectedBy: "ann")
        }
        #expect(clash?.description.contains("\n  anne  \(fingerprint(3).peerID)  new") == true)
    }

    @Test("K2: a peer that claimed the name of another one, and was renamed, is not meant by that name, nor by its beginning")
    func renamedImpostor() throws {
        var trust = TrustStore()
        let (anna, given) = (try DisplayName("anna"), try DisplayName("Fake anna"))
        _ = trust.introduce(fingerprint(1), claiming: anna, as: anna, at: day)
        trust.rename(fingerprint(1), to: nil)
        _ = trust.introduce(fingerprint(2), claiming: anna, as: given, at: day)
        for text in ["anna", "ann"] {
            #expect(trust.trustedPeers(named: text).isEmpty)
            #expect(try trust.peer(named: text)?.fingerprint == fingerprint(1))
            try trust.requireUnambiguous(anna, fingerprint(1).peerID, selectedBy: text)
        }
        #expect(trust.trustedPeers(named: "fake").map(\.fingerprint) == [fingerprint(2)])
    }

    @Test(
        "K2: lists of transfers tag a peer that uses the name of a known one, also while it is in no file, and not the known one"
    )
    func listedNames() throws {
        var trust = TrustStore()
        let (ben, other) = (try DisplayName("ben"), fingerprint(2).peerID)
        _ = trust.introduce(fingerprint(1), claiming: ben, as: ben, at: day)
        trust.rename(fingerprint(1), to: nil)
        for isForgotten in [false, true] {
            if isForgotten {
                _ = trust.introduce(fingerprint(2), claiming: ben, as: ben, at: day)
                trust.rename(fingerprint(2), to: nil)
                trust.remove(fingerprint(2))
            }
            #expect(trust.listedName(of: fingerprint(1).peerID, claiming: ben) == "ben")
            #expect(trust.listedName(of: other, claiming: ben) == "ben#\(other.hex.prefix(4))")
        }
    }

    @Test("an empty text, the beginning of every name, means no peer", arguments: ["", " ", "\t\n", "\u{a0}", "zoe"])
    func none(_ text: String) throws {
        #expect(try find(text) == nil)
    }

    @Test("K2: the beginning of an id means known peers alone; names that begin so make it ambiguous")
    func idPrefix() throws {
        func found(_ text: String, named name: String = "anna") throws -> [Fingerprint] {
            let known = [(0x4f, name), (0xb2, "ben")].map { byte, name in
                NamedKey(fingerprint: fingerprint(byte), name: DisplayName(truncating: name)!)
            }
            return NameSelection.withIDPrefix(text, amongKnown: known).map(\.fingerprint)
        }
        for text in ["4f4f", "4F4F4", "4f4f4f4f4f4f4f4"] { #expect(try found(text) == [fingerprint(0x4f)], "\(text)") }
        for text in ["", "4f4", "4f4e", "4f4g", "4f4f4f4f4f4f4f4f", "١٢٣٤"] { #expect(try found(text).isEmpty, "\(text)") }
        #expect(try found("b2b2", named: "B2B2C") == [fingerprint(0x4f), fingerprint(0xb2)])
        #expect(try found("b2b2", named: "B2B2").isEmpty)
        #expect(try found("b2b2", named: "b2b").map(\.peerID) == [fingerprint(0xb2).peerID])
        var trust = TrustStore()
        let alike = [UInt8(1), 2].map { Fingerprint(bytes: [0x4f, 0x4f] + [UInt8](repeating: $0, count: 30))! }
        for key in alike { trust.recordDevice(key, certificate: [1], named: try DisplayName("x"), at: day) }
        #expect(Set(trust.peers(withIDPrefix: "4f4f").map(\.fingerprint)) == Set(alike))
        #expect(trust.peers(withIDPrefix: "4f4f01").map(\.fingerprint) == [alike[0]])
        // The tag behind the name, as it is shown.
        let name = try #require(trust[alike[0]]?.name.claimed)
        #expect(trust.peers(withIDPrefix: "\(name.uppercased())#4f4f01").map(\.fingerprint) == [alike[0]])
        #expect(trust.peers(withIDPrefix: "x\(name)#4f4f01").isEmpty && trust.peers(withIDPrefix: "\(name)#4f").isEmpty)
    }

    @Test("K2: the beginning of a friend's id is that of the friend, whatever names newcomers have")
    func directory() async throws {
        let user = try stage.user("bea")
        try user.introduce(fingerprint(0x4f), as: "anna", isFriend: true)
        let directory = ContactDirectory(user.machine)
        #expect(try await directory.knownContact("4f4f")?.id == fingerprint(0x4f).peerID)
        #expect(try await directory.find("4F4F4F", timeout: .zero).id == fingerprint(0x4f).peerID)
        let second = Fingerprint(bytes: [0x4f, 0x4f] + [UInt8](repeating: 1, count: 30))!
        try user.introduce(second, as: "ben")
        let failure = await #expect(throws: ControlFailure.self) { try await directory.find("4f4f", timeout: .zero) }
        #expect(failure?.description.contains("4f4f matches several peers; use the id of one") == true)
        try user.machine.trust.update { _ = $0.setBlocked(second, to: true) }
        #expect(try directory.snapshot().blockedPeer(named: "4f4f01")?.fingerprint == second)
        #expect(try directory.snapshot().blockedPeer(named: "4f4f4f") == nil)
    }

    @Test("T1: an ambiguous text is escaped")
    func escaped() throws {
        let keys = [
            NamedKey(fingerprint: fingerprint(1), name: DisplayName(truncating: "\u{1b}[2Ja")!),
            NamedKey(fingerprint: fingerprint(2), name: DisplayName(truncating: "\u{1b}[2Jb")!),
        ]
        let failure = #expect(throws: CommandFailure.self) { try NamedKey.find("\u{1b}[2J", among: keys) }
        #expect(failure?.message.unicodeScalars.contains("\u{1b}") == false)
    }

    @Test("a known peer is found in the trust store, or reported")
    func trustStore() throws {
        var trust = TrustStore()
        let anna = try DisplayName("anna")
        let isStored = trust.introduce(fingerprint(1), claiming: anna, as: anna, at: day)
        #expect(isStored)
        #expect(try trust.peer(named: "ann")?.fingerprint == fingerprint(1))
        #expect(try trust.requirePeer(named: fingerprint(1).hex).entry.name == anna)
        #expect(try trust.peer(named: "ben") == nil)
        let failure = #expect(throws: CommandFailure.self) { try trust.requirePeer(named: "ben") }
        #expect(failure?.status == .peerNotFound)
        // A peer that was met under a name of another one is found by its id only.
        trust.recordDevice(fingerprint(2), certificate: [1], named: anna, at: day)
        #expect(try trust.peer(named: "anna")?.fingerprint == fingerprint(1))
        #expect(try trust.peer(named: fingerprint(2).peerID.hex)?.fingerprint == fingerprint(2))
    }
}

@Suite("contacts, from the user's files and the peers in range")
struct ContactSnapshotTests {
    private let anna = identity(1)
    private let ben = identity(2)
    private let cleo = identity(3)

    private func snapshot(
        blueChat: [(UInt8, String)] = [], nearby: [(LocalIdentity, String)] = [], written: [(LocalIdentity, String)] = [],
        _ change: (inout TrustStore, inout ContactBook) throws -> Void
    ) throws -> ContactSnapshot {
        var (trust, book) = (TrustStore(), ContactBook())
        try change(&trust, &book)
        var presence = ContactSnapshot.Presence()
        for (byte, name) in blueChat {
            let id = PeerID(bytes: [UInt8](repeating: byte, count: 8))!
            presence.blueChatPeers[id] = BlueChatPeer(id: id, name: try DisplayName(name))
        }
        for (identity, name) in nearby {
            presence.meshPeers[identity.peerID] = MeshPeer(
                id: identity.peerID, name: try DisplayName(name), fingerprint: identity.fingerprint, capabilities: nil,
                isDirect: true, isReachable: true, hops: 1, statedFragmentLimit: nil)
        }
        let names = try written.map { ($0.0.peerID, try DisplayName($0.1)) }
        return ContactSnapshot(
            trust: trust, addressBook: book, presence: presence, conversationNames: Dictionary(names) { $1 })
    }

    private func introduce(_ identity: LocalIdentity, _ name: String, to trust: inout TrustStore) throws {
        let name = try DisplayName(name)
        let isStored = trust.introduce(identity.fingerprint, claiming: name, as: name, at: day)
        #expect(isStored)
    }

    @Test(
        "a voice note through the node has the limit that a file has",
        arguments: [
            (0x329, nil, 1_048_576), (0x329, 1_000, 452_976), (0x100, nil, 115_000), (0x100, 1_000, 452_976),
            (0x20, nil, 5 << 20),
        ] as [(UInt64, UInt16?, UInt64)])
    func limits(_ capabilities: UInt64, _ fragments: UInt16?, _ limit: UInt64) throws {
        var presence = try snapshot(nearby: [(anna, "anna")]) { _, _ in }.presence
        presence.meshPeers[anna.peerID]?.capabilities = MeshCapabilities(rawValue: capabilities)
        presence.meshPeers[anna.peerID]?.statedFragmentLimit = fragments
        let contact = ContactSnapshot(trust: TrustStore(), addressBook: ContactBook(), presence: presence).contact(anna.peerID)
        #expect(contact.contentLimit == limit)
        #expect(VoiceNoteReceivers(through: contact).limit?.byteCount == limit)
    }

    @Test("a voice note for a contact that is away fits a phone, and the reason names no phone that it may not have")
    func absent() throws {
        let contact = Contact(
            id: anna.peerID, name: try DisplayName("anna"), trustStatus: .new, isNear: false, software: .unknown, hasKeys: true)
        let receivers = VoiceNoteReceivers(through: contact)
        #expect(receivers.limit?.byteCount == 115_000)
        #expect(receivers.limitText == "anna's app is not known, and phones accept notes of at most 115 KB")
    }

    @Test("a list has friends, peers in range and conversations, near ones first, and no blocked peer")
    func listed() throws {
        let snapshot = try snapshot(blueChat: [(9, "zoe")]) { trust, _ in
            try introduce(anna, "anna", to: &trust)
            try introduce(ben, "ben", to: &trust)
            try introduce(cleo, "cleo", to: &trust)
            trust.setFriend(anna.fingerprint, to: true)
            trust.setBlocked(cleo.fingerprint, to: true)
        }
        #expect(snapshot.listed(with: []).map(\.name.claimed) == ["zoe", "anna"])
        let all = snapshot.listed(with: [ben.peerID, cleo.peerID])
        #expect(all.map(\.name.claimed) == ["zoe", "anna", "ben"])
        #expect(all.map(\.isNear) == [true, false, false])
        #expect(all.map(\.isFriend) == [false, true, false])
        #expect(all.map(\.software) == [.blueChat, .unknown, .unknown])
    }

    @Test("a contact has the given name before the claimed one, and its id where there is none")
    func names() throws {
        let snapshot = try snapshot { trust, _ in
            try introduce(anna, "anna", to: &trust)
            trust.rename(anna.fingerprint, to: try DisplayName("Mum"))
        }
        #expect(snapshot.contact(anna.peerID).name.claimed == "Mum")
        #expect(snapshot.contact(ben.peerID).name.claimed == ben.peerID.hex)
        #expect(snapshot.contact(ben.peerID).trustStatus == .new)
        #expect(snapshot.knownName(of: anna.peerID)?.claimed == "Mum")
        #expect(snapshot.knownName(of: ben.peerID) == nil)
    }

    @Test(
        "the sender of a message is the owner of the key that sealed it, or that signed a public one", arguments: [true, false])
    func sender(isProven: Bool) throws {
        let snapshot = try snapshot { trust, book in
            try introduce(anna, "anna", to: &trust)
            let isRecorded = book.storeAnnouncedKeys(
                agreementKey: anna.agreementKey.publicKey, signingKey: anna.signingKey.publicKey, name: try DisplayName("anna"),
                isProven: isProven, isFriend: { _ in true }, at: day)
            #expect(isRecorded)
        }
        func received(sealedBy sender: PeerID?, signedBy signer: EndpointID) -> ReceivedMessage {
            let bundle = ReceivedBundle(
                id: BundleID(bytes: [UInt8](0..<16))!, sender: sender, signer: signer, content: [],
                isForEveryone: sender == nil,
                created: WallTime(milliseconds: 0), received: WallTime(milliseconds: 0), hops: 1)
            return ReceivedMessage(bundle, contacts: snapshot)
        }
        let sealed = received(sealedBy: ben.peerID, signedBy: EndpointID(rawValue: 1))
        #expect(sealed.sender == ben.peerID && sealed.senderName == nil)
        let signed = received(sealedBy: nil, signedBy: EndpointID(of: anna.signingKey.publicKey))
        #expect(signed.sender == (isProven ? anna.peerID : nil))
        #expect(signed.senderName?.claimed == (isProven ? "anna" : nil))
    }

    @Test("K2: a newcomer that writes under a friend's name is known as such, near or away", arguments: [true, false])
    func impostor(isNear: Bool) throws {
        for name in ["anna", "ANNA", "anna ", "\u{202e}anna"] {
            let snapshot = try snapshot(nearby: isNear ? [(ben, name)] : []) { trust, book in
                try introduce(anna, "anna", to: &trust)
                trust.setFriend(anna.fingerprint, to: true)
                let isRecorded = book.storeAnnouncedKeys(
                    agreementKey: ben.agreementKey.publicKey, signingKey: ben.signingKey.publicKey,
                    name: try DisplayName(name), isProven: true, isFriend: { _ in false }, at: day)
                #expect(isRecorded)
            }
            func received(from sender: PeerID) -> ReceivedMessage {
                let bundle = ReceivedBundle(
                    id: BundleID(bytes: [UInt8](0..<16))!, sender: sender, signer: EndpointID(rawValue: 1), content: [],
                    isForEveryone: false, created: day, received: day, hops: 1)
                return ReceivedMessage(bundle, contacts: snapshot)
            }
            let message = received(from: ben.peerID)
            #expect(message.trustStatus == .nameClash(knownAs: anna.fingerprint))
            #expect(message.shownSender?.hasSuffix("#\(ben.peerID.hex.prefix(4))") == true)
            #expect(message.nameWarning?.contains(anna.peerID.hex) == true)
            let friend = received(from: anna.peerID)
            #expect(friend.shownSender == "anna" && friend.nameWarning == nil)
        }
    }

    @Test("a peer that has left is found by the name in its conversation")
    func conversationName() throws {
        let snapshot = try snapshot(written: [(ben, "Later")]) { _, _ in }
        let contact = try #require(try snapshot.contact(named: "later", with: [ben.peerID]))
        #expect(contact.id == ben.peerID && contact.name.claimed == "Later" && !contact.isNear)
        #expect(snapshot.listed(with: [ben.peerID]).map(\.name.claimed) == ["Later"])
        // Another one that comes with the name is not taken for it (K2).
        let near = try self.snapshot(nearby: [(cleo, "Later")], written: [(ben, "Later")]) { _, _ in }
        let failure = #expect(throws: ControlFailure.self) { try near.contact(named: "later", with: [self.ben.peerID]) }
        #expect(failure?.description.contains(ben.peerID.hex) == true && failure?.description.contains(cleo.peerID.hex) == true)
    }

    @Test("K2: a conversation under the name of a known peer does not make the name ambiguous")
    func conversationWithKnownName() throws {
        let snapshot = try snapshot(nearby: [(anna, "anna")], written: [(ben, "Anna")]) { trust, _ in
            try introduce(anna, "anna", to: &trust)
        }
        #expect(try snapshot.contact(named: "anna", with: [ben.peerID])?.id == anna.peerID)
    }

    @Test("a text means contacts of all sources, by id or name, but no peer that proves nothing")
    func named() throws {
        let snapshot = try snapshot(blueChat: [(9, "berta")]) { trust, _ in
            try introduce(anna, "anna", to: &trust)
            try introduce(ben, "ben", to: &trust)
            trust.setFriend(anna.fingerprint, to: true)
        }
        #expect(try snapshot.contact(named: "ANN", with: [])?.id == anna.peerID)
        #expect(try snapshot.contact(named: anna.peerID.hex, with: [])?.id == anna.peerID)
        // Known, but neither a friend nor in a conversation.
        #expect(try snapshot.contact(named: "ben", with: []) == nil)
        #expect(try snapshot.contact(named: "ben", with: [ben.peerID])?.id == ben.peerID)
        #expect(try snapshot.contact(named: "berta", with: []) == nil)
        // The name that the list of known peers shows, of a peer that calls itself otherwise now.
        let renamed = try self.snapshot(nearby: [(ben, "zoe")]) { trust, _ in
            try introduce(ben, "Ben-box", to: &trust)
            trust.rename(ben.fingerprint, to: nil)
        }
        #expect(try renamed.contact(named: "ben-box", with: [])?.id == ben.peerID)
        #expect(try renamed.contact(named: "zoe", with: [])?.id == ben.peerID)
        #expect(try snapshot.blueChatPeer(named: "bert")?.software == .blueChat)
        #expect(snapshot.remembered("ben")?.id == ben.peerID)
        #expect(snapshot.remembered("") == nil)
        let failure = #expect(throws: ControlFailure.self) {
            try self.snapshot { trust, _ in
                try self.introduce(self.ben, "nn", to: &trust)
                try self.introduce(self.cleo, "nnn", to: &trust)
            }.contact(named: "n", with: [self.ben.peerID, self.cleo.peerID])
        }
        #expect(failure?.kind == .ambiguous)
    }

    @Test("K2: a newcomer with the beginning of a trusted peer's name is not meant by it, and neither is that peer")
    func newcomer() throws {
        let (mallory, text) = (cleo, "anna")
        func snapshot(trusting: [(LocalIdentity, String)], knowsMallory: Bool = false) throws -> ContactSnapshot {
            try self.snapshot(nearby: [(mallory, text)]) { trust, _ in
                for (friend, name) in trusting {
                    try introduce(friend, name, to: &trust)
                    trust.setFriend(friend.fingerprint, to: true)
                }
                guard knowsMallory else { return }
                try introduce(mallory, text, to: &trust)
                trust.rename(mallory.fingerprint, to: nil)
            }
        }
        let one = try snapshot(trusting: [(anna, "anna-box")])
        let clash = #expect(throws: ControlFailure.self) { try one.contact(named: text, with: []) }
        #expect(clash?.kind == .ambiguous)
        for peer in [anna, mallory] { #expect(clash?.description.contains(peer.peerID.hex) == true) }
        #expect(try one.contact(named: "anna-", with: [])?.id == anna.peerID)
        #expect(try one.contact(named: mallory.peerID.hex, with: [])?.id == mallory.peerID)
        let two = try snapshot(trusting: [(anna, "anna-box"), (ben, "anna-laptop")])
        let failure = #expect(throws: ControlFailure.self) { try two.contact(named: text, with: []) }
        #expect(failure?.description.contains("anna-laptop") == true)
        // A peer that the user knows by this whole name is meant by it.
        let known = try snapshot(trusting: [(anna, "anna-box")], knowsMallory: true)
        #expect(try known.contact(named: text, with: [])?.id == mallory.peerID)
    }

    @Test("a known peer that is away is waited for by its whole name, and makes the beginning of it ambiguous")
    func away() throws {
        func snapshot(isFriend: Bool) throws -> ContactSnapshot {
            try self.snapshot(nearby: [(ben, "annalise")]) { trust, _ in
                for (identity, name) in [(anna, "anna"), (ben, "annalise")] {
                    try introduce(identity, name, to: &trust)
                    trust.rename(identity.fingerprint, to: nil)
                }
                trust.setFriend(ben.fingerprint, to: isFriend)
            }
        }
        for isFriend in [false, true] {
            let snapshot = try snapshot(isFriend: isFriend)
            #expect(try snapshot.contact(named: "anna", with: []) == nil)
            #expect(try snapshot.contact(named: "Annal", with: [])?.id == ben.peerID)
            let failure = #expect(throws: ControlFailure.self) { try snapshot.contact(named: "ann", with: []) }
            #expect(failure?.kind == .ambiguous)
            for peer in [anna, ben] { #expect(failure?.description.contains(peer.peerID.hex) == true) }
        }
        // Several names that begin so do not end the wait either.
        let several = try self.snapshot(nearby: [(ben, "annalise"), (cleo, "annabel")]) { trust, _ in
            try introduce(anna, "anna", to: &trust)
            trust.rename(anna.fingerprint, to: nil)
        }
        #expect(try several.contact(named: "anna", with: []) == nil)
    }

    @Test(
        "K2: a peer with the name of a known one is not meant by it, whoever it is, near or away",
        arguments: ["annabelle", "Annabelle", "annabelle\u{200b}"])
    func nameOfAnother(_ claimed: String) throws {
        let known = try DisplayName("annabelle")
        let claim = try DisplayName(claimed)
        func knowing(_ trust: inout TrustStore) {
            _ = trust.introduce(anna.fingerprint, claiming: known, as: known, at: day)
            trust.rename(anna.fingerprint, to: nil)
        }
        let near = try snapshot(nearby: [(cleo, claimed)]) { trust, _ in knowing(&trust) }
        let away = try snapshot { trust, book in
            knowing(&trust)
            let isRecorded = book.storeAnnouncedKeys(
                agreementKey: cleo.agreementKey.publicKey, signingKey: cleo.signingKey.publicKey, name: claim, isProven: false,
                isFriend: { _ in false }, at: day)
            #expect(isRecorded)
        }
        for snapshot in [near, away] {
            for text in [claimed, "annab"] {
                let failure = #expect(throws: ControlFailure.self) { try snapshot.contact(named: text, with: []) }
                #expect(failure?.kind == .nameClash && failure?.description.contains(anna.peerID.hex) == true)
            }
            #expect(try snapshot.contact(named: cleo.peerID.hex, with: [])?.id == cleo.peerID)
        }
        // The known one, where it is in a list.
        #expect(try near.contact(named: "annabelle", with: [anna.peerID])?.id == anna.peerID)
        let friend = try snapshot(nearby: [(ben, claimed)]) { trust, _ in
            knowing(&trust)
            try introduce(ben, "ben", to: &trust)
            trust.rename(ben.fingerprint, to: nil)
            trust.setFriend(ben.fingerprint, to: true)
        }
        #expect(try friend.contact(named: "annabelle", with: []) == nil)
        #expect(try friend.contact(named: "ben", with: [])?.id == ben.peerID)
        let failure = #expect(throws: ControlFailure.self) {
            try friend.requireUnambiguous(friend.contact(ben.peerID), selectedBy: "annabelle")
        }
        #expect(failure?.kind == .nameClash)
    }

    @Test("K2: a new peer is not meant by the beginning of a known one's name") func beginningOfAnother() throws {
        let snapshot = try snapshot(nearby: [(cleo, "annabel")]) { trust, _ in
            try introduce(anna, "annabelle", to: &trust)
            trust.rename(anna.fingerprint, to: nil)
        }
        let failure = #expect(throws: ControlFailure.self) { try snapshot.contact(named: "ann", with: []) }
        #expect(failure?.kind == .ambiguous && failure?.description.contains("annabelle") == true)
        // Neither by its own whole name, by which that one may be meant.
        let whole = #expect(throws: ControlFailure.self) { try snapshot.contact(named: "annabel", with: []) }
        #expect(whole?.kind == .ambiguous && whole?.description.contains(anna.peerID.hex) == true)
        #expect(try snapshot.contact(named: cleo.peerID.hex, with: [])?.id == cleo.peerID)
        #expect(try snapshot.contact(named: "annabel#\(cleo.peerID.hex.prefix(4))", with: [])?.id == cleo.peerID)
    }

    @Test("a blocked peer does not make another one's name ambiguous, and is found by its id")
    func blocked() throws {
        let snapshot = try snapshot { trust, _ in
            try introduce(anna, "anna", to: &trust)
            try introduce(ben, "annabel", to: &trust)
            trust.setFriend(anna.fingerprint, to: true)
            trust.setFriend(ben.fingerprint, to: true)
            trust.setBlocked(ben.fingerprint, to: true)
        }
        #expect(try snapshot.contact(named: "ann", with: [ben.peerID])?.id == anna.peerID)
        #expect(try snapshot.contact(named: ben.peerID.hex, with: [ben.peerID])?.trustStatus.isBlocked == true)
        #expect(snapshot.remembered("annabel")?.trustStatus.isBlocked == true)
        #expect(snapshot.isBlocked(.announced(ben.peerID)))
        #expect(!snapshot.isBlocked(.announced(anna.peerID)))
        #expect(!snapshot.isBlocked(.announced(cleo.peerID)))
        #expect(!snapshot.isBlocked(.signing(EndpointID(rawValue: 7))))
    }

    @Test("R11: a blocked peer's signing key is blocked, also one that it has only announced", arguments: [true, false])
    func blockedSigner(isProven: Bool) throws {
        let snapshot = try snapshot { trust, book in
            for (peer, name) in [(anna, "anna"), (ben, "ben")] {
                try introduce(peer, name, to: &trust)
                let isRecorded = book.storeAnnouncedKeys(
                    agreementKey: peer.agreementKey.publicKey, signingKey: peer.signingKey.publicKey,
                    name: try DisplayName(name), isProven: isProven, isFriend: { _ in false }, at: day)
                #expect(isRecorded)
            }
            trust.setBlocked(ben.fingerprint, to: true)
        }
        #expect(snapshot.isBlocked(.signing(EndpointID(of: ben.signingKey.publicKey))))
        #expect(!snapshot.isBlocked(.signing(EndpointID(of: anna.signingKey.publicKey))))
    }

    @Test("a blocked peer is found by its listed name, the name that it claims now, a beginning, and its id, in range or not")
    func blockedByName() throws {
        let snapshot = try snapshot(nearby: [(ben, "Robert"), (cleo, "cleo")]) { trust, _ in
            try introduce(anna, "anna", to: &trust)
            try introduce(ben, "ben", to: &trust)
            try introduce(cleo, "annabel", to: &trust)
            for identity in [anna, ben] { trust.setBlocked(identity.fingerprint, to: true) }
        }
        for text in ["anna", "AN", anna.peerID.hex] {
            #expect(try snapshot.blockedPeer(named: text)?.fingerprint == anna.fingerprint)
        }
        for text in ["ben", "rob", ben.peerID.hex] {
            #expect(try snapshot.blockedPeer(named: text)?.fingerprint == ben.fingerprint)
        }
        for text in ["annabel", "cleo", cleo.peerID.hex, "", "zoe"] { #expect(try snapshot.blockedPeer(named: text) == nil) }
        let failure = #expect(throws: ControlFailure.self) {
            try self.snapshot { trust, _ in
                for (identity, name) in [(self.anna, "anna"), (self.ben, "annabel")] {
                    try self.introduce(identity, name, to: &trust)
                    trust.setBlocked(identity.fingerprint, to: true)
                }
            }.blockedPeer(named: "an")
        }
        #expect(failure?.description.contains("matches several peers") == true)
    }

    @Test func `a name that several contacts have is shown with the tag of the key`() throws {
        let contacts = try snapshot(nearby: [(anna, "anna"), (ben, "Anna"), (cleo, "cleo")]) { _, _ in }.listed(with: [])
        let shown = contacts.map { SharedName.shown($0.name, of: $0.id, among: contacts) }
        #expect(shown.sorted() == ["Anna#\(ben.peerID.hex.prefix(4))", "anna#\(anna.peerID.hex.prefix(4))", "cleo"])
    }

    @Test func `of many known peers of one name that are away three are named, and the others counted`() throws {
        let away = (2...6 as ClosedRange<UInt8>).map { fingerprint($0).peerID }
        let notice = SharedName.awayNotice(
            for: try DisplayName("anna"), fingerprint(1).peerID, .known(.seen, isFriend: false), besideKnown: Set(away))
        let listed = away.sorted().prefix(3).map(\.hex).joined(separator: ", ") + ", 2 more"
        #expect(notice?.contains("5 other devices called \"anna\" (\(listed)), not seen now") == true)
    }

    @Test func `of many devices with the name of a known peer that is away three are named, and the others counted`() throws {
        let name = try DisplayName("anna")
        let known = Contact(
            id: fingerprint(1).peerID, name: name, trustStatus: .known(.seen, isFriend: true), isNear: false,
            software: .unknown, hasKeys: true)
        let others = (2...6 as ClosedRange<UInt8>).map {
            Contact(
                id: fingerprint($0).peerID, name: name, trustStatus: .new, isNear: true, software: .unknown, hasKeys: false)
        }
        let ids = others.map(\.id).sorted().prefix(3).map(\.hex).joined(separator: " or ")
        let notice = SharedName.notice(for: known, among: [known] + others)
        #expect(notice?.hasSuffix("use that id: \(ids), or one of 2 more, see `nearshare browse`") == true, "\(notice ?? "")")
    }

    @Test("K2: a name with the tag of a key selects one peer, also under the name of a known one")
    func tagged() throws {
        let snapshot = try snapshot(nearby: [(ben, "Anna"), (cleo, "cleo")]) { trust, _ in
            try introduce(anna, "anna", to: &trust)
            trust.setFriend(anna.fingerprint, to: true)
        }
        let tag = ben.peerID.hex.prefix(4)
        for text in ["Anna#\(tag)", "anna#\(tag.uppercased())", "Anna#\(ben.peerID.hex)"] {
            #expect(try snapshot.contact(named: text, with: [])?.id == ben.peerID)
            try snapshot.requireUnambiguous(snapshot.contact(ben.peerID), selectedBy: text)
        }
        for text in ["Anna#\(tag.prefix(3))", "Ann#\(tag)", "#\(tag)", "Anna#\(cleo.peerID.hex.prefix(4))"] {
            #expect(try snapshot.contact(named: text, with: []) == nil)
        }
        // A name that imitates the tag.
        let imitated = try self.snapshot(nearby: [(ben, "Anna"), (cleo, "Anna#\(tag)")]) { _, _ in }
        let failure = #expect(throws: ControlFailure.self) { try imitated.contact(named: "Anna#\(tag)", with: []) }
        #expect(failure?.kind == .ambiguous)
    }

    @Test func `K2: a verified peer that takes the name of a friend stays verified under its own`() throws {
        let snapshot = try snapshot(nearby: [(ben, "anna")]) { trust, _ in
            try introduce(anna, "anna", to: &trust)
            trust.setFriend(anna.fingerprint, to: true)
            try introduce(ben, "ben", to: &trust)
            trust.rename(ben.fingerprint, to: nil)
            trust.setDeviceVerified(ben.fingerprint, true)
        }
        let contact = snapshot.contact(ben.peerID)
        #expect(contact.name.claimed == "ben" && contact.trustStatus.isVerified)
        #expect(try snapshot.contact(named: "anna", with: [])?.id == anna.peerID)
        #expect(try snapshot.contact(named: "ben", with: [])?.id == ben.peerID)
    }

    @Test(arguments: [true, false])
    func `K2: a known peer that has left is judged by its stored name, not by its last announcement`(
        isListed: Bool
    ) throws {
        let (name, taken) = (try DisplayName("ben"), try DisplayName("anna "))
        var presence = try snapshot(nearby: [(ben, "anna "), (cleo, "ben")]) { _, _ in }.presence
        if isListed {
            presence.meshPeers[ben.peerID]?.isReachable = false
        } else {
            presence.meshPeers[ben.peerID] = nil
        }
        let known = try snapshot { trust, book in
            try introduce(anna, "anna", to: &trust)
            trust.recordEarlierProof(of: ben.fingerprint, named: name, at: day)
            let isRecorded = book.storeAnnouncedKeys(
                agreementKey: ben.agreementKey.publicKey, signingKey: ben.signingKey.publicKey, name: taken, isProven: true,
                isFriend: { _ in false }, at: day)
            #expect(isRecorded)
        }
        let away = ContactSnapshot(trust: known.trust, addressBook: known.addressBook, presence: presence)
        let contact = away.contact(ben.peerID)
        #expect(contact.name == name && contact.trustStatus == .known(.seen, isFriend: false))
        #expect(away.contact(cleo.peerID).trustStatus == .nameClash(knownAs: ben.fingerprint))
        #expect(try away.contact(named: "ben", with: [ben.peerID])?.id == ben.peerID)
        // In range, the name that it announces counts.
        presence.meshPeers[ben.peerID] = presence.meshPeers[cleo.peerID]
        presence.meshPeers[ben.peerID]?.name = taken
        let near = ContactSnapshot(trust: known.trust, addressBook: known.addressBook, presence: presence)
        #expect(near.contact(ben.peerID).trustStatus == .nameClash(knownAs: anna.fingerprint))
        let failure = #expect(throws: ControlFailure.self) {
            try near.contact(ben.peerID).refuseNameClash(in: near.trust)
        }
        let sentence = "ben (\(ben.peerID)) now uses the name of another peer that you know, anna (\(anna.peerID))"
        #expect(failure?.description.contains(sentence) == true)
        #expect(failure?.description.contains("peers forget") == false)
    }

    @Test("a name clash is kept in the contact (K2)")
    func clash() throws {
        let contact = Contact(
            id: anna.peerID, name: try DisplayName("anna"), trustStatus: .nameClash(knownAs: ben.fingerprint), isNear: true,
            software: .nearshare, hasKeys: true)
        #expect(!contact.isFriend)
        let failure = #expect(throws: ControlFailure.self) { try contact.refuseNameClash(in: nil) }
        #expect(failure?.kind == .nameClash && failure?.description.contains(ben.peerID.hex) == true)
    }
}

@Suite("peers that the user makes friends")
struct FriendCandidateTests {
    private let scratch = ScratchFolder()
    private let anna = identity(1)

    private func machine(isProven: Bool) throws -> LocalMachine {
        let machine = try LocalMachine(environment: [
            "HOME": scratch("home"), "XDG_STATE_HOME": scratch("state"), "XDG_CONFIG_HOME": scratch("config"),
            "XDG_RUNTIME_DIR": scratch("run"),
        ])
        let name = try DisplayName("anna")
        try machine.contacts.update { book in
            _ = book.storeAnnouncedKeys(
                agreementKey: anna.agreementKey.publicKey, signingKey: anna.signingKey.publicKey, name: name,
                isProven: isProven, isFriend: { _ in false }, at: day)
        }
        return machine
    }

    @Test("a peer of the address book that has proven its key becomes a friend by its id, and by no name that others may have")
    func met() throws {
        let machine = try machine(isProven: true)
        #expect(try FriendCandidate(known: "anna", on: machine) == nil)
        let candidate = try #require(try FriendCandidate(known: anna.peerID.hex, on: machine))
        #expect(candidate.fingerprint == anna.fingerprint && candidate.name.claimed == "anna")
        #expect(!candidate.isVerified && !candidate.isFriend)
        try candidate.befriend(on: machine)
        #expect(try machine.trust.read()[anna.fingerprint]?.isFriend == true)
        #expect(try FriendCandidate(known: "anna", on: machine)?.isFriend == true)
    }

    @Test("A5: an announced key makes no friend, and neither does one with the name of a known peer")
    func refused() throws {
        #expect(try FriendCandidate(known: anna.peerID.hex, on: try machine(isProven: false)) == nil)
        let (machine, name) = (try machine(isProven: true), try DisplayName("anna"))
        try machine.trust.update { _ = $0.introduce(fingerprint(9), claiming: name, as: name, at: day) }
        let failure = #expect(throws: CommandFailure.self) { try FriendCandidate(known: anna.peerID.hex, on: machine) }
        #expect(
            failure?.status == .notTrusted && failure?.message.contains("with another key, \(fingerprint(9).peerID)") == true)
    }

    @Test("a proven key is found by its id without a connection, and by its name only where the peer is near")
    func resolved() async throws {
        let resolver = FriendResolver(try machine(isProven: true))
        let match = try await resolver.find(anna.peerID.hex) {
            Issue.record("a connection to a peer that is known")
            throw NodeError.notFound("", nearby: [])
        }
        guard case .authenticated(let candidate) = match, candidate.fingerprint == anna.fingerprint else {
            Issue.record("\(match)")
            return
        }
        let away = await #expect(throws: CommandFailure.self) {
            try await resolver.find("anna") { throw NodeError.notFound("anna", nearby: []) }
        }
        #expect(away?.status == .peerNotFound && away?.message.contains("is known, but not nearby") == true)
        await #expect(throws: NodeError.self) {
            try await resolver.find("ben") { throw NodeError.notFound("ben", nearby: []) }
        }
    }

    @Test("K2: the beginning of a known peer's name makes it a friend only where no other peer nearby may be meant")
    func beginning() async throws {
        let (machine, name) = (try machine(isProven: true), try DisplayName("benjamin"))
        try machine.trust.update { _ = $0.introduce(fingerprint(9), claiming: name, as: name, at: day) }
        let resolver = FriendResolver(machine)
        for text in ["benj", "benjamin", fingerprint(9).peerID.hex, fingerprint(9).hex] {
            var isSearched = false
            let match = try await resolver.find(text) {
                isSearched = true
                throw NodeError.notFound(text, nearby: [])
            }
            #expect(isSearched == (text == "benj"))
            guard case .authenticated(let candidate) = match, candidate.fingerprint == fingerprint(9) else {
                Issue.record("\(match)")
                continue
            }
        }
        let failure = await #expect(throws: ControlFailure.self) {
            try await resolver.find("benj") { throw ControlFailure(.ambiguous, "benj is the beginning of several names") }
        }
        #expect(failure?.kind == .ambiguous)
    }

    @Test("K2: the beginning of a known peer's name, and the own name of a renamed one, add no other peer that has it")
    func besideAnother() async throws {
        let machine = try machine(isProven: true)
        let (benjamin, zoe, given) = (try DisplayName("benjamin"), try DisplayName("zoe"), try DisplayName("Zed"))
        try machine.trust.update { trust in
            _ = trust.introduce(fingerprint(9), claiming: benjamin, as: benjamin, at: day)
            _ = trust.introduce(fingerprint(8), claiming: zoe, as: given, at: day)
        }
        let resolver = FriendResolver(machine)
        let other = try #require(try FriendCandidate(known: anna.peerID.hex, on: machine))
        func known(_ match: FriendResolver.Match) -> Fingerprint? {
            if case .authenticated(let candidate) = match { candidate.fingerprint } else { nil }
        }
        for (text, key) in [("benj", fingerprint(9)), ("zoe", fingerprint(8))] {
            // The one that proves its key nearby is another one.
            let nearby = await #expect(throws: CommandFailure.self) { try await resolver.find(text) { other } }
            #expect(nearby?.status == .peerNotFound, "\(text)")
            for id in [other.fingerprint.peerID, key.peerID] { #expect(nearby?.message.contains(id.hex) == true, "\(text)") }
            let away = try await resolver.find(text) { throw NodeError.notFound(text, nearby: []) }
            #expect(known(away) == key)
            let alone = try await resolver.find(text) { throw NetworkNotice.SearchFailure(text: text) }
            #expect(known(alone) == key)
            // A friend is one already.
            try machine.trust.update { _ = $0.setFriend(key, to: true) }
            let friend = try await resolver.find(text) {
                Issue.record("a search for a friend")
                return other
            }
            #expect(known(friend) == key)
        }
    }

    @Test("K2: the beginning of a known peer's name adds no peer where another one has it in the mesh of the running node")
    func besideAnotherInMesh() async throws {
        let (machine, name) = (try machine(isProven: true), try DisplayName("benjamin"))
        try machine.trust.update { _ = $0.introduce(fingerprint(9), claiming: name, as: name, at: day) }
        let contact = Contact(
            id: fingerprint(8).peerID, name: try DisplayName("benj"), trustStatus: .new, isNear: true, software: .phone,
            hasKeys: false)
        let role = try #require(try PrimaryRole.claimIfFree(on: machine))
        await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await role.serve(FindingNode(contact)) }
            defer { group.cancelAll() }
            let failure = await #expect(throws: CommandFailure.self) {
                try await FriendResolver(machine).find("benj") { throw NodeError.notFound("benj", nearby: []) }
            }
            #expect(failure?.status == .peerNotFound)
            for byte in [8, 9] as [UInt8] { #expect(failure?.message.contains(fingerprint(byte).peerID.hex) == true) }
        }
    }

    @Test func `a search on a machine without a network ends like any peer that was not found`() {
        let failure = CommandFailure(NetworkNotice.SearchFailure(text: "zoe"))
        #expect(failure.status == .peerNotFound && failure.message.hasPrefix("zoe was not found: this machine has no network"))
    }

    @Test func `only a peer whose key is not known is looked for nearby`() async throws {
        let machine = try machine(isProven: true)
        let recorder = EventRecorder()
        let connector = PeerConnector(
            machine: machine, interface: nil, radio: nil, reporter: recorder,
            log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        func find(_ text: String) async throws {
            _ = try await FriendResolver(machine).find(
                text, over: connector, interruption: NoInterruption(), reporter: recorder)
        }
        try await find(anna.peerID.hex)
        #expect(recorder.names.isEmpty)
        // Nothing listens there.
        await #expect(throws: (any Error).self) { try await find("127.0.0.1:1") }
        #expect(recorder.names.first == "searching")
    }
}

@Suite("addresses and transports")
struct TransportTests {
    @Test(arguments: [
        ("192.168.1.20:4000", "192.168.1.20", 4000), ("[fe80::1%eth0]:4000", "fe80::1%eth0", 4000),
        ("anna.local:1", "anna.local", 1), ("[::1]:65535", "::1", 65535),
    ])
    func `a host with a port is an address`(_ text: String, _ host: String, _ port: Int) {
        #expect(LinkAddress(parsing: text) == LinkAddress(host: host, port: UInt16(port)))
    }

    @Test(
        "other texts are names",
        arguments: [
            "anna", "0123456789abcdef", "", ":", ":80", "anna:", "anna:0", "anna:65536", "::1", "fe80::1", "a:70000", "[]:80",
        ])
    func names(_ text: String) {
        #expect(LinkAddress(parsing: text) == nil)
    }

    @Test func `each transport has the media that it uses`() {
        #expect(Transport.media(for: nil) == [.network, .bluetooth])
        #expect(Transport.media(for: .bluetooth) == [.bluetooth])
        #expect(Transport.media(for: .mesh) == [.network] && Transport.media(for: .network) == [.network])
        #expect(Transport(.network) == .network && Transport(.bluetooth) == .bluetooth)
    }
}

@Suite("announced keys that wait to be stored")
struct PostponedKeysTests {
    @Test("R14: a flood of keys that come and go displaces no peer that stays, and leaves nothing behind") func flood() throws {
        let anna = fingerprint(1).peerID
        var keys = PostponedKeys()
        keys.add([anna]) { _ in true }
        for round in 0..<100 as Range<UInt8> {
            let flood = Set((0..<100 as Range<UInt8>).compactMap { PeerID(bytes: [1, 2, 3, 4, 5, 6, round, $0]) })
            #expect(flood.count == 100)
            keys.add(flood) { _ in true }
            keys.add([]) { $0 == anna }
            #expect(keys.owners == [anna])
        }
        keys.removeAll()
        #expect(keys.owners.isEmpty)
    }
}
