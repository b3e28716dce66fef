import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareEngine

@Suite("bodies of LocalSend requests without their end") struct PartialBodiesTests {
    /// A link at an address of the test's.
    private final class Link: ForwardingLink {
        let inner: any StreamLink
        let remote: LinkAddress

        init(_ host: String) throws {
            let transport = InMemoryTransport()
            let listener = try transport.listen(port: 0, interface: nil)
            defer { listener.close() }
            inner = try transport.connect(
                to: LinkAddress(host: host, port: listener.port), timeout: .seconds(1), cancelledBy: nil)
            remote = LinkAddress(host: host, port: 1)
        }
    }

    private let start = MonotonicInstant(nanoseconds: 0)

    @Test("R1: bodies that are held back share a bound: a connection of the source that holds most is closed")
    func all() throws {
        var bodies = PartialBodies()
        let small = try Link("10.0.0.200")
        var closed = bodies.record(4096, on: small, now: start).count
        for number in 0..<32 {
            // Four connections of each address.
            let links = bodies.record(1 << 20, on: try Link("10.0.0.\(number / 4)"), now: start)
            #expect(!links.contains { $0 === small })
            closed += links.count
            #expect(bodies.byteCount <= PartialBodies.capacity)
        }
        #expect(closed == 25)
        bodies.remove(small)
        #expect(bodies.byteCount == 7 << 20)
    }

    @Test("R1: the bodies of one address hold half of it") func address() throws {
        var bodies = PartialBodies()
        let closed = try (0..<6).map { _ in bodies.record(1 << 20, on: try Link("10.0.0.1"), now: start).count }
        #expect(closed == [0, 0, 0, 0, 1, 1] && bodies.byteCount == PartialBodies.capacityPerSource)
    }

    @Test("R1: of the bodies of a shared network those without progress are closed, and not the largest one")
    func progress() throws {
        var bodies = PartialBodies()
        let honest = try Link("2001:db8::1")
        let held = try (2..<26).map { try Link("2001:db8::\($0)") }
        var closed: [any StreamLink] = []
        for link in held { closed += bodies.record(168 << 10, on: link, now: start) }
        #expect(closed.isEmpty)
        // 64 KiB a second, beside a byte of each of the others.
        for second in 1...16 {
            let now = start + .seconds(second)
            closed += bodies.record(second << 16, on: honest, now: now)
            for link in held where !closed.contains(where: { $0 === link }) {
                closed += bodies.record(168 << 10 + second, on: link, now: now)
            }
        }
        #expect(!closed.isEmpty && !closed.contains { $0 === honest })
        #expect(bodies.byteCount <= PartialBodies.capacityPerSource)
    }

    @Test("R1: a small body that arrives slowly outlives the large ones of a burst in its network") func burst() throws {
        var bodies = PartialBodies()
        let (slow, fresh) = (try Link("2001:db8::1"), try Link("2001:db8::2"))
        // 20 KiB a second.
        var closed = (0..<4).flatMap { bodies.record($0 * 20 << 10, on: slow, now: start + .seconds($0)) }
        let now = start + .seconds(4)
        closed += bodies.record(50 << 10, on: fresh, now: now)
        let burst = try (3..<9).map { try Link("2001:db8::\($0)") }
        for link in burst { closed += bodies.record(1 << 20 - 1, on: link, now: now) }
        #expect(closed.count == 3 && closed.allSatisfy { link in burst.contains { $0 === link } })
    }
}
