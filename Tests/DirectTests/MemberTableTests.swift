import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareDirect

@Suite("the entries of a roster") struct MemberTableTests {
    private static func member(
        _ byte: UInt8, incarnation: UInt32 = 0, presence: SessionMember.Presence = .present, revision: UInt32 = 0
    ) -> SessionMember {
        SessionMember(
            fingerprint: Fingerprint(bytes: [UInt8](repeating: byte, count: 32))!, name: DisplayName(truncating: "m\(byte)")!,
            incarnation: incarnation, presence: presence, revision: revision)
    }

    private func table(_ maximum: Int = 8) -> MemberTable { MemberTable(own: Self.member(0), maximumMemberCount: maximum) }

    @Test func `members join, leave, and are listed by id`() {
        var table = table()
        let changes = [table.store(Self.member(2)), table.store(Self.member(1)), table.store(Self.member(1))]
        #expect(changes == [[.joined(Self.member(2))], [.joined(Self.member(1))], []])
        #expect(table.others.map(\.id) == [Self.member(1).id, Self.member(2).id])
        let left = table.store(Self.member(2, presence: .gone))
        #expect(left == [.left(Self.member(2).id)])
        #expect(table.member(Self.member(2).id) == nil && table.otherIDs == [Self.member(1).id])
        #expect(table.all.map(\.presence) == [.present, .present, .gone])
        #expect(table.nextIncarnation(of: Self.member(2)) == 1)
    }

    /// The changed entries for a neighbour that knows none of them.
    private func update(_ table: inout MemberTable) -> [SessionMember]? {
        table.drainUpdates(for: [Self.member(99).id]).first?.entries
    }

    @Test func `a change is sent once, and only the changed entry`() {
        var table = table()
        let unchanged = update(&table)
        _ = table.store(Self.member(1))
        let first = update(&table)
        let second = update(&table)
        #expect(unchanged == nil && first == [Self.member(1)] && second == nil)
        table.setOwnNeighbours([Self.member(1).id])
        table.setOwnNeighbours([Self.member(1).id])
        let third = update(&table)
        #expect(third?.count == 1 && third?.first?.id == table.own && third?.first?.revision == 1)
        let fourth = update(&table)
        #expect(fourth == nil)
    }

    @Test func `a change is not sent to members that know it, nor to those that its owner informs`() {
        var table = table()
        var linked = Self.member(1)
        linked.neighbours = [Self.member(2).id]
        _ = table.store(linked)
        table.recordKnowledge(of: linked.id, by: Self.member(3).id)
        // Not changed, so no member needs it.
        table.recordKnowledge(of: Self.member(7).id, by: Self.member(3).id)
        let updates = table.drainUpdates(for: [2, 3, 4].map { Self.member($0).id })
        #expect(updates.map(\.member) == [Self.member(4).id])
        // A departure is told by all, as its owner does not.
        _ = table.store(Self.member(1, presence: .gone))
        let departures = table.drainUpdates(for: [2, 3, 4].map { Self.member($0).id })
        #expect(departures.count == 3)
    }

    /// Whether a newer entry replaces an older one.
    private func verdict(_ new: SessionMember, known: SessionMember) -> MemberTable.MergeDecision {
        var table = table()
        _ = table.store(known)
        return table.classify(new)
    }

    @Test("the rule for newer entries is a strict order, so that members converge", arguments: seeds(1...20))
    func strictOrder(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        func entry() -> SessionMember {
            Self.member(
                1, incarnation: UInt32.random(in: 0...2, using: &random), presence: random.once(in: 2) ? .gone : .present,
                revision: UInt32.random(in: 0...2, using: &random))
        }
        for _ in 0..<100 {
            let (one, other) = (entry(), entry())
            let forward = verdict(one, known: other) == .newer
            let backward = verdict(other, known: one) == .newer
            #expect(!(forward && backward), "seed \(seed): \(one) \(other)")
            let isSameRank =
                one.incarnation == other.incarnation && one.presence == other.presence && one.revision == other.revision
            #expect(forward || backward || isSameRank, "seed \(seed): \(one) \(other)")
        }
    }

    @Test("K4: an entry with another key for a known id is ignored")
    func otherKey() {
        var table = table()
        _ = table.store(Self.member(1))
        var forged = [UInt8](repeating: 1, count: 32)
        forged[31] = 9
        var entry = Self.member(1, incarnation: 5)
        entry.fingerprint = Fingerprint(bytes: forged)!
        #expect(entry.id == Self.member(1).id && table.classify(entry) == .ignored)
    }

