import Glibc
import Nearshare
import NearshareTesting
import Testing

@testable import NearshareService

@Suite("what the user decides about known peers", .timeLimit(.minutes(1)))
struct KnownPeerEditorTests {
    private let stage = ServiceStage()

    /// A user who knows peers called "peer 0", "peer 1" and so on.
    private func user(knowing count: Int) throws -> StageUser {
        let anna = try stage.user("anna")
        for number in 0..<count { try anna.introduce(fingerprint(number), as: "peer \(number)") }
        return anna
    }

    private func fingerprint(_ number: Int) -> Fingerprint {
        LocalIdentity(seed: [UInt8](repeating: UInt8(number + 1), count: 64)).fingerprint
    }

    @Test("of several peers that are renamed to the same name at a time, one gets it")
    func sameName() async throws {
        let count = 8
        let anna = try user(knowing: count)
        let machine = anna.machine
        for round in 0..<10 {
            let name = try DisplayName("boss \(round)")
            let renamedCount = try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<count {
                    group.addTask { [id = fingerprint(number).peerID.hex] in
                        try await BlockingThread.run { (try? KnownPeerEditor(machine).rename(id, to: name)) != nil }
                    }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(renamedCount == 1)
            #expect(try machine.trust.read().entries.values.filter { $0.givenName == name }.count == 1)
        }
    }

    @Test("this machine is none of its peers, and nothing is recorded of it")
    func ownMachine() throws {
        let anna = try user(knowing: 1)
        try anna.machine.rename(to: anna.name)
        let editor = KnownPeerEditor(anna.machine)
        for text in [anna.id.hex, anna.id.hex.uppercased(), anna.fingerprint.hex, "anna", "anna#\(anna.id.hex.prefix(4))"] {
            let failure = #expect(throws: CommandFailure.self) { try editor.block(text) }
            #expect(failure?.status == .usage && failure?.message.contains("is this machine itself") == true, "\(text)")
        }
        #expect(try anna.machine.trust.read().entries.count == 1)
        // A known peer with the name is meant by it.
        try anna.introduce(fingerprint(5), as: "anna")
        #expect(try editor.block("anna").peer.fingerprint == fingerprint(5))
    }

    @Test("the returned peer has the name by which the user knew it, and no name is given twice")
    func renamed() throws {
        let anna = try user(knowing: 2)
        let editor = KnownPeerEditor(anna.machine)
        #expect(try editor.rename("peer 0", to: DisplayName("boss")).name.claimed == "peer 0")
        let failure = #expect(throws: CommandFailure.self) { try editor.rename("peer 1", to: DisplayName("Boss")) }
        #expect(failure?.message.contains("is the name of another known peer") == true)
        let removed = try editor.removeName(of: "boss")
        #expect(removed.peer.name.claimed == "boss" && removed.hadName)
        let again = try editor.removeName(of: "peer 0")
        #expect(again.peer.id == fingerprint(0).peerID && !again.hadName)
    }

    @Test("K2: a peer whose key was only announced can be renamed, and is new again without that name")
    func renamedAnnounced() throws {
        let anna = try stage.user("anna")
        let editor = KnownPeerEditor(anna.machine)
        let identity = LocalIdentity(seed: [UInt8](repeating: 9, count: 64))
        try anna.machine.contacts.update {
            _ = $0.storeAnnouncedKeys(
                agreementKey: identity.agreementKey.publicKey, signingKey: identity.signingKey.publicKey,
                name: try! DisplayName("cleo"), isProven: false, isFriend: { _ in false }, at: WallTime(milliseconds: 1))
        }
        #expect(try editor.rename("cleo", to: DisplayName("Cleo Work")).id == identity.fingerprint.peerID)
        let entry = try #require(try anna.machine.trust.read()[identity.fingerprint])
        #expect(entry.name.claimed == "Cleo Work" && entry.claimedName.claimed == "cleo" && !entry.isProven)
        _ = try editor.removeName(of: "cleo work")
        #expect(try anna.machine.trust.read()[identity.fingerprint] == nil)
    }

    @Test("K2: the name that a renamed peer calls itself neither blocks nor forgets it")
    func ownNameOfRenamedPeer() throws {
        let anna = try user(knowing: 1)
        let editor = KnownPeerEditor(anna.machine)
        _ = try editor.rename("peer 0", to: DisplayName("Zed"))
        let changes: [(String) throws -> NamedKey] = [{ try editor.block($0).peer }, editor.forget]
        for change in changes {
            for text in ["Peer 0", "pee"] {
                let failure = #expect(throws: CommandFailure.self) { try change(text) }
                #expect(failure?.status == .peerNotFound)
                #expect(failure?.message.contains("use the id \(fingerprint(0).peerID) if you mean Zed") == true)
            }
        }
        #expect(try anna.trust(in: fingerprint(0)) == .seen)
        #expect(try editor.block("zed").peer.id == fingerprint(0).peerID)
        #expect(try editor.forget(fingerprint(0).peerID.hex).id == fingerprint(0).peerID)
    }

    @Test("a command that is refused, or changes nothing, writes nothing")
    func refused() throws {
        let anna = try stage.user("anna")
        let editor = KnownPeerEditor(anna.machine)
        let failure = #expect(throws: CommandFailure.self) { try editor.removeName(of: "zoe") }
        #expect(failure?.status == .peerNotFound)
        #expect(throws: CommandFailure.self) { try editor.removeFriend("zoe") }
        #expect(access(anna.machine.state.path + "/trust.json", F_OK) != 0)
    }

    @Test func `a blocked friend is neither blocked nor a friend after it is unblocked, and is unblocked once`() throws {
        let anna = try user(knowing: 1)
        let editor = KnownPeerEditor(anna.machine)
        try anna.machine.trust.update { _ = $0.setFriend(fingerprint(0), to: true) }
        let (peer, former) = try editor.block("peer")
        #expect(peer.id == fingerprint(0).peerID && former.blockedText == "blocked, and no longer a friend")
        #expect(try anna.trust(in: fingerprint(0)) == .blocked)
        #expect(try editor.unblock("peer").wasBlocked)
        #expect(try !editor.unblock("peer").wasBlocked)
        #expect(throws: CommandFailure.self) { try editor.removeFriend("peer") }
    }

    @Test func `a forgotten peer is not known, and has no keys`() throws {
        let anna = try user(knowing: 2)
        let identity = LocalIdentity(seed: [UInt8](repeating: 1, count: 64))
        try anna.machine.contacts.update { contacts in
            _ = contacts.storeAnnouncedKeys(
                agreementKey: identity.agreementKey.publicKey, signingKey: identity.signingKey.publicKey,
                name: try! DisplayName("peer 0"), isProven: true, isFriend: { _ in false }, at: SystemClock.wall())
        }
        #expect(try KnownPeerEditor(anna.machine).forget("peer 0").id == fingerprint(0).peerID)
        #expect(try anna.machine.trust.read().entries.keys.map(\.self) == [fingerprint(1)])
        #expect(try anna.machine.contacts.read().entry(of: fingerprint(0)) == nil)
        #expect(throws: CommandFailure.self) { try KnownPeerEditor(anna.machine).forget("peer 0") }
    }
}
