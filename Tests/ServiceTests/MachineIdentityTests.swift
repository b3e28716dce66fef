import Glibc
import Nearshare
import NearshareBase
import NearshareEngine
import NearshareInterfaces
import NearshareStorage
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareCrypto

@Suite(.leavesNothing) struct MachineIdentityTests {
    private let scratch = ScratchFolder()

    private func machine(_ identity: MachineIdentity) throws -> LocalMachine {
        try LocalMachine(
            identity: identity,
            environment: [
                "HOME": scratch("home"), "XDG_STATE_HOME": scratch("state"), "XDG_CONFIG_HOME": scratch("config"),
                "XDG_RUNTIME_DIR": scratch("run"),
            ])
    }

    @Test("an application has a key of its own, which it keeps") func applications() throws {
        let identities: [MachineIdentity] = [.user, .application("org.example.game"), .application("other"), .ephemeral]
        // The machines are kept: an ephemeral one is removed with its state.
        let machines = try (identities + identities).map { try machine($0) }
        let keys = try machines.map { try $0.state.identity().peerID }
        #expect(Set(keys.prefix(4)).count == 4)
        #expect(keys[4..<7] == keys[0..<3] && keys[7] != keys[3])
        #expect(try machine(identities[1]).state.path == scratch("state") + "/nearshare/applications/org.example.game")
    }

    @Test("a key whose code was compared is verified for that application, for nodes that run and after a restart")
    func comparisons() throws {
        let identity = MachineIdentity.application("org.example.game")
        let (game, other, user) = (try machine(identity), try machine(.application("other")), try machine(.user))
        let (peer, name) = (Self.peer, try DisplayName("ada"))
        let settings = try game.nodeSettings(discovery: nil)
        #expect(settings.trustStatus(peer, name) == .new)
        try game.recordComparison(with: peer.fingerprint, named: name, isSame: true)
        #expect(settings.trustStatus(peer, name).isVerified)
        #expect(try machine(identity).trust.read().trustStatus(of: peer, claiming: name).isVerified)
        for machine in [other, user] {
            #expect(try machine.trust.read().trustStatus(of: peer, claiming: name) == .new)
        }
        for _ in 0..<2 {
            try game.recordComparison(with: peer.fingerprint, named: name, isSame: false)
            #expect(settings.trustStatus(peer, name) == .new)
        }
    }

    @Test("a blocked key stays blocked, whatever codes were compared", arguments: [false, true])
    func blockedKey(isSame: Bool) throws {
        let game = try machine(.application("org.example.game"))
        let (peer, name) = (Self.peer, try DisplayName("ada"))
        try game.trust.update { _ = $0.block(peer.fingerprint, named: name, at: WallTime(milliseconds: 1)) }
        let record = { () throws(StorageError) in
            try game.recordComparison(with: peer.fingerprint, named: name, isSame: isSame)
        }
        if isSame {
            let error = #expect(throws: StorageError.self) { try record() }
            #expect(error?.description == "ada is blocked")
        } else {
            try record()
        }
        #expect(try game.trust.read().trustStatus(of: peer, claiming: name).isBlocked)
    }

    private static let peer = AuthenticatedPeer(
        key: LocalIdentity(seed: [UInt8](repeating: 7, count: 64)).agreementKey.publicKey)

    @Test("an ephemeral identity is removed with the machine and its nodes") func ephemeral() throws {
        var machine: LocalMachine? = try machine(.ephemeral)
        let path = try #require(machine?.state.path)
        var settings = try machine?.nodeSettings(discovery: nil)
        machine = nil
        #expect(access(path + "/identity.key", F_OK) == 0)
        #expect(settings?.friends() == [])
        settings = nil
        #expect(access(path, F_OK) != 0)
    }

    @Test("what is complete outlives an ephemeral identity, also where the inbox could not be used at the end")
    func complete() throws {
        var machine: LocalMachine? = try machine(.ephemeral)
        var limits = InboxLimits()
        limits.minimumFreeByteCount = 0
        let inbox = try #require(try machine?.inbox(scratch("inbox"), limits: limits))
        let sender = try #require(Fingerprint(bytes: [UInt8](repeating: 1, count: 32)))
        let name = try #require(ClaimedFileName("x"))
        let offer = Offer(
            items: [OfferedItem(kind: .file, name: name, size: 1, entryCount: 1, mediaType: .unknown)], itemCount: 1,
            entryCount: 1, totalSize: 1)
        func makeSink() throws -> any ResourceSink {
            try inbox.makeSink(
                for: offer, from: sender, resumeKey: [UInt8](repeating: 9, count: 32),
                clock: { MonotonicInstant(nanoseconds: 0) })
        }
        let sink = try makeSink()
        try sink.resume(at: try sink.resumePoint())
        let header = EntryHeader(item: 0, kind: .file, path: [name], size: 1, modified: nil, permissions: nil)
        try sink.begin(header, at: 0, entriesDigest: [UInt8](repeating: 1, count: 32))
        try [7 as UInt8].withUnsafeBytes { try sink.write($0) }
        try sink.endEntry()
        // A file takes the place of the inbox for a while.
        #expect(rename(scratch("inbox"), scratch("aside")) == 0)
        close(creat(scratch("inbox"), 0o600))
        let delivered = try sink.finish()
        #expect(throws: StorageError.self) { try makeSink() }
        #expect(unlink(scratch("inbox")) == 0 && rename(scratch("aside"), scratch("inbox")) == 0)
        machine = nil
        #expect(delivered.map { access($0.path, F_OK) } == [0])
    }

