import NearshareBase
import NearshareCrypto
import NearshareDirect
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareEngine

/// All slots for links, held by peers that prove a made-up key, or none, and then answer pings only.
@Suite("all slots for incoming links in use", .timeLimit(.minutes(2)), .leavesNothing) struct FullLinksTests {
    private let stage = Stage(.memory)
    private let transport: AddressedTransport
    /// The time by which the receiver's clock has been moved forward.
    private let lead = Monitor(Duration.zero)

    init() {
        transport = AddressedTransport(stage.transport)
    }

    /// A receiver that has friends.
    private func receiver(friends: [LocalIdentity]) -> NodeSettings {
        var settings = stage.receiver
        settings.transport = transport
        settings.clock = { [lead] in SystemClock.monotonic() + lead.withLock { $0 } }
        let ids = Set(friends.map(\.peerID))
        settings.trustStatus = { peer, _ in ids.contains(peer.id) ? .known(.verified, isFriend: true) : .new }
        return settings
    }

    private func identity(_ number: Int) -> LocalIdentity {
        LocalIdentity(seed: [UInt8](repeating: UInt8(number + 10), count: LocalIdentity.seedByteCount))
    }

    private func settings(of identity: LocalIdentity, at host: String) -> NodeSettings {
        var settings = stage.settings(identity, "Peer")
        settings.transport = transport.from(host)
        return settings
    }

    private func stranger(_ number: Int, at host: String, _ port: UInt16) async throws -> HostileLink {
        try await HostileMember(identity(number)).connect(to: port, over: transport.from(host))
    }

    private func silentLink(at host: String, _ port: UInt16) throws -> any StreamLink {
        try transport.from(host).connect(to: LinkAddress(host: host, port: port), timeout: .seconds(5))
    }

    /// The sources of as many links as untrusted peers can have: a whole IPv6 network's share, and three hosts'.
    private func sources(_ limits: NodeLimits) -> [String] {
        (1...limits.linksPerNetwork).map { "2001:db8:0:1::\($0)" }
            + (0..<3 * limits.linksPerAddress).map { "10.0.0.\($0 % 3 + 1)" }
    }

    @Test("Q6, R3: sixteen friends are served while keys that only answer pings hold every other slot")
    func friends() async throws {
        let limits = NodeLimits()
        let friends = (0..<limits.linksKeptForFriends).map { identity(100 + $0) }
        try await withNode(receiver(friends: friends)) { receiver in
            let listener = try receiver.listen()
            let hosts = sources(limits)
            try #require(hosts.count == limits.links - limits.linksKeptForFriends)
            var first: [HostileLink] = []
            for (number, host) in hosts.enumerated() {
                first.append(try await stranger(number, at: host, listener.port))
            }
            let strangers = Monitor(first)
            let silent = try (0..<limits.linksKeptForFriends).map { number in
                let link = try silentLink(at: "10.0.1.\(number % 2)", listener.port)
                // With its first bytes it has a slot.
                try LinkDemultiplexer.write(Preamble.supported.encoded, to: link)
                return link
            }
            await transport.waitUntilAccepted(limits.links)
            #expect(transport.openCount == limits.links)
            // From now on a link with a proven key gives way as well.
            lead.update { $0 += LinkRegistry.grace }

            async let answers: Void = {
                for await invitation in listener.invitations { _ = await invitation.accept(into: InMemorySink()).result }
            }()
            // A friend's host may have used up its share: friends do not count for it.
            try await withConnections(as: friends, at: "10.0.0.1", to: listener.port) { connections in
                // No untrusted peer pushes one out again, however many come.
                for number in 0..<limits.links {
                    let link = try await stranger(100 - number, at: "10.1.0.\(number)", listener.port)
                    strangers.update { $0.append(link) }
                }
                for connection in connections { #expect(connection.end == nil) }
                await transport.waitUntilOpen(atMost: limits.links)
            }
            for link in silent { link.close() }
            for link in strangers.withLock({ $0 }) {
                link.close()
                try await link.waitUntilOver()
            }
            receiver.beginShutdown()
            await answers
        }
    }

    @Test("Q6: the addresses of one IPv6 network hold no more than their share, and leave a neighbour's network its own")
    func network() async throws {
        let limits = NodeLimits()
        try await withNode(receiver(friends: [])) { receiver in
            let listener = try receiver.listen()
            var links: [HostileLink] = []
            for number in 0..<2 * limits.linksPerNetwork {
                links.append(try await stranger(number, at: "2001:db8:0:1::\(number)", listener.port))
            }
            await transport.waitUntilOpen(atMost: limits.linksPerNetwork)
            let served = links.count { !$0.isOver }
            #expect(served <= limits.linksPerNetwork)
            let neighbour = try await stranger(90, at: "2001:db8:0:2::1", listener.port)
            #expect(!neighbour.isOver && links.count { !$0.isOver } == served)
            for link in links + [neighbour] { link.close() }
            for link in links + [neighbour] { try await link.waitUntilOver() }
        }
    }

    @Test(
        "R3, R5: transfers that stand still hold all slots of an address: a mesh link is read, a direct one is told, and then served"
    )
    func heldTransfers() async throws {
        try await withNode(receiver(friends: [])) { receiver in
            let listener = try receiver.listen(joinsMesh: true)
            let sources = (0..<NodeLimits().linksPerAddress).map { _ in HeldSource(MemoryContent(file: "x", [1])) }
            async let answers: Void = {
                for await invitation in listener.invitations { _ = invitation.accept(into: InMemorySink()) }
            }()
            try await withNode(settings(of: identity(1), at: "10.0.0.1")) { node in
                let transfers = sources.map { source in
                    HeldTransfer(source: source, held: source.held, release: { source.release() })
                }
                try await withHeldTransfers(transfers[...], from: node, to: listener.port) {
                    let refused = try await stranger(90, at: "10.0.0.1", listener.port)
                    try await refused.wait { $0 == ControlFrame.close(.tooManyLinks).encoded }
                    let answer = try await meshAnswer(at: "10.0.0.1", listener.port)
                    #expect(answer.count == Preamble.byteCount)
                    lead.update { $0 += ProgressMeter.period }
                    let newcomer = try await stranger(91, at: "10.0.0.1", listener.port)
                    #expect(!newcomer.frames.contains(ControlFrame.close(.tooManyLinks).encoded))
                    for link in [refused, newcomer] {
                        link.close()
                        try await link.waitUntilOver()
                    }
                }
            }
            receiver.beginShutdown()
            await answers
        }
    }

    @Test("R5: transfers that wait for the receiver's own disk or program keep their slots") func slowSinks() async throws {
        try await withNode(receiver(friends: [])) { receiver in
            let listener = try receiver.listen()
            let sinks = (0..<NodeLimits().linksPerAddress).map { _ in InMemorySink(holdsAfter: 0) }
            async let answers: Void = {
                var rest = sinks[...]
                for await invitation in listener.invitations {
                    if let sink = rest.popFirst() { _ = invitation.accept(into: sink) }
                }
            }()
            try await withNode(settings(of: identity(1), at: "10.0.0.1")) { node in
                let transfers = sinks.map { sink in
                    HeldTransfer(
                        source: InMemorySource(MemoryContent(file: "x", [1])), held: sink.held, release: { sink.release() })
                }
                try await withHeldTransfers(transfers[...], from: node, to: listener.port) {
                    lead.update { $0 += ProgressMeter.period }
                    let refused = try await stranger(90, at: "10.0.0.1", listener.port)
                    try await refused.wait { $0 == ControlFrame.close(.tooManyLinks).encoded }
                    refused.close()
                    try await refused.waitUntilOver()
                }
            }
            receiver.beginShutdown()
            await answers
        }
    }

    /// A transfer that one of its ends holds up.
    private struct HeldTransfer: Sendable {
        let source: any ResourceSource
        /// Yields a value when it is held up.
        let held: AsyncStream<Void>
        let release: @Sendable () -> Void
    }

    /// Sends each, over a connection of its own, until it is held up.
    private func withHeldTransfers(
        _ transfers: ArraySlice<HeldTransfer>, from node: Node, to port: UInt16,
        _ body: @Sendable @escaping () async throws -> Void
    ) async throws {
        guard let transfer = transfers.first else { return try await body() }
        try await node.withConnection(to: stage.destination(port)) { connection in
            defer { transfer.release() }
            _ = connection.send(transfer.source, resumeKey: Stage.resumeKey, timeout: .seconds(60))
            for await _ in transfer.held { break }
            try await withHeldTransfers(transfers.dropFirst(), from: node, to: port, body)
        }
    }

    /// The answer to the preamble of a mesh link.
    private func meshAnswer(at host: String, _ port: UInt16) async throws -> [UInt8] {
        let link = try silentLink(at: host, port)
        return try await BlockingThread.run { () -> [UInt8] in
            defer { link.close() }
            try? LinkDemultiplexer.write(Preamble.supportedMesh.encoded, to: link)
            var answer: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: Preamble.byteCount)
            while answer.count < Preamble.byteCount,
                let count = try? buffer.withUnsafeMutableBytes({ try link.read(into: $0) }), count > 0
            {
                answer += buffer[..<count]
            }
            return answer
        }
    }

    @Test("R9: first messages without a key behind them are answered sixteen times at once, and other addresses always")
    func junk() async throws {
        try await withNode(receiver(friends: [])) { receiver in
            let listener = try receiver.listen()
            /// Reads the answer to a first message with a made-up key.
            @Sendable func answer(at host: String) async throws -> Int {
                let link = try silentLink(at: host, listener.port)
                let message = Preamble.supported.encoded + [0, 32] + [UInt8](repeating: 7, count: 32)
                return await withCheckedContinuation { continuation in
                    Blocking.run {
                        _ = try? message.withUnsafeBytes { try link.write($0) }
                        link.finishWriting()
                        var total = 0
                        var buffer = [UInt8](repeating: 0, count: 4096)
                        while let count = try? buffer.withUnsafeMutableBytes({ try link.read(into: $0) }), count > 0 {
                            total += count
                        }
                        link.close()
                        continuation.resume(returning: total)
                    }
                }
            }
            let begin = SystemClock.monotonic()
            var answers = 0
            for _ in 0..<20 { answers += try await answer(at: "10.0.0.1") > 0 ? 1 : 0 }
            // The clock runs: a link beyond the rate waits, and a second more is one handshake more.
            let seconds = Int((SystemClock.monotonic() - begin).components.seconds)
            #expect(answers >= 16 && answers <= 17 + seconds)
            #expect(try await answer(at: "10.0.0.2") > 1_184)
            let honest = try await stranger(1, at: "10.0.0.2", listener.port)
            #expect(!honest.isOver)
            honest.close()
            lead.update { $0 += .seconds(20) }
            #expect(try await answer(at: "10.0.0.1") > 1_184)
        }
    }

    @Test("Q6: links without use are closed after the idle limit, a friend's stays") func idle() async throws {
        let friend = identity(100)
        var settings = receiver(friends: [friend])
        settings.limits.unusedLinkTimeout = .milliseconds(200)
        try await withNode(settings) { receiver in
            let listener = try receiver.listen()
            async let answers: Void = {
                for await invitation in listener.invitations { _ = await invitation.accept(into: InMemorySink()).result }
            }()
            try await withConnections(as: [friend], at: "10.0.0.1", to: listener.port) { connections in
                for number in 0..<4 {
                    let link = try await stranger(number, at: "10.0.0.\(number)", listener.port)
                    try await link.waitUntilOver()
                    #expect(link.frames.contains(ControlFrame.close(.done).encoded))
                }
                #expect(connections[0].end == nil)
            }
            receiver.beginShutdown()
            await answers
        }
    }

    /// Opens a connection as each of the peers, one after the other, sends a file on it, and holds all of them.
    private func withConnections(
        as peers: [LocalIdentity], at host: String, to port: UInt16,
        _ body: @Sendable @escaping ([Connection]) async throws -> Void
    ) async throws {
        @Sendable func open(_ rest: ArraySlice<LocalIdentity>, _ connections: [Connection]) async throws {
            guard let next = rest.first else { return try await body(connections) }
            try await withNode(settings(of: next, at: host)) { node in
                try await node.withConnection(to: stage.destination(port)) { connection in
                    let content = InMemorySource(MemoryContent(file: "x", [1]))
                    let transfer = connection.send(content, resumeKey: Stage.resumeKey, timeout: .seconds(60))
                    #expect(await transfer.result.outcome == .completed)
                    try await open(rest.dropFirst(), connections + [connection])
                }
            }
        }
        try await open(peers[...], [])
    }
}

