import NearshareBase
import NearshareBundles
import Testing

@testable import NearshareEngine

@Suite("the trace of bundles") struct BundleTraceTests {
    @Test("each decision is recorded with its time, as a sentence") func sentences() throws {
        let trace = BundleTrace(wallClock: { WallTime(milliseconds: 5) })
        let id = try #require(BundleID(bytes: [UInt8](0..<16)))
        let neighbour = EndpointID(rawValue: 7)
        let decisions: [BundleDecision] = [
            .stored(previousNode: nil, hopCount: 0), .stored(previousNode: neighbour, hopCount: 2),
            .forwarded(to: neighbour, hopCount: 3, .routed), .delivered, .deleted,
        ]
        for decision in decisions { trace.record(id, decision) }
        #expect(
            trace.all.map(\.decision.rawValue) == [
                "stored, from here, hop 0", "stored, from 0000000000000007, hop 2",
                "forwarded to 0000000000000007 as hop 3, routed", "delivered here", "deleted",
            ])
        #expect(trace.all.allSatisfy { $0.subject == .bundle && $0.id == id.hex && $0.time == WallTime(milliseconds: 5) })
    }
}
