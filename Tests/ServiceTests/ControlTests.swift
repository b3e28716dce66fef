import FoundationEssentials
import Glibc
import Nearshare
import NearshareInterfaces
import NearshareService
import NearshareTestTraits
import NearshareTesting
import Synchronization
import Testing

/// Replies with the text of a request, and publishes events.
private final class EchoNode: NodeClient {
    private let listeners = Mutex<[AsyncStream<ControlEvent>.Continuation]>([])
    /// The number of calls of ``receiveEvents()``.
    let receiveListenerCount = Atomic(0)

    func submit(_ request: ControlRequest) async throws(ControlFailure) -> ControlReply {
        switch request {
        case .sendLine(let text, _): return .lineAccepted(id: text)
        case .find(let name, let timeout):
            // A slow request, for which others must not wait.
            try? await Task.sleep(for: timeout)
            throw ControlFailure(.peerNotFound, name)
        case .stop:
            for listener in listeners.withLock({ $0 }) { listener.finish() }
            return .done
        default: return .done
        }
    }

    func events() async -> AsyncStream<ControlEvent> {
        let (stream, continuation) = AsyncStream<ControlEvent>.makeStream()
        listeners.withLock { $0.append(continuation) }
        return stream
    }

    static let openPrompt = OpenPrompt(number: 7, title: "anna offers", lines: [], yes: "Accept", no: "Decline")

    func receiveEvents() async -> AsyncStream<ReceiveEvent> {
        receiveListenerCount.add(1, ordering: .relaxed)
        let (stream, continuation) = AsyncStream<ReceiveEvent>.makeStream()
        continuation.yield(.prompt(Self.openPrompt))
        continuation.yield(.promptEnded(number: 7))
        return stream
    }

    func publish(_ event: ControlEvent) {
        for listener in listeners.withLock({ $0 }) { listener.yield(event) }
    }

    var listenerCount: Int { listeners.withLock { $0.count } }
}

/// A node that passes no events on.
private struct SilentNode: NodeClient {
    func submit(_ request: ControlRequest) async throws(ControlFailure) -> ControlReply { .done }

    func events() async throws(ControlFailure) -> AsyncStream<ControlEvent> { throw ControlFailure(.refused, "no events") }
}

@Suite("the control socket of a node", .timeLimit(.minutes(1)), .leavesNothing)
struct ControlTests {
    private let scratch = ScratchFolder()
    private var path: String { scratch("node.sock") }