/// A transport in memory whose connections come from the addresses that the test chooses.
private final class AddressedTransport: StreamTransport {
    private struct State {
        /// The sources of connections that are not accepted yet.
        var sources: [String] = []
        var acceptedCount = 0
        var openCount = 0
    }

    private let inner: any StreamTransport
    private let state = Monitor(State())

    init(_ inner: any StreamTransport) {
        self.inner = inner
    }

    /// The accepted links that the receiver has not closed.
    var openCount: Int { state.withLock { $0.openCount } }

    func waitUntilAccepted(_ count: Int) async {
        await wait { $0.acceptedCount >= count }
    }

    func waitUntilOpen(atMost count: Int) async {
        await wait { $0.openCount <= count && $0.sources.isEmpty }
    }

    private func wait(_ isReached: @escaping @Sendable (State) -> Bool) async {
        await withCheckedContinuation { continuation in
            Blocking.run { [state] in
                state.wait { isReached($0) ? () : nil }
                continuation.resume()
            }
        }
    }

    func from(_ host: String) -> any StreamTransport { Source(host: host, transport: self) }

    func listen(port: UInt16, interface: String?) throws(LinkError) -> any StreamListener {
        Accepting(inner: try inner.listen(port: port, interface: interface), transport: self)
    }

    func connect(
        to address: LinkAddress, timeout: Duration, cancelledBy cancellation: EventFD?
    ) throws(LinkError) -> any StreamLink {
        try inner.connect(to: address, timeout: timeout, cancelledBy: cancellation)
    }

