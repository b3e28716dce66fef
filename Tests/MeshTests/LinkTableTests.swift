import NearshareBase
import Testing

@testable import NearshareMesh

@Suite struct LinkTableTests {
    private let now = MonotonicInstant(nanoseconds: 1_000_000_000)

    private func link(_ number: UInt64) -> MeshLinkID { MeshLinkID(rawValue: number) }

    private func table(_ profiles: [MeshLinkProfile]) -> LinkTable {
        var table = LinkTable()
        for (number, profile) in profiles.enumerated() {
            table.open(link(UInt64(number)), profile: profile, budget: LinkBudget(MeshRouter.Settings(), now: now))
        }
        return table
    }

    @Test func aStreamIsBetterThanARadioAndANewerLinkThanAnOlder() {
        var table = table([.stream, .radio, .stream, .radio])
        #expect(table.best(of: [link(0), link(1), link(2), link(3)]) == link(2))
        #expect(table.best(of: [link(1), link(3)]) == link(3))
        table.close(link(2))
        #expect(table.best(of: [link(2), link(3)]) == link(3))
        #expect(table.best(of: [link(9)]) == nil)
    }

    @Test func shortFramesPassFragments() {
        var table = table([.radio])
        table.enqueue([1], on: link(0), priority: .bulk)
        table.enqueue([2], on: link(0), priority: .normal)
        table.enqueue([3], on: link(0), priority: .urgent)
        #expect((0..<4).map { _ in table.dequeueFrame(for: link(0)) } == [[3], [2], [1], nil])
        #expect(!table.hasFrame(for: link(0)))
    }

    @Test func manyWaitingFragmentsCongestALinkAndALimitHolds() {
        var table = table([.radio, .radio])
        let fragment = [UInt8](repeating: 0, count: 64 << 10)
        for _ in 0..<4 { table.enqueue(fragment, on: link(0), priority: .bulk) }
        #expect(table.isCongested(link(0)) && !table.isCongested(link(1)))
        for _ in 0..<200 { table.enqueue(fragment, on: link(1), priority: .bulk) }
        var count = 0
        while table.dequeueFrame(for: link(1)) != nil { count += 1 }
        #expect(count == 127)
    }

    @Test("R2, M2: the budget of a link is spent by frames, signatures and malformed frames") func budget() {
        var settings = MeshRouter.Settings()
        (settings.frameBurst, settings.signatureBurst) = (3, 2)
        var budget = LinkBudget(settings, now: now)
        #expect((0..<4).map { _ in budget.admitFrame(now: now) } == [true, true, true, false])
        // A long payload costs as much as several signatures.
        let admitted = [40_000, 10].map { budget.admitSignature(byteCount: $0, now: now) }
        #expect(admitted == [true, false])
        budget.malformedFrameCount = 64
        #expect(!budget.isExhausted)
        budget.malformedFrameCount += 1
        #expect(budget.isExhausted)
    }
}
