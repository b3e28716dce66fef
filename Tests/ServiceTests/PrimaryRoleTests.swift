import Glibc
import Logging
import Nearshare
import NearshareBundles
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareService

@Suite("one node for each user", .timeLimit(.minutes(1)), .leavesNothing)
struct PrimaryRoleTests {
    private let scratch = ScratchFolder()

    private func machine() throws -> LocalMachine {
        try LocalMachine(environment: [
            "HOME": scratch("home"), "XDG_STATE_HOME": scratch("state"), "XDG_CONFIG_HOME": scratch("config"),
            "XDG_RUNTIME_DIR": scratch("run"),
        ])
    }

    private func replying(_ role: PrimaryRole, _ body: () async throws -> Void) async throws {
        let node = RefusingNode()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await role.serve(node) }
            defer { group.cancelAll() }
            try await body()
        }
    }

    @Test("the role is claimed once; the next process gets it when it is released")
    func once() async throws {
        let machine = try machine()
        var role = try PrimaryRole.claimIfFree(on: machine)
        #expect(role != nil)
        #expect(try machine.state.nodeProcessID() == getpid())
        #expect(try PrimaryRole.claimIfFree(on: machine) == nil)
        role = nil
        #expect(try machine.state.nodeProcessID() == nil)
        role = try await PrimaryRole.claim(on: machine, takesOver: true)
        #expect(role != nil)
    }

    @Test("C3: while a node answers, another one cannot be claimed, and clients reach it")
    func answered() async throws {
        let machine = try machine()
        let role = try #require(try PrimaryRole.claimIfFree(on: machine))
        try await replying(role) {
            for takesOver in [false, true] {
                let failure = await #expect(throws: NodeRunsAlready.self) {
                    _ = try await PrimaryRole.claim(on: machine, takesOver: takesOver)
                }
                #expect(failure?.process == getpid())
                #expect(failure?.description.contains("a node is already running (process \(getpid()))") == true)
            }
            let kind: ControlFailure.Kind? = try await withRunningNode(of: machine) { client in
                do throws(ControlFailure) {
                    _ = try await client.submit(.status)
                    return .gone
                } catch {
                    return error.kind
                }
            }
            #expect(kind == .refused)
        }
    }

    /// Options of a node that other programs on this machine do not see.
    private func options(_ purpose: NodeOptions.Purpose) -> NodeOptions {
        NodeOptions(
            purpose: purpose, interface: "lo", radio: nil, log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }

    private let environment = NodeEnvironment(interruption: NoInterruption()) { _ in SilentReporter() }

    @Test("a command hands its node over to a standing one, between two requests, and goes on with it")
    func takenOver() async throws {
        let machine = try machine()
        let (nodes, continuation) = AsyncStream.makeStream(of: (any NodeClient).self)
        let hasEnded = Promise<Void>()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [environment, options = options(.command)] in
                try await withNodeClient(on: machine, options: options, environment: environment, continues: true) { client in
                    let events = try await client.events()
                    continuation.yield(client)
                    // Ends with the node, or by the cancellation of this test.
                    for await _ in events {}
                    try Task.checkCancellation()
                    _ = try await client.status()
                }
            }
            var each = nodes.makeAsyncIterator()
            let own = try #require(await each.next())
            #expect(own is NodeService && own.isEndFinal)
            #expect(try await !own.status().isDaemon)
            group.addTask { [environment, options = options(.daemon)] in
                try await runNode(on: machine, options: options, environment: environment) { _, _ in _ = await hasEnded.value }
            }
            let other = try #require(await each.next())
            #expect(other is ControlClient && !own.isEndFinal)
            #expect(try await other.status().isDaemon)
            let late = await #expect(throws: ControlFailure.self) { _ = try await own.status() }
            #expect(late?.kind == .gone)
            // The standing node itself is not handed over.
            let again = await #expect(throws: NodeRunsAlready.self) {
                _ = try await PrimaryRole.claim(on: machine, takesOver: true)
            }
            #expect(again?.process == getpid())
            group.cancelAll()
            hasEnded.fulfil()
            while let result = await group.nextResult() {
                if case .failure(let error) = result { #expect(error is CancellationError) }
            }
        }
        #expect(try machine.state.nodeProcessID() == nil)
    }

    @Test("a lock without a node that answers is reported")
    func silent() async throws {
        let machine = try machine()
        let lock = try machine.state.acquireNodeLock()
        defer { withExtendedLifetime(lock) {} }
        let failure = await #expect(throws: CommandFailure.self) {
            _ = try await PrimaryRole.claim(on: machine, takesOver: false)
        }
        #expect(failure?.message.contains("does not answer") == true)
    }

    @Test("a cancelled command does not wait for the role of a node that does not answer, and does not claim a free one")
    func cancelled() async throws {
        let machine = try machine()
        var lock = try machine.state.acquireNodeLock()
        #expect(lock != nil)
        for _ in 0..<2 {
            let claim = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                _ = try await PrimaryRole.claim(on: machine, takesOver: true)
            }
            await #expect(throws: CancellationError.self) { try await claim.value }
            lock = nil
        }
    }

    @Test("without a node there is no client")
    func none() async throws {
        let isCalled: Void? = try await withRunningNode(of: try machine()) { _ in }
        #expect(isCalled == nil)
    }

    @Test("a command without a node runs one; a second command uses it, and its status is that of the first")
    func nodes() async throws {
        let machine = try machine()
        let options = options(.command)
        try await withNodeClient(on: machine, options: options, environment: environment) { first in
            let status = try await first.status()
            #expect(status.process == getpid() && !status.isDaemon)
            try await withNodeClient(on: machine, options: options, environment: environment) { second in
                #expect(second is ControlClient)
                #expect(try await second.status().id == status.id)
                // Nodes of other programs on this machine may be there.
                #expect(try await !second.contacts().contains { $0.id == status.id })
                #expect(try await second.conversations().isEmpty)
                #expect(try await second.messages(after: 0).isEmpty)
                #expect(try await second.history(of: .publicRoom, limit: 5_000).isEmpty)
                #expect(try await !second.isPending(BundleID(bytes: [UInt8](repeating: 1, count: 16))!))
                let missing = await #expect(throws: ControlFailure.self) {
                    _ = try await second.find("zoe", timeout: .milliseconds(50))
                }
                #expect(missing?.kind == .peerNotFound)
                let empty = await #expect(throws: ControlFailure.self) { _ = try await second.find(" ", timeout: .zero) }
                #expect(empty?.kind == .refused)
                let file = await #expect(throws: ControlFailure.self) {
                    _ = try await second.sendFile("/dev/null/none", to: status.id)
                }
                #expect(file?.kind == .storage)
                let events = try await second.events()
                let id = try await second.sendLine("to no peer", in: .publicRoom)
                for await case .chatMessage(let entry, _) in events {
                    #expect(entry.id == id && entry.text == "to no peer")
                    break
                }
                #expect(try await second.history(of: .publicRoom, limit: 1).map(\.id) == [id])
                try await second.markRead(.publicRoom, notifiesAuthors: true)
                // More than fits into one line of the socket: the newest come first, the others with the next request.
                let longest = String(repeating: "x", count: ChatMessage.maximumTextByteCount)
                var ids: [String] = [id]
                for _ in 0..<24 { ids.append(try await second.sendLine(longest, in: .publicRoom)) }
                var pages: [[ChatMessage]] = []
                while pages.last?.isEmpty != true {
                    pages.insert(
                        try await second.history(of: .publicRoom, before: pages.first?.first?.number, limit: 100), at: 0)
                    if pages[0].isEmpty { break }
                }
                #expect(pages.flatMap(\.self).map(\.id) == ids && pages.count > 2)
            }
        }
        #expect(try machine.state.nodeProcessID() == nil)
    }
}

