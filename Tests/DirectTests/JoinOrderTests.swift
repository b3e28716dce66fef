import NearshareBase
import Testing

@testable import NearshareDirect

/// Which of the members that join at the same time step back.
@Suite struct JoinOrderTests {
    private static let start = MonotonicInstant(nanoseconds: 1_000_000_000)

    private func peer(_ number: UInt8) -> PeerID { PeerID(bytes: [UInt8](repeating: number, count: 8))! }

    /// A member that has joined peer 9, and has received a whole roster with peer 8.
    private func joined() -> JoinOrder {
        var order = JoinOrder()
        order.recordJoin(of: peer(9), now: Self.start)
        order.recordRoster([peer(8)])
        return order
    }

    /// Whether a member is surplus in a session of three that has a link to peer 9.
    private func isSurplus(
        _ own: UInt8, _ order: JoinOrder, among others: [UInt8], linked: [UInt8] = [9], after time: Duration = .seconds(1)
    ) -> Bool {
        order.isSurplus(
            peer(own), among: others.map(peer), linked: linked.map(peer), limit: 3, now: Self.start + time)
    }

    @Test func `of two that join at the same time the one with the higher id steps back`() {
        #expect(!isSurplus(3, joined(), among: [8, 9]))
        #expect(!isSurplus(3, joined(), among: [8, 9, 4]))
        #expect(isSurplus(4, joined(), among: [8, 9, 3]))
    }

    @Test func `a member that was there before comes first, whatever its id`() {
        #expect(isSurplus(4, joined(), among: [8, 9, 3]))
        var alone = JoinOrder()
        alone.recordJoin(of: peer(9), now: Self.start)
        alone.recordRoster([])
        #expect(!isSurplus(4, alone, among: [8, 9, 3]))
    }

    @Test("S4: a member that joined some time ago stays, and so does one that no member has answered")
    func stays() {
        #expect(!isSurplus(4, joined(), among: [8, 9, 3], after: .seconds(11)))
        #expect(!isSurplus(4, joined(), among: [8, 9, 3], linked: []))
        var refused = joined()
        refused.recordRefusal(of: peer(8))
        #expect(isSurplus(4, refused, among: [8, 9, 3], linked: []))
    }

    @Test func `a member that was invited stays when others are invited later`() {
        var order = joined()
        #expect(!order.isLaterMember(now: Self.start + .seconds(2)))
        #expect(order.isLaterMember(now: Self.start + .seconds(3)))
        order.recordLaterMember(peer(3))
        #expect(!isSurplus(4, order, among: [8, 9, 3]))
    }

    @Test func `a member does not know its group until a whole roster has arrived, or two seconds have passed`() {
        var order = JoinOrder()
        #expect(!order.isIncomplete(now: Self.start))
        order.recordJoin(of: peer(9), now: Self.start)
        #expect(order.isIncomplete(now: Self.start + .seconds(2)))
        #expect(!order.isIncomplete(now: Self.start + .seconds(3)))
        order.recordRoster([])
        #expect(!order.isIncomplete(now: Self.start))
    }
}
