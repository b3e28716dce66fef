import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTCP
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareEngine

/// Links that another process of the user serves in place of the node.
@Suite("links that are passed on to another process", .timeLimit(.minutes(1)), .leavesNothing) struct PassedLinkTests {
    private let stage = Stage(.tcp)
    private let transport: any StreamTransport = TCPTransport()

    /// A receiver whose sockets can be passed on, and whose clock stands still.
    private var receiver: NodeSettings {
        var settings = stage.receiver
        settings.transport = transport
        let start = SystemClock.monotonic()
        settings.clock = { start }
        return settings
    }

    @Test("R9: links that are passed on use up no handshakes of their address") func handshakes() async throws {
        try await withNode(receiver) { node in
            let listener = try node.listen()
            let (openings, continuation) = AsyncStream.makeStream(of: [UInt8].self)
            node.passLinks { link in
                continuation.yield(link.opening)
                return true
            }
            var passed = openings.makeAsyncIterator()
            // More than one address can begin at once.
            for _ in 0..<100 {
                let link = try transport.connect(
                    to: LinkAddress(host: "127.0.0.1", port: listener.port), timeout: .seconds(5))
                defer { link.close() }
                try LinkDemultiplexer.write(Preamble.supported.encoded, to: link)
                let opening = await passed.next()
                // The bytes that tell the kind of link; the others are not read yet.
                #expect(opening == Array(Preamble.supported.encoded.prefix(4)))
            }
            node.passLinks(to: nil)
        }
    }

    @Test("R3: a link without a slot is refused, and not passed on") func refused() async throws {
        var settings = receiver
        settings.limits.linksPerAddress = 1
        try await withNode(settings) { node in
            let listener = try node.listen()
            var sender = stage.sender
            sender.transport = transport
            let (openings, continuation) = AsyncStream.makeStream(of: [UInt8].self)
            try await withNode(sender) { sender in
                try await sender.withConnection(to: stage.destination(listener.port)) { connection in
                    let content = InMemorySource(MemoryContent(file: "x", [1]))
                    _ = connection.send(content, resumeKey: Stage.resumeKey, timeout: .seconds(60))
                    // From now on the link is in use.
                    let invitation = await listener.invitations.first { _ in true }
                    node.passLinks { link in
                        continuation.yield(link.opening)
                        return true
                    }
                    let second = try await HostileMember(TestNetwork.identity(9)).connect(to: listener.port, over: transport)
                    try await second.wait { $0 == ControlFrame.close(.tooManyLinks).encoded }
                    second.close()
                    try await second.waitUntilOver()
                    #expect(invitation != nil)
                }
            }
            node.passLinks(to: nil)
            continuation.finish()
            var passed = openings.makeAsyncIterator()
            let opening = await passed.next()
            #expect(opening == nil)
        }
    }
}