    @Test("R7: an incarnation far ahead is ignored, about this member as well")
    func farAhead() {
        let table = table()
        #expect(table.classify(Self.member(1, incarnation: 1_024)) == .newer)
        #expect(table.classify(Self.member(1, incarnation: 1_025)) == .ignored)
        #expect(table.classify(Self.member(0, incarnation: 1_024)) == .aboutOwn)
        #expect(table.classify(Self.member(0, incarnation: .max)) == .ignored)
    }

    @Test("S6: a number is raised by one step at most, which hides a member from those that join later")
    func raisedNumbers() {
        var table = table()
        table.refute(Self.member(0, incarnation: 1_024, presence: .gone))
        // A leap over the limit is not even refuted.
        let leap = table.classify(Self.member(0, incarnation: 1_024 + 1_024 + 2, presence: .gone))
        #expect(leap == .ignored && table.ownEntry.incarnation == 1_025)
        // A member that knew the own entry before follows; one that has just joined does not learn of it.
        var known = MemberTable(own: Self.member(1), maximumMemberCount: 8)
        _ = known.store(Self.member(0, incarnation: 1))
        #expect(known.classify(table.ownEntry) == .newer)
        let joining = MemberTable(own: Self.member(2), maximumMemberCount: 8)
        #expect(joining.classify(table.ownEntry) == .ignored)
    }

    @Test("A4: a claim that this member is gone is refuted by a higher incarnation")
    func refutation() {
        var table = table()
        table.refute(Self.member(0, incarnation: 3, presence: .gone))
        #expect(table.all.first?.incarnation == 4)
        // An echo of what it has announced itself needs no answer.
        table.setOwnAddresses([SessionMember.Address(host: "10.0.0.1", port: 1)])
        _ = update(&table)
        table.refute(Self.member(0, incarnation: 4, revision: 0))
        table.refute(Self.member(0, incarnation: 2, presence: .gone))
        let update = update(&table)
        #expect(update == nil)
    }

    @Test("R6: a member that returns waits for room, and the own entry is never replaced")
    func returning() {
        var table = table(3)
        for byte in 1...2 as ClosedRange<UInt8> { _ = table.store(Self.member(byte)) }
        _ = table.store(Self.member(1, presence: .gone))
        #expect(table.classify(Self.member(1, incarnation: 1)) == .newer)
        _ = table.store(Self.member(3))
        let returning = Self.member(1, incarnation: 1)
        #expect(table.isFull && table.classify(returning) == .newer)
        let changes = table.store(returning)
        #expect(changes == [] && Array(table.waiting.keys) == [returning.id] && table.member(returning.id) == nil)
        // Others may have added it instead of the latest member here.
        #expect(update(&table)?.contains(returning) == true)
        let left = table.store(Self.member(3, presence: .gone))
        #expect(left == [.left(Self.member(3).id), .joined(returning)] && table.waiting.isEmpty)
        let own = table.store(Self.member(0, presence: .gone))
        #expect(own == [] && table.ownEntry.presence == .present)
    }

    @Test("R6: few peers wait for room, and one that leaves waits no longer")
    func waiting() {
        var table = table(2)
        for byte in 1...9 as ClosedRange<UInt8> { _ = table.store(Self.member(byte)) }
        #expect(table.otherIDs == [Self.member(1).id] && table.waiting.count == 8)
        #expect(table.classify(Self.member(10)) == .ignored)
        let changes = table.store(Self.member(5, presence: .gone))
        #expect(changes == [] && table.waiting.count == 7 && table.classify(Self.member(10)) == .newer)
        table.forgetWaiting(now: MonotonicInstant(nanoseconds: 1_000_000_000) + .seconds(9))
        #expect(table.waiting.count == 7)
        table.forgetWaiting(now: MonotonicInstant(nanoseconds: 1_000_000_000) + .seconds(10))
        #expect(table.waiting.isEmpty && table.all.count { $0.presence == .present } == 2)
    }

    @Test("R6: the table is bounded, whoever joins and leaves")
    func bounds() {
        var table = table(4)
        for byte in 1...200 as ClosedRange<UInt8> {
            let entry = Self.member(byte, presence: byte % 2 == 0 ? .gone : .present)
            if table.classify(entry) == .newer { _ = table.store(entry) }
        }
        #expect(table.isFull && table.otherIDs.count == 3)
        #expect(table.all.count <= SessionFrame.maximumRosterCount)
        // Departures push out the oldest departures, never a present member.
        while let member = table.others.first { _ = table.store(Self.member(member.fingerprint.bytes[0], presence: .gone)) }
        #expect(table.otherIDs.isEmpty && table.all.count <= SessionFrame.maximumRosterCount)
        #expect(table.all.first?.id == table.own)
    }
}

extension MemberTable {
    fileprivate mutating func store(_ member: SessionMember) -> [SessionChange] {
        store(member, now: MonotonicInstant(nanoseconds: 1_000_000_000))
    }
}
