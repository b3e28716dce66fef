import Glibc
import NearshareBase
import NearshareDirect
import NearshareEngine
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Synchronization
import Testing

/// Sessions of many real nodes over TCP, up to the largest limit that the settings allow.
@Suite(.timeLimit(.minutes(10)), .serialized, .leavesNothing) struct SessionSizeTests {
    @Test(
        "16, 32 and 64 nodes form a session with few bytes, and a message reaches all",
        arguments: [(16, 1_000_000), (32, 2_000_000), (SessionFrame.maximumRosterCount, 8_000_000)])
    func forms(count: Int, maximumByteCount: Int) async throws {
        raiseDescriptorLimit()
        let byteCount = ByteCounter()
        var settings = TestNetwork.trusting
        settings.memberLimit = count
        let start = ContinuousClock.now
        let adjust: @Sendable (Int, inout NodeSettings) -> Void = { _, settings in
            settings.transport = CountingTransport(inner: settings.transport, counter: byteCount)
            // All nodes share one address.
            (settings.limits.links, settings.limits.linksPerAddress) = (256, 256)
        }
        try await TestNetwork.withSession(of: count, .tcp, settings: settings, adjust: adjust) { _, sessions in
            print(
                "a session of \(count): \(ContinuousClock.now - start), \(byteCount.total) bytes, \(byteCount.links) links")
            // All bytes, handshakes included. Two idle cores need 0.4 MB for 32, and 1.1 MB for 64; a busy machine takes longer, with
            // more rounds of gossip.
            #expect(byteCount.total < maximumByteCount)
            #expect(sessions.allSatisfy { $0.members.count == count - 1 })
            try await sessions[count - 1].send(SessionMessage(text: "hello"))
            for session in sessions.dropLast() {
                #expect(await session.messages.first { _ in true }?.message.text == "hello")
            }
            // At once: if one left after the other, those that stay would replace their links through it.
            await withDiscardingTaskGroup { group in
                for session in sessions { group.addTask { await session.leave(waiting: .zero) } }
            }
        }
    }

    /// 64 members hold several hundred links, each with a few descriptors.
    private func raiseDescriptorLimit() {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = max(limit.rlim_cur, min(limit.rlim_max, 16_384))
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
}

/// The bytes on all links of a test.
private final class ByteCounter: Sendable {
    private let count = Atomic(0)
    private let linkCount = Atomic(0)

    var total: Int { count.load(ordering: .relaxed) }
    var links: Int { linkCount.load(ordering: .relaxed) }

    func addLink() { linkCount.add(1, ordering: .relaxed) }

    func add(_ bytes: Int) { count.add(bytes, ordering: .relaxed) }
}

/// Counts what is written and read at the ends that have connected: all bytes of a link once.
private struct CountingTransport: StreamTransport {
    let inner: any StreamTransport
    let counter: ByteCounter

    func listen(port: UInt16, interface: String?) throws(LinkError) -> any StreamListener {
        try inner.listen(port: port, interface: interface)
    }

    func connect(
        to address: LinkAddress, timeout: Duration, cancelledBy cancellation: EventFD?
    ) throws(LinkError) -> any StreamLink {
        let link = try inner.connect(to: address, timeout: timeout, cancelledBy: cancellation)
        counter.addLink()
        return CountingLink(inner: link, counter: counter)
    }
}

private final class CountingLink: ForwardingLink {
    let inner: any StreamLink
    private let counter: ByteCounter

    init(inner: any StreamLink, counter: ByteCounter) {
        self.inner = inner
        self.counter = counter
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int {
        let count = try inner.read(into: buffer)
        counter.add(count)
        return count
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) {
        try inner.write(bytes)
        counter.add(bytes.count)
    }

    func writeWithoutBlocking(_ bytes: UnsafeRawBufferPointer) throws(LinkError) -> Int {
        let count = try inner.writeWithoutBlocking(bytes)
        counter.add(count)
        return count
    }
}
