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
