import NearshareEngine
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

/// Members of a session that are connected to where discovery finds them.
@Suite(.timeLimit(.minutes(2)), .leavesNothing) struct SessionDiscoveryTests {
    @Test("members that know no address of their own are connected to where discovery finds them")
    func foundMembers() async throws {
        let segment = InMemorySegment()
        let adjust: @Sendable (Int, inout NodeSettings) -> Void = { _, settings in
            settings.transport = NamelessTransport(inner: settings.transport)
            settings.discovery = segment.join(host: "127.0.0.1")
        }
        try await TestNetwork.withSession(of: 3, .memory, adjust: adjust) { network, sessions in
            // Both were invited by the third one, behind which they stayed otherwise.
            try await sessions[1].wait { $0.state(of: network.id(2)) == .connected(via: nil) }
            try await sessions[2].wait { $0.state(of: network.id(1)) == .connected(via: nil) }
        }
    }

    /// The event that begins the search for members of a session whose node did not listen when it was started.
    enum Trigger: CaseIterable {
        case browsing
        case invitingFoundPeer
        case listening
    }

    @Test("a node that did not listen when its session began finds a member at its new address", arguments: Trigger.allCases)
    func lateSearch(_ trigger: Trigger) async throws {
        let network = TestNetwork(.memory)
        let segment = InMemorySegment()
        var settings = network.settings(0)
        settings.transport = NamelessTransport(inner: settings.transport)
        settings.discovery = segment.join(host: "127.0.0.1")
        var guestSettings = network.settings(1)
        guestSettings.transport = NamelessTransport(inner: guestSettings.transport)
        guestSettings.discovery = BlindDiscovery(inner: segment.join(host: "127.0.0.1"))
        try await withNode(settings) { [guestSettings] host in
            try await withNode(guestSettings) { guest in
                let listener = try guest.listen(joinsMesh: false)
                let session = try host.startSession(TestNetwork.trusting)
                async let joined = listener.sessionInvitations.first { _ in true }?.accept(TestNetwork.trusting)
                var destination = network.destination(1, listener.port)
                if trigger == .browsing { _ = try await host.browse() }
                if trigger == .invitingFoundPeer {
                    destination = try await host.find("node 1", timeout: .seconds(60)).destination
                }
                let id = try await session.invite(destination)
                #expect(id == network.id(1))
                let other = try #require(await joined)
                try await session.waitUntilAllAreConnected(1)
                if trigger == .listening { _ = try host.listen(joinsMesh: false) }
                // Only the discovery of the host knows the new address of the guest.
                guest.closePort(of: listener)
                _ = try guest.listen(joinsMesh: false)
                network.partition(0, 1)
                try await session.wait { $0.state(of: network.id(1))?.isConnected == false }
                network.heal(0, 1)
                try await session.wait { $0.state(of: network.id(1)) == .connected(via: nil) }
                await session.leave()
                await other.leave()
            }
        }
    }
}

/// A discovery that advertises and finds nothing.
private struct BlindDiscovery: Discovery {
    let inner: any Discovery

    var engine: String { inner.engine }

    func advertise(_ advertisement: Advertisement) throws(DiscoveryError) -> any RunningAdvertisement {
        try inner.advertise(advertisement)
    }

    func browse(
        for type: ServiceType, interface: String?
    ) throws(DiscoveryError) -> AsyncThrowingStream<DiscoveryEvent, any Error> {
        let (stream, continuation) = DiscoveryEvent.makeStream()
        continuation.finish()
        return stream
    }
}

/// Links that do not tell the address of this end.
private struct NamelessTransport: StreamTransport {
    let inner: any StreamTransport

    func listen(port: UInt16, interface: String?) throws(LinkError) -> any StreamListener {
        NamelessListener(inner: try inner.listen(port: port, interface: interface))
    }

    func connect(
        to address: LinkAddress, timeout: Duration, cancelledBy cancellation: EventFD?
    ) throws(LinkError) -> any StreamLink {
        NamelessLink(try inner.connect(to: address, timeout: timeout, cancelledBy: cancellation))
    }
}

private final class NamelessListener: StreamListener {
    private let inner: any StreamListener

    init(inner: any StreamListener) {
        self.inner = inner
    }

    var port: UInt16 { inner.port }

    func accept() throws(LinkError) -> any StreamLink { NamelessLink(try inner.accept()) }

    func close() { inner.close() }
}

private final class NamelessLink: ForwardingLink {
    let inner: any StreamLink

    init(_ inner: any StreamLink) {
        self.inner = inner
    }

    var localHost: String? { nil }
}
