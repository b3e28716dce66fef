import NearshareBase
import NearshareDirect
import Testing

/// Removal of members by the founder, as the roster decides it.
@Suite struct SessionRemovalTests {
    private let now = MonotonicInstant(nanoseconds: 1_000_000_000)

    private func member(_ number: UInt8, incarnation: UInt32 = 0) -> SessionMember {
        SessionMember(
            fingerprint: Fingerprint(bytes: [UInt8](repeating: number, count: 32))!,
            name: DisplayName(truncating: "node \(number)")!, incarnation: incarnation)
    }

    private func founder(_ number: UInt8, nonce: UInt8 = 0) -> SessionFounder {
        SessionFounder(
            fingerprint: member(number).fingerprint, nonce: [UInt8](repeating: nonce, count: SessionFounder.nonceByteCount))!
    }

    /// The roster of a member of the session that member 1 has started; connected to all others.
    private func roster(_ number: UInt8, with others: UInt8...) -> SessionRoster {
        var roster = SessionRoster(
            id: founder(1).session, own: member(number), founder: number == 1 ? founder(1) : nil)
        for other in others {
            roster.admit(member(other), now: now)
            roster.recordConnection(to: member(other).id, via: nil, now: now)
        }
        _ = roster.drainChanges()
        return roster
    }

    private func removed(_ roster: SessionRoster) -> [Fingerprint]? {
        guard case .founder(_, _, let removed)? = roster.founderFrame else { return nil }
        return removed
    }

    @Test("the founder removes a member, which no later news brings back") func removes() {
        var roster = roster(1, with: 2, 3)
        #expect(roster.isFounder && removed(roster) == [])
        roster.remove(member(2).id, now: now)
        #expect(roster.drainChanges().contains(.left(member(2).id)))
        #expect(removed(roster) == [member(2).fingerprint])
        roster.receive([member(2, incarnation: 9)], from: member(3).id, now: now)
        #expect(roster.others.map(\.id) == [member(3).id])
        // Neither itself nor an unknown peer.
        roster.remove(member(1).id, now: now)
        roster.remove(member(7).id, now: now)
        #expect(removed(roster) == [member(2).fingerprint])
    }

    @Test("S10: members learn a removal from the founder, and pass on who the founder is, not the list") func learns() {
        var roster = roster(3, with: 1, 2)
        #expect(roster.founderFrame == nil && !roster.isFounder)
        let isOwnRemoval = roster.receive(founder(1), removed: [member(2).fingerprint], from: member(1).id, now: now)
        #expect(!isOwnRemoval && roster.isRemoved(member(2).fingerprint))
        #expect(roster.others.map(\.id) == [member(1).id])
        #expect(roster.founderFrame == .founder(roster.id, founder(1), removed: []))
        roster.receive([member(2, incarnation: 1)], from: member(1).id, now: now)
        #expect(roster.member(member(2).id) == nil, "not even the founder's own entries bring it back")
        let isRemoved = roster.receive(founder(1), removed: [member(3).fingerprint], from: member(1).id, now: now)
        #expect(isRemoved)
    }

    @Test("S16: a removal by any member but the founder counts for nothing") func forged() {
        var roster = roster(3, with: 1, 2)
        let others = roster.others
        // Proofs of another session, or with another number: the digest is not the session's identifier.
        for forged in [founder(2), founder(1, nonce: 1), founder(3)] {
            let isRemoved = roster.receive(
                forged, removed: [member(1).fingerprint, member(3).fingerprint], from: member(2).id, now: now)
            #expect(!isRemoved && roster.founder == nil)
        }
        // The genuine proof, copied from the founder's frame.
        let isRemoved = roster.receive(
            founder(1), removed: [member(1).fingerprint, member(3).fingerprint], from: member(2).id, now: now)
        #expect(!isRemoved && roster.founder == founder(1))
        roster.remove(member(2).id, now: now)
        #expect(roster.others == others)
        // The founder cannot be removed by itself either.
        _ = roster.receive(founder(1), removed: [member(1).fingerprint], from: member(1).id, now: now)
        #expect(roster.others == others)
    }

    @Test("S7: at most 64 removals are kept") func bounded() {
        var roster = roster(3, with: 1, 2)
        for number in 0..<10 {
            let fingerprints = (0..<64).map { index in
                Fingerprint(bytes: [UInt8(100 + number), UInt8(index)] + [UInt8](repeating: 9, count: 30))!
            }
            _ = roster.receive(founder(1), removed: fingerprints, from: member(1).id, now: now)
        }
        #expect(!roster.canRemove)
        _ = roster.receive(founder(1), removed: [member(2).fingerprint], from: member(1).id, now: now)
        #expect(!roster.isRemoved(member(2).fingerprint))
    }
}