extension PrimaryRoleTests {
    @Test("A5: a peer that proves nothing can be blocked, and unblocked by its name in a later run, but is no friend")
    func blocking() async throws {
        let machine = try machine()
        let mallory = LocalIdentity(seed: [UInt8](repeating: 7, count: 64))
        let name = try DisplayName("mallory")
        func submit(_ request: ControlRequest) async throws -> Contact? {
            let reply = Monitor<ControlReply?>(nil)
            try await withNodeClient(on: machine, options: options(.command), environment: environment) { client in
                let answer = try await client.submit(request)
                reply.withLock { $0 = answer }
            }
            return if case .contact(let contact) = reply.withLock(\.self) { contact } else { nil }
        }
        func expectFailure(_ request: ControlRequest, _ words: String) async {
            let failure = await #expect(throws: ControlFailure.self) { _ = try await submit(request) }
            #expect(failure?.description.contains(words) == true, "\(failure as Any)")
        }
        await expectFailure(.block(mallory.peerID), "is not known to this machine")
        try machine.contacts.update { book in
            _ = book.storeAnnouncedKeys(
                agreementKey: mallory.agreementKey.publicKey, signingKey: mallory.signingKey.publicKey, name: name,
                isProven: false, isFriend: { _ in false }, at: SystemClock.wall())
        }
        await expectFailure(.setFriend(mallory.peerID, true), "has not proven its key")
        await expectFailure(.setFriend(mallory.peerID, false), "is not a friend")
        await expectFailure(.unblock(name: "mallory"), "is not blocked")
        let blocked = try await submit(.block(mallory.peerID))
        #expect(blocked?.trustStatus.isBlocked == true && blocked?.name == name)
        #expect(try machine.trust.read()[mallory.fingerprint]?.trust == .blocked)
        await expectFailure(.unblock(name: "zoe"), "no blocked peer has the name or id zoe")
        let unblocked = try await submit(.unblock(name: "mal"))
        #expect(unblocked?.id == mallory.peerID && unblocked?.trustStatus == .new)
        #expect(try machine.trust.read()[mallory.fingerprint] == nil)
        // Also one that is blocked on the command line.
        #expect(try KnownPeerEditor(machine).block("mal").peer.id == mallory.peerID)
        let again = try await submit(.unblock(name: mallory.peerID.hex))
        #expect(again?.id == mallory.peerID)
        #expect(throws: CommandFailure.self) { try KnownPeerEditor(machine).block("zoe") }
    }
}

/// Refuses every request.
private struct RefusingNode: NodeClient {
    func submit(_ request: ControlRequest) async throws(ControlFailure) -> ControlReply { throw ControlFailure(.refused, "no") }
    func events() async throws(ControlFailure) -> AsyncStream<ControlEvent> { throw ControlFailure(.refused, "no") }
}