    @Test("the state of an ephemeral identity is removed by the next one once its process has ended") func stale() throws {
        let used = try machine(.ephemeral)
        _ = try used.state.identity()
        let runtime = scratch("run") + "/nearshare"
        // A process that was killed leaves its directory without a lock.
        let (stale, empty) = ("\(runtime)/ephemeral-0011223344556677", "\(runtime)/ephemeral-8899aabbccddeeff")
        _ = try StateDirectory(path: stale).identity()
        #expect(mkdir(empty, 0o700) == 0 && mkdir("\(runtime)/other", 0o700) == 0)
        #expect(mkdir(scratch("elsewhere"), 0o700) == 0 && mkdir(scratch("elsewhere/kept"), 0o700) == 0)
        #expect(symlink(scratch("elsewhere"), "\(runtime)/ephemeral-link") == 0)
        let next = try machine(.ephemeral)
        #expect(access(stale, F_OK) != 0 && access(empty, F_OK) != 0)
        for kept in ["\(used.state.path)/identity.key", next.state.path, "\(runtime)/other", scratch("elsewhere/kept")] {
            #expect(access(kept, F_OK) == 0, "\(kept)")
        }
    }

    @Test("nodes of one process at a time have the identity of an application") func exclusive() throws {
        let identity = MachineIdentity.application("org.example.game")
        // Each opened file has a lock of its own, like that of another process.
        var lock = try machine(identity).state.acquireNodeLock()
        let blocked = try machine(identity)
        let error = #expect(throws: StorageError.self) { try blocked.nodeSettings(discovery: nil) }
        #expect(error?.description.contains("process \(getpid()) has the identity of the application org.example.game") == true)
        #expect(lock != nil)
        lock = nil
        // Nodes of one process share it.
        var settings = try [blocked, machine(identity)].map { try $0.nodeSettings(discovery: nil) }
        #expect(try machine(identity).state.acquireNodeLock() == nil)
        settings.removeLast()
        #expect(try machine(identity).state.acquireNodeLock() == nil)
        settings.removeLast()
        #expect(try machine(identity).state.acquireNodeLock() != nil)
    }

    @Test("one process at a time takes part in sessions with the identity of the user; others send and receive beside it")
    func exclusiveSessions() async throws {
        // Each opened file has a lock of its own, like that of another process.
        var lock = try machine(.user).state.acquireSessionLock()
        let node = try machine(.user).startNode(interface: "lo", findsOthers: false)
        let error = #expect(throws: NodeError.self) { try node.startSession() }
        #expect(error?.description.contains("process \(getpid()) takes part in sessions") == true)
        #expect(lock != nil)
        lock = nil
        let session = try node.startSession()
        #expect(try machine(.user).state.acquireSessionLock() == nil)
        // Without discovery.
        #expect(throws: NodeError.self) { try node.join("attic", for: try ServiceType("my-game"), admission: .open) }
        #expect(try machine(.user).state.acquireSessionLock() == nil)
        await session.leave()
        #expect(try machine(.user).state.acquireSessionLock() != nil, "no session needs it")
        #expect(throws: NodeError.self) { try node.join("attic", for: try ServiceType("my-game"), admission: .open) }
        #expect(try machine(.user).state.acquireSessionLock() != nil, "the room was not joined")
        let others = [try node.startSession(), try node.startSession()]
        await others[0].leave()
        #expect(try machine(.user).state.acquireSessionLock() == nil)
        await node.stop()
        #expect(try machine(.user).state.acquireSessionLock() != nil)
        for identity in [MachineIdentity.application("org.example.game"), .ephemeral] {
            try await machine(identity).run(interface: "lo", findsOthers: false) { _ = try $0.startSession() }
        }
    }

    @Test("an invitation by name checks its arguments before it searches") func invitationArguments() async throws {
        // Without discovery, each search fails.
        try await machine(.ephemeral).run(interface: "lo", findsOthers: false) { node in
            let session = try node.startSession()
            for timeout in [Duration.zero, .seconds(700)] {
                await #expect(throws: SessionError.self) { try await node.invite("ben", into: session, timeout: timeout) }
            }
            await #expect(throws: NodeError.self) { try await node.invite("ben", into: session) }
            await session.leave()
            await #expect(throws: SessionError.left) { try await node.invite("ben", into: session) }
        }
    }

    @Test("a node with an interface that does not exist does not start") func interface() async throws {
        let machine = try machine(.ephemeral)
        #expect(throws: NodeError.self) { try machine.startNode(interface: "nope0", findsOthers: false) }
        await #expect(throws: NodeError.self) { try await machine.run(interface: "nope0", findsOthers: false) { _ in } }
        try await machine.run(interface: "lo", findsOthers: false) { _ in }
    }

    @Test("the identifier of an application is no path", arguments: ["", ".", "..", "../x", "a/b", "ä", "a b"])
    func invalid(_ name: String) {
        #expect(throws: StorageError.self) { try machine(.application(name)) }
    }

    @Test(
        "the error about an identifier of an application says what is wrong with it",
        arguments: [
            ("", "\"\", is empty"), (".x", "\".x\", begins with a dot"), ("a/b", "\"a/b\", contains \"/\""),
            (String(repeating: "x", count: 64), ", has 64 characters"),
        ])
    func wordsOfInvalid(_ name: String, _ words: String) {
        let error = #expect(throws: StorageError.self) { try machine(.application(name)) }
        #expect(error?.description.contains(words) == true)
    }
}
