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

    @Test("R1: bodies that are held back share a bound: the connection that holds most is closed, none with a small one")
    func all() throws {
        var bodies = PartialBodies()
        let small = try Link("10.0.0.200")
        let first = bodies.record(4096, on: small)
        var closed = first == nil ? 0 : 1
        for number in 0..<32 {
            // Four connections of each address.
            if let largest = bodies.record(1 << 20, on: try Link("10.0.0.\(number / 4)")) {
                #expect(largest !== small)
                closed += 1
            }
            #expect(bodies.byteCount <= PartialBodies.capacity)
        }
        #expect(closed == 25)
        bodies.remove(small)
        #expect(bodies.byteCount == 7 << 20)
    }

    @Test("R1: the bodies of one address hold half of it") func address() throws {
        var bodies = PartialBodies()
        let closed = try (0..<6).count { _ in bodies.record(1 << 20, on: try Link("10.0.0.1")) != nil }
        #expect(closed == 2 && bodies.byteCount == PartialBodies.capacityPerSource)
    }
}
