import Glibc
import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareEngine

/// Attempts to connect to a peer that does not answer.
@Suite(.timeLimit(.minutes(2)), .leavesNothing) struct ConnectionAttemptTests {
    @Test("a cancelled attempt is reported as cancelled") func cancelled() async throws {
        try await withSilence { _, session, destination, attempt in
            let invitation = Task { try await session.invite(destination) }
            _ = await attempt.value
            invitation.cancel()
            await #expect(throws: SessionError.cancelled) { try await invitation.value }
        }
        try await withSilence { node, _, destination, attempt in
            let connection = Task { try await node.withConnection(to: destination) { _ in } }
            _ = await attempt.value
            connection.cancel()
            await #expect(throws: CancellationError.self) { try await connection.value }
        }
    }

    @Test("the timeout of an invitation bounds the attempt to connect") func bounded() async throws {
        try await withSilence { _, session, destination, _ in
            let error = await #expect(throws: SessionError.self) { try await session.invite(destination, timeout: .seconds(1)) }
            if case .timedOut? = error {} else { Issue.record("\(String(describing: error))") }
        }
    }

    @Test("attempts end with the node") func stopped() async throws {
        try await withSilence { node, session, destination, attempt in
            let invitation = Task { try await session.invite(destination) }
            _ = await attempt.value
            await node.stop()
            await #expect(throws: SessionError.left) { try await invitation.value }
        }
        try await withSilence { node, _, destination, attempt in
            let connection = Task { try await node.withConnection(to: destination) { _ in } }
            _ = await attempt.value
            await node.stop()
            let error = await #expect(throws: NodeError.self) { try await connection.value }
            #expect(error?.description == Node.stoppedError.description)
        }
        // The call of a peer of the mesh at its last address, which nothing awaits but the node.
        try await withSilence { node, _, destination, attempt in
            _ = node.joinMesh()
            node.connectMesh(to: try #require(destination.id)) { destination.addresses.first }
            _ = await attempt.value
        }
    }

    @Test("a missing route of this machine is the cause only where no other address has failed", arguments: [true, false])
    func noRoute(isFirst: Bool) async {
        let refused = NodeError.unreachable("connection refused")
        let noRoute = NodeError(LinkError(.networkUnreachable, "network is unreachable"))
        #expect(noRoute.isWithoutRoute && !NodeError.unreachable(noRoute.description).isWithoutRoute)
        let addresses = (1...2).map { LinkAddress(host: "192.0.2.\($0)", port: 1) }
        func failure(_ first: NodeError, _ second: NodeError) async -> NodeError? {
            await #expect(throws: NodeError.self) {
                try await AddressRace.first(
                    over: addresses, discarding: { (_: Int) in },
                    { address throws(NodeError) in throw address == addresses[0] ? first : second })
            }
        }
        let mixed = await isFirst ? failure(noRoute, refused) : failure(refused, noRoute)
        #expect(mixed?.description == refused.description && mixed?.isWithoutRoute == false)
        #expect(await failure(noRoute, noRoute)?.isWithoutRoute == true)
    }

    @Test(
        "D1: an address that is announced during the attempts is tried, although the others are silent or have failed",
        arguments: [true, false])
    func announcedLater(areSilent: Bool) async throws {
        let addresses = (1...20).map { LinkAddress(host: "192.0.2.\($0)", port: 1) }
        let last = LinkAddress(host: "192.0.2.99", port: 1)
        let (further, sink) = AsyncStream.makeStream(of: LinkAddress.self)
        // One that is known already, and a new one.
        for address in [addresses[0], last] { sink.yield(address) }
        let found = try await AddressRace.first(
            over: Array(addresses.prefix(areSilent ? 1 : 20)),
            further: {
                var iterator = further.makeAsyncIterator()
                return await iterator.next()
            },
            discarding: { (_: LinkAddress) in },
            { (address: LinkAddress) async throws(NodeError) -> LinkAddress in
                if address == last { return address }
                if areSilent { _ = await Promise<Void>().value }
                throw NodeError(LinkError(.networkUnreachable, "network is unreachable"))
            })
        #expect(found == last)
    }

    @Test("the attempts end where no further address is announced") func noneAnnounced() async {
        let refused = NodeError.unreachable("connection refused")
        let error = await #expect(throws: NodeError.self) {
            try await AddressRace.first(
                over: [LinkAddress(host: "192.0.2.1", port: 1)], further: { nil }, discarding: { (_: Int) in },
                { _ throws(NodeError) in throw refused })
        }
        #expect(error?.description == refused.description)
    }

    @Test("D1: further addresses are those of the service under which the peer was found") func otherService() async throws {
        let network = TestNetwork(.memory)
        let segment = InMemorySegment()
        var (own, remote) = (network.settings(0), network.settings(1))
        own.discovery = segment.join(host: "127.0.0.1")
        remote.discovery = segment.join(host: "127.0.0.1")
        try await withNode(remote) { [own] remote in
            let service = try ServiceType("my-drop")
            let (listener, other) = (try remote.listen(as: service), try remote.listen())
            try await withNode(own) { own in
                var found = try await own.find(network.id(1).hex, for: service, timeout: .seconds(30))
                #expect(found.destination.announcedService == service)
                // The address has changed since.
                found.addresses = [LinkAddress(host: "127.0.0.1", port: 9)]
                #expect(other.port != listener.port)
                let port = try await own.withConnection(to: found.destination) { $0.address.port }
                #expect(port == listener.port)
            }
        }
    }

    @Test("D1: addresses that are tried already, or at which another peer has answered, are not among the further ones")
    func discarded() async throws {
        let network = TestNetwork(.memory)
        let segment = InMemorySegment()
        var settings = network.settings(0)
        settings.discovery = segment.join(host: "192.0.2.1")
        let txt = PeerTXTRecord(id: network.id(1), name: try DisplayName("bea")).strings
        let advertisements = try (1...3).map { number in
            try segment.join(host: "192.0.2.9").advertise(
                Advertisement(instance: "\(number)", type: .nearshare, port: UInt16(number), txt: txt))
        }
        defer { for advertisement in advertisements { advertisement.stop() } }
        let addresses = (1...3).map { LinkAddress(host: "192.0.2.9", port: UInt16($0)) }
        try await withNode(settings) { node in
            var destination = PeerDestination(addresses: [addresses[0]], id: network.id(1))
            #expect(AnnouncedAddresses(of: destination, on: node) == nil)
            destination.announcedService = .nearshare
            destination.discardedAddresses = [addresses[1]]
            let announced = try #require(AnnouncedAddresses(of: destination, on: node))
            #expect(await announced.next() == addresses[2])
        }
    }

    /// Runs a node, and a session, with the destination of a peer that does not answer.
    /// - Parameter body: receives the node, the session, the destination, and a promise that an attempt fulfils.
    private func withSilence(
        _ body: @escaping @Sendable (Node, Session, PeerDestination, Promise<Void>) async throws -> Void
    ) async throws {
        let network = TestNetwork(.memory)
        let attempt = Promise<Void>()
        var settings = network.settings(0)
        settings.transport = SilentTransport(inner: settings.transport, attempt: attempt)
        // Longer than the test: the attempts end for another reason.
        settings.limits.connectTimeout = .seconds(600)
        try await withNode(settings) { node in
            try await body(node, try node.startSession(TestNetwork.trusting), network.destination(1, 9), attempt)
        }
    }
}

/// A network on which no address answers.
private struct SilentTransport: StreamTransport {
    let inner: any StreamTransport
    let attempt: Promise<Void>

    func listen(port: UInt16, interface: String?) throws(LinkError) -> any StreamListener {
        try inner.listen(port: port, interface: interface)
    }

    func connect(
        to address: LinkAddress, timeout: Duration, cancelledBy cancellation: EventFD?
    ) throws(LinkError) -> any StreamLink {
        attempt.fulfil()
        var event = pollfd(fd: cancellation?.descriptor ?? -1, events: Int16(POLLIN), revents: 0)
        let count = poll(&event, 1, Int32(clamping: timeout.components.seconds * 1000))
        throw count > 0 ? LinkError(.closed, "the attempt was cancelled") : LinkError(.timedOut, "timed out")
    }
}