    private struct Source: StreamTransport {
        let host: String
        let transport: AddressedTransport

        func listen(port: UInt16, interface: String?) throws(LinkError) -> any StreamListener {
            try transport.inner.listen(port: port, interface: interface)
        }

        func connect(
            to address: LinkAddress, timeout: Duration, cancelledBy cancellation: EventFD?
        ) throws(LinkError) -> any StreamLink {
            // Connections are made one after the other, and accepted in this order.
            transport.state.update { $0.sources.append(host) }
            return try transport.inner.connect(to: address, timeout: timeout, cancelledBy: cancellation)
        }
    }

    private final class Accepting: StreamListener {
        let inner: any StreamListener
        let transport: AddressedTransport

        init(inner: any StreamListener, transport: AddressedTransport) {
            self.inner = inner
            self.transport = transport
        }

        var port: UInt16 { inner.port }

        func accept() throws(LinkError) -> any StreamLink {
            let link = try inner.accept()
            let host = transport.state.update { state in
                state.acceptedCount += 1
                state.openCount += 1
                return state.sources.removeFirst()
            }
            return Accepted(link, LinkAddress(host: host, port: 1), transport)
        }

        func close() { inner.close() }
    }

    private final class Accepted: ForwardingLink {
        let inner: any StreamLink
        let remote: LinkAddress
        private let transport: AddressedTransport
        private let isClosed = Monitor(false)

        init(_ inner: any StreamLink, _ remote: LinkAddress, _ transport: AddressedTransport) {
            self.inner = inner
            self.remote = remote
            self.transport = transport
        }

        func close() {
            inner.close()
            let isFirst = isClosed.update { isClosed in
                defer { isClosed = true }
                return !isClosed
            }
            if isFirst { transport.state.update { $0.openCount -= 1 } }
        }
    }
}
