import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareEngine

@Suite("links whose first bytes are awaited") struct UnreadLinksTests {
    @Test("R3: the oldest silent link of a source gives way, and of all those of the source with the most") func bounds() {
        var links = UnreadLinks()
        let ended = Monitor<[String]>([])
        func open(_ host: String, _ number: Int) {
            let source = LinkSource(LinkAddress(host: host, port: 1))
            links.insert(source) { ended.update { $0.append("\(host) \(number)") } }.end?()
        }
        open("10.0.0.9", 0)
        for number in 0...UnreadLinks.maximumCountPerSource { open("10.0.0.1", number) }
        #expect(ended.withLock { $0 } == ["10.0.0.1 0"])
        for number in 2..<UnreadLinks.maximumCount { open("10.1.0.\(number)", number) }
        #expect(links.count == UnreadLinks.maximumCount)
        #expect(!ended.withLock { $0.contains("10.0.0.9 0") })
    }

    /// A link that records whether anything was written before its first bytes were reported.
    private final class Link: ForwardingLink {
        let inner: any StreamLink
        let isReported = Monitor(false)
        let reportsAtWrites = Monitor<[Bool]>([])

        init(_ inner: any StreamLink) {
            self.inner = inner
        }

        func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) {
            let isReported = isReported.withLock { $0 }
            reportsAtWrites.update { $0.append(isReported) }
            try inner.write(bytes)
        }
    }

    @Test(
        "R3: the first bytes of a link are reported on the thread that reads them, before the answer",
        .timeLimit(.minutes(1)))
    func opening() async throws {
        let transport = InMemoryTransport()
        let listener = try transport.listen(port: 0, interface: nil)
        defer { listener.close() }
        let peer = try transport.connect(
            to: LinkAddress(host: "10.0.0.1", port: listener.port), timeout: .seconds(1), cancelledBy: nil)
        defer { peer.close() }
        let link = Link(try listener.accept())
        try LinkDemultiplexer.write(Preamble.supportedMesh.encoded, to: peer)
        let opening = await LinkDemultiplexer(link, acceptsFrames: true, timeout: .seconds(30)) {
            link.isReported.update { $0 = true }
        }
        let isMesh = if case .frames = opening { true } else { false }
        #expect(isMesh && link.reportsAtWrites.withLock { $0 } == [true])
    }

    @Test("R3: silent links of a hundred addresses, renewed without end, leave each new one time for its first bytes")
    func manyAddresses() {
        var links = UnreadLinks()
        let isEnded = Monitor(false)
        for number in 0..<1_000 {
            if number == 500 { links.insert(.host("10.0.0.1")) { isEnded.update { $0 = true } }.end?() }
            links.insert(.host("10.1.0.\(number % 100)")) {}.end?()
            if number == 500 + UnreadLinks.maximumCount - 2 { #expect(!isEnded.withLock { $0 }) }
        }
        #expect(isEnded.withLock { $0 } && links.count == UnreadLinks.maximumCount)
    }

    @Test("R3: of the links that are told that there is no slot, a source has its share") func refusals() {
        var refusals = RefusedLinks()
        let sources = (1...3).map { LinkSource(LinkAddress(host: "10.0.0.\($0)", port: 1)) }
        let begun = [0, 0, 0, 1, 1, 2].map { refusals.begin(sources[$0]) }
        #expect(begun == [true, true, false, true, true, false])
        refusals.end(sources[0])
        let next = refusals.begin(sources[2])
        #expect(next && refusals.count == RefusedLinks.maximumCount)
    }
}