    private func serving(_ node: any NodeClient, _ body: @Sendable () async throws -> Void) async throws {
        let server = try ControlServer(path: path)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.run(node) }
            defer { group.cancelAll() }
            try await body()
        }
    }

    private func asking(_ body: @Sendable (ControlClient) async throws -> Void) async throws {
        let client = try #require(try ControlClient(path: path))
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await client.run() }
            defer { group.cancelAll() }
            try await body(client)
        }
    }

    private func expectAnswer(_ client: ControlClient) async throws {
        let reply = try await client.submit(.status)
        #expect(reply == .done)
    }

    private let anna = PeerID(bytes: [1, 1, 1, 1, 1, 1, 1, 1])!

    @Test("a node that accepts no connections does not answer, and no command waits for ever") func stopped() async throws {
        let scratch = ScratchFolder()
        // It listens, and does not run.
        let server = try ControlServer(path: scratch("node.sock"))
        let answers = try await BlockingThread.run { (0..<18).map { _ in ControlClient.hasListener(at: scratch("node.sock")) } }
        #expect(answers.first == true && answers.last == false)
        withExtendedLifetime(server) {}
    }

    @Test("requests are answered while another one waits, and a failure arrives as it was thrown")
    func questions() async throws {
        try await serving(EchoNode()) {
            try await asking { client in
                async let slow = client.find("absent", timeout: .milliseconds(300))
                for number in 0..<50 {
                    let text = "line \(number)\nwith \"quotes\" and \u{1f469}"
                    let reply = try await client.sendLine(text, in: .peer(anna))
                    #expect(reply == text)
                }
                do {
                    _ = try await slow
                    Issue.record("a peer was found")
                } catch {
                    #expect(error as? ControlFailure == ControlFailure(.peerNotFound, "absent"))
                }
            }
        }
    }

    @Test("events arrive at all subscribers in their order, and end with the node")
    func events() async throws {
        let node = EchoNode()
        try await serving(node) {
            try await asking { one in
                try await asking { other in
                    let (first, second) = (try await one.events(), try await other.events())
                    #expect(node.listenerCount == 2)
                    for number in 0..<500 { node.publish(.notice("\(number)")) }
                    for stream in [first, second] {
                        var iterator = stream.makeAsyncIterator()
                        for number in 0..<500 { #expect(await iterator.next() == .notice("\(number)")) }
                    }
                    try await one.stop()
                    for stream in [first, second] {
                        var iterator = stream.makeAsyncIterator()
                        #expect(await iterator.next() == nil)
                    }
                }
            }
        }
    }

    @Test("open questions and events of receiving arrive in their order, apart from the other events, by one subscription")
    func receiveEvents() async throws {
        let node = EchoNode()
        try await serving(node) {
            try await asking { client in
                let events = try await client.events()
                var questions = try await client.receiveEvents().makeAsyncIterator()
                #expect(await questions.next() == .prompt(EchoNode.openPrompt))
                #expect(await questions.next() == .promptEnded(number: 7))
                _ = try await client.receiveEvents()
                #expect(node.receiveListenerCount.load(ordering: .relaxed) == 1)
                node.publish(.notice("next"))
                var iterator = events.makeAsyncIterator()
                #expect(await iterator.next() == .notice("next"))
            }
        }
    }

    @Test func `events that the node refuses are an error for each reader`() async throws {
        try await serving(SilentNode()) {
            try await asking { client in
                for _ in 0..<2 {
                    await #expect(throws: ControlFailure.self) { _ = try await client.events() }
                    await #expect(throws: ControlFailure.self) { _ = try await client.receiveEvents() }
                }
                try await expectAnswer(client)
            }
        }
    }

    @Test("C1: only the owner can open the socket, and a path that is too long is reported")
    func permissions() async throws {
        try await serving(EchoNode()) {
            var status = stat()
            #expect(stat(path, &status) == 0)
            #expect(status.st_mode & 0o777 == 0o600)
        }
        // Gone with the node.
        #expect(access(path, F_OK) != 0)
        #expect(try ControlClient(path: path) == nil)
        let long = "/tmp/" + String(repeating: "x", count: 120)
        let failure = #expect(throws: StorageError.self) { try ControlServer(path: long) }
        #expect(failure?.description.contains("too long") == true)
    }

    @Test("C4: a client beyond the limit is told that the node is busy, and others are served on")
    func busy() async throws {
        try await serving(EchoNode()) {
            try await asking { client in
                try await expectAnswer(client)
                let others = try (1..<ControlServer.maximumClientCount).map { _ in try #require(Raw(path: path)) }
                try await asking { late in
                    for _ in 0..<2 {
                        let failure = await #expect(throws: ControlFailure.self) { _ = try await late.submit(.status) }
                        #expect(failure?.kind == .unavailable)
                        #expect(
                            failure?.description.contains("the node is busy: 32 commands use it") == true, "\(failure as Any)")
                    }
                }
                try await expectAnswer(client)
                withExtendedLifetime(others) {}
            }
        }
    }

    @Test("the socket file of a killed node answers nothing, and the next node replaces it")
    func stale() async throws {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        let isBound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
        #expect(isBound)
        close(descriptor)
        #expect(try ControlClient(path: path) == nil)
        try await serving(EchoNode()) {
            try await asking { client in try await expectAnswer(client) }
        }
    }

    @Test(
        "C4: lines that are no requests close their own connection only",
        arguments: [
            "hello\n", "{}\n", "{\"request\":{\"_0\":1}}\n", "\u{0}\n", String(repeating: "x", count: (1 << 20) + 4_096),
            String(repeating: "[", count: 100_000) + "\n",
        ])
    func nonsense(_ line: String) async throws {
        try await serving(EchoNode()) {
            try await asking { client in
                try await expectAnswer(client)
                let socket = try #require(Raw(path: path))
                try await socket.write(line)
                #expect(try await socket.isClosedByPeer())
                try await expectAnswer(client)
            }
        }
    }
}

/// A client that writes any bytes.
private final class Raw: Sendable {
    private let descriptor: Int32

    init?(path: String) {
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        let descriptor = descriptor
        let isConnected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
        if !isConnected { return nil }
    }

    deinit { close(descriptor) }

    /// Blocks on a thread of its own: what reads it needs those of the pool.
    func write(_ text: String) async throws {
        try await BlockingThread.run { [descriptor] in
            var rest = Array(text.utf8)[...]
            while !rest.isEmpty {
                let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
                guard count > 0 else { return }
                rest = rest.dropFirst(count)
            }
        }
    }

    func isClosedByPeer() async throws -> Bool {
        try await BlockingThread.run { [descriptor] in
            var byte: UInt8 = 0
            let count = recv(descriptor, &byte, 1, 0)
            return count == 0 || (count < 0 && errno == ECONNRESET)
        }
    }
}
