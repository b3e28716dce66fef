import NearshareBase
import NearshareDirect
import NearshareTesting
import Synchronization
import Testing

@Suite struct SessionRosterTests {
    private static let start = MonotonicInstant(nanoseconds: 1_000_000_000)
    private static let id = SessionID(bytes: [UInt8](repeating: 3, count: 16))!

    private func member(_ number: UInt8) -> SessionMember {
        SessionMember(
            fingerprint: Fingerprint(bytes: [UInt8](repeating: number, count: 32))!,
            name: DisplayName(truncating: "node \(number)")!,
            addresses: [SessionMember.Address(host: "10.0.0.\(number)", port: 9)])
    }

    private func roster(_ number: UInt8, with others: UInt8..., settings: SessionRoster.Settings = .init()) -> SessionRoster {
        var roster = SessionRoster(id: Self.id, own: member(number), settings: settings)
        for other in others { roster.admit(member(other), now: Self.start) }
        _ = roster.drainChanges()
        _ = news(&roster)
        return roster
    }

    /// The changed entries, as they are sent to a member; nil for none.
    private func news(
        _ roster: inout SessionRoster, for number: UInt8 = 250
    ) -> [SessionMember]? {
        for case (_, .roster(Self.id, let members)) in roster.drainUpdates(for: [member(number).id], now: ticks.next()) {
            return members
        }
        return nil
    }

    /// Times before ``start``, a second apart, so that each update is due.
    private final class Ticks: Sendable {
        private let count = Atomic(0)

        func next() -> MonotonicInstant {
            SessionRosterTests.start + .seconds(count.add(1, ordering: .relaxed).newValue - 10_000)
        }
    }

    private let ticks = Ticks()

    private func later(_ seconds: Double) -> MonotonicInstant { Self.start + .milliseconds(Int(seconds * 1000)) }

    @Test func `each change of a member's state is reported`() {
        var roster = roster(1)
        let other = member(2)
        roster.admit(other, now: Self.start)
        #expect(roster.drainChanges() == [.joined(other)])
        #expect(roster.state(of: other.id) == .notConnected)
        roster.recordAttempt(to: other.id)
        roster.recordConnection(to: other.id, via: member(3).id, now: Self.start)
        roster.recordConnection(to: other.id, via: nil, now: Self.start)
        roster.recordDisconnection(of: other.id, now: Self.start)
        roster.recordDeparture(of: other.id, now: Self.start)
        #expect(
            roster.drainChanges() == [
                .state(other.id, .connecting), .state(other.id, .connected(via: member(3).id)),
                .state(other.id, .connected(via: nil)), .state(other.id, .connecting), .left(other.id),
            ])
        #expect(roster.others.isEmpty && roster.member(other.id) == nil)
        // No changes are reported for a member that has left.
        roster.recordAttempt(to: other.id)
        roster.recordConnection(to: other.id, via: nil, now: Self.start)
        roster.recordDisconnection(of: other.id, now: Self.start)
        roster.recordFailure(of: other.id, now: Self.start)
        roster.recordDeparture(of: other.id, now: Self.start)
        #expect(roster.drainChanges().isEmpty)
    }

    @Test func `a member whose user has not yet agreed is neither removed nor connected to while its link is open`() {
        var roster = roster(1)
        let other = member(2).id
        roster.admit(member(2), now: Self.start)
        roster.recordJoining(other, until: later(60))
        _ = roster.drainChanges()
        var gone = roster.member(other)!
        gone.presence = .gone
        roster.receive([gone], from: member(3).id, now: later(1))
        roster.advance(to: later(59))
        #expect(roster.drainChanges().isEmpty)
        #expect(roster.dueAttempts(now: later(59)).isEmpty)
        roster.recordDisconnection(of: other, now: later(59))
        roster.advance(to: later(80))
        #expect(roster.drainChanges() == [.state(other, .connecting)])
        roster.advance(to: later(90))
        #expect(roster.drainChanges() == [.left(other)])
    }

    @Test func `a member that does not agree in time is removed`() {
        var roster = roster(1, with: 2)
        roster.recordJoining(member(2).id, until: later(60))
        #expect(roster.deadline(after: later(59)) == later(60))
        roster.advance(to: later(60))
        #expect(roster.drainChanges() == [.left(member(2).id)])
    }

    @Test func `a connected member that leaves is no neighbour any more`() {
        var roster = roster(1, with: 2, 3)
        for number: UInt8 in 2...3 { roster.recordConnection(to: member(number).id, via: nil, now: Self.start) }
        #expect(roster.member(member(1).id)?.neighbours == [member(2).id, member(3).id])
        roster.recordDeparture(of: member(2).id, now: Self.start)
        #expect(roster.member(member(1).id)?.neighbours == [member(3).id])
    }

    @Test("during an outage a member has one state, until it is connected again or has left", arguments: [true, false])
    func outage(returns: Bool) {
        var roster = roster(1, with: 2)
        let other = member(2).id
        roster.recordConnection(to: other, via: nil, now: Self.start)
        _ = roster.drainChanges()
        roster.recordDisconnection(of: other, now: Self.start)
        var (now, attemptCount) = (Self.start, 0)
        while roster.member(other) != nil, !returns || attemptCount < 4 {
            for _ in roster.dueAttempts(now: now) {
                attemptCount += 1
                roster.recordAttempt(to: other)
                roster.recordFailure(of: other, now: now)
            }
            guard let next = roster.deadline(after: now) else { break }
            now = next
            roster.advance(to: now)
        }
        if returns { roster.recordConnection(to: other, via: nil, now: now) }
        let changes = roster.drainChanges()
        #expect(attemptCount >= 4)
        #expect(changes == [.state(other, .connecting), returns ? .state(other, .connected(via: nil)) : .left(other)])
    }

    @Test func `a member that returns is new, and old news of its departure does not count`() {
        var roster = roster(1, with: 2)
        roster.recordDeparture(of: member(2).id, now: Self.start)
        var gone = member(2)
        gone.presence = .gone
        roster.admit(member(2), now: Self.start)
        #expect(roster.member(member(2).id)?.incarnation == 1)
        roster.receive([gone], from: member(2).id, now: Self.start)
        #expect(roster.member(member(2).id) != nil)
        gone.incarnation = 1
        roster.receive([gone], from: member(2).id, now: Self.start)
        #expect(roster.member(member(2).id) == nil)
    }

    @Test("the first announcer of a member vouches for it until that one is gone; one that joined the local node has none")
    func announcer() {
        var roster = roster(1, with: 2, 4)
        #expect(roster.announcer(of: member(2).id) == nil)
        roster.receive([member(3)], from: member(4).id, now: Self.start)
        var newer = member(3)
        newer.revision = 5
        roster.receive([newer], from: member(2).id, now: Self.start)
        #expect(roster.announcer(of: member(3).id) == member(4).id)
        roster.recordDeparture(of: member(3).id, now: Self.start)
        #expect(roster.announcer(of: member(3).id) == nil)
    }

    @Test("the word of an announcer is forgotten once it is old enough") func forgetsAnnouncer() {
        var roster = roster(1, with: 4)
        roster.receive([member(3)], from: member(4).id, now: Self.start)
        roster.forgetAnnouncer(of: member(3).id, olderThan: .seconds(5), now: later(4))
        #expect(roster.announcer(of: member(3).id) == member(4).id)
        roster.forgetAnnouncer(of: member(3).id, olderThan: .seconds(5), now: later(5))
        #expect(roster.announcer(of: member(3).id) == nil)
    }

    @Test func `each change is sent once`() {
        var roster = roster(1, with: 2)
        #expect(news(&roster) == nil)
        roster.receive([member(3)], from: member(2).id, now: Self.start)
        #expect(news(&roster)?.map(\.id) == [member(3).id])
        roster.receive([member(3)], from: member(2).id, now: Self.start)
        #expect(news(&roster) == nil)
    }

    @Test func `links are sent as neighbours, and only their own member's entry counts`() {
        var roster = roster(1, with: 2, 3)
        roster.recordConnection(to: member(2).id, via: nil, now: Self.start)
        roster.recordConnection(to: member(3).id, via: member(2).id, now: Self.start)
        let own = news(&roster)?.first { $0.id == member(1).id }
        #expect(own?.neighbours == [member(2).id] && own?.revision == 1)
        var claim = member(1)
        claim.revision = 77
        claim.neighbours = []
        roster.receive([claim], from: member(2).id, now: Self.start)
        // Sent by an earlier incarnation, if at all: the local node's current entry must take precedence everywhere.
        let again = news(&roster)?.first { $0.id == member(1).id }
        #expect(again?.neighbours == [member(2).id] && again?.incarnation == 1)
    }

    @Test func `the member with the lower id connects at once, the other one after a delay`() {
        let low = roster(1, with: 2)
        let high = roster(2, with: 1)
        #expect(low.dueAttempts(now: Self.start) == [.connect(member(2))])
        #expect(high.dueAttempts(now: Self.start).isEmpty)
        #expect(high.deadline(after: Self.start) == later(3))
        #expect(high.dueAttempts(now: later(3)) == [.connect(member(1))])
    }

    @Test func `direct attempts and those through a relay have back-offs of their own`() {
        var roster = roster(1, with: 2, 3)
        let id = member(2).id
        var relay = member(3)
        relay.revision = 1
        relay.neighbours = [id]
        roster.receive([relay], from: id, now: Self.start)
        roster.recordConnection(to: relay.id, via: nil, now: Self.start)
        // The addresses of a new member are tried first.
        #expect(roster.dueAttempts(now: Self.start) == [.connect(member(2))])
        roster.recordAttempt(to: id)
        roster.recordFailure(of: id, now: Self.start)
        var now = Self.start
        var (direct, relayed): ([MonotonicInstant], [MonotonicInstant]) = ([], [])
        while now < later(15.5) {
            for attempt in roster.dueAttempts(now: now) {
                if attempt.relay == nil { direct.append(now) } else { relayed.append(now) }
                roster.recordAttempt(to: id, through: attempt.relay)
                #expect(!roster.dueAttempts(now: now).contains(attempt))
                roster.recordFailure(of: id, through: attempt.relay, now: now)
            }
            guard let next = roster.deadline(after: now) else { break }
            now = next
        }
        #expect(direct == [0.5, 1.5, 3.5, 7.5].map { later($0) })
        #expect(Array(relayed.prefix(6)) == [0, 0.25, 0.75, 1.75, 3.75, 5.75].map { later($0) })
        roster.recordConnection(to: id, via: relay.id, now: Self.start)
        #expect(roster.state(of: id) == .connected(via: relay.id))
    }

    @Test("a relay that appears is used at once, whatever the direct attempts do; by the end with the higher id after 1 s")
    func relayAppears() {
        for (own, other) in [(1, 2), (2, 1)] as [(UInt8, UInt8)] {
            var roster = roster(own, with: other, 3)
            let (lost, id) = (member(other), member(other).id)
            var relay = member(3)
            (relay.revision, relay.neighbours) = (1, [id])
            roster.recordConnection(to: id, via: relay.id, now: Self.start)
            roster.recordDisconnection(of: id, now: later(1))
            // A direct attempt is in progress.
            roster.recordAttempt(to: id)
            roster.recordConnection(to: relay.id, via: nil, now: later(20))
            #expect(roster.dueAttempts(now: later(20)).isEmpty)
            roster.receive([relay], from: relay.id, now: later(20))
            if other < own {
                #expect(roster.dueAttempts(now: later(20)).isEmpty && roster.deadline(after: later(20)) == later(21))
            }
            #expect(roster.dueAttempts(now: later(own < other ? 20 : 21)) == [.relay(lost, through: relay.id)])
        }
    }

    @Test("S3, S4: a member that was linked is kept while another one announces a link to it, up to four times the timeout")
    func announcedAbsence() {
        for isWithdrawn in [true, false] {
            var roster = roster(1, with: 2, 3, 4)
            let (lost, unlinked) = (member(2).id, member(4).id)
            var relay = member(3)
            (relay.revision, relay.neighbours) = (1, [lost, unlinked])
            roster.recordConnection(to: relay.id, via: nil, now: Self.start)
            roster.receive([relay], from: relay.id, now: Self.start)
            roster.recordConnection(to: lost, via: relay.id, now: Self.start)
            roster.recordDisconnection(of: lost, now: Self.start)
            roster.advance(to: later(30))
            #expect(roster.memberIDs == [lost, relay.id])
            if isWithdrawn {
                (relay.revision, relay.neighbours) = (2, [])
                roster.receive([relay], from: relay.id, now: later(40))
                roster.advance(to: later(40))
            } else {
                roster.advance(to: later(119.9))
                #expect(roster.memberIDs == [lost, relay.id])
                roster.advance(to: later(120))
            }
            #expect(roster.memberIDs == [relay.id])
        }
    }

    @Test("a member whose last complete link ends while the other end of a new one has yet to agree is not absent until then")
    func joinsAgain() {
        var roster = roster(1, with: 2)
        let id = member(2).id
        roster.recordConnection(to: id, via: nil, now: Self.start)
        // The member connects again before the loss of the first link is known.
        roster.recordJoining(id, until: later(12))
        roster.recordDisconnection(of: id, joiningUntil: later(12), now: later(1))
        #expect(!roster.state(of: id).isConnected)
        #expect(roster.dueAttempts(now: later(11)).isEmpty)
        #expect(!roster.dueAttempts(now: later(12)).isEmpty)
    }

    @Test("a member about whom a user is being asked is not given up before the question is over") func asked() {
        var roster = roster(1, with: 2)
        let id = member(2).id
        roster.recordConnection(to: id, via: nil, now: Self.start)
        roster.recordQuestion(about: id, until: later(600))
        roster.recordDisconnection(of: id, now: later(1))
        roster.advance(to: later(599))
        #expect(roster.member(id) != nil)
        roster.recordQuestion(about: id, until: nil)
        roster.advance(to: later(599))
        #expect(roster.member(id) == nil)
    }

    @Test func `a member whose link is lost is routed through another one at once, and connected to meanwhile`() {
        var roster = roster(1, with: 2, 3)
        let (lost, id) = (member(2), member(2).id)
        var relay = member(3)
        (relay.revision, relay.neighbours) = (1, [id])
        roster.receive([relay], from: id, now: Self.start)
        for other in [id, relay.id] { roster.recordConnection(to: other, via: nil, now: Self.start) }
        let throughRelay = SessionRoster.ConnectionAttempt.relay(lost, through: relay.id)
        roster.recordDisconnection(of: id, now: later(1))
        #expect(roster.dueAttempts(now: later(1)) == [throughRelay, .connect(lost)])
        roster.recordAttempt(to: id, through: relay.id)
        roster.recordConnection(to: id, via: relay.id, now: later(1))
        #expect(roster.dueAttempts(now: later(1)) == [.connect(lost)])
        roster.recordAttempt(to: id)
        // The relay has lost the member as well.
        roster.recordDisconnection(of: id, now: later(2))
        #expect(roster.dueAttempts(now: later(2)) == [throughRelay])
        roster.recordAttempt(to: id, through: relay.id)
        roster.recordFailure(of: id, through: relay.id, now: later(2))
        #expect(roster.dueAttempts(now: later(2)).isEmpty)
        #expect(roster.dueAttempts(now: later(2.25)) == [throughRelay])
        roster.recordFailure(of: id, now: later(2.1))
        #expect(roster.dueAttempts(now: later(2.2)).isEmpty)
        // News of the network ends both delays.
        roster.recordNetworkChange(now: later(2.2))
        #expect(roster.dueAttempts(now: later(2.2)) == [throughRelay, .connect(lost)])
    }

    @Test("S5: a member that claims a link and relays nothing gets one turn of each round") func relaysTakeTurns() {
        var roster = roster(1, with: 2, 3, 4)
        var now = Self.start
        for number in [3, 4] as [UInt8] {
            var relay = member(number)
            (relay.revision, relay.neighbours) = (1, [member(2).id])
            roster.receive([relay], from: member(2).id, now: now)
            roster.recordConnection(to: relay.id, via: nil, now: Self.start)
        }
        var relays: [PeerID] = []
        for _ in 0..<8 {
            for attempt in roster.dueAttempts(now: now) {
                if let relay = attempt.relay { relays.append(relay) }
                roster.recordAttempt(to: member(2).id, through: attempt.relay)
                roster.recordFailure(of: member(2).id, through: attempt.relay, now: now)
            }
            // Other deadlines may be earlier.
            while roster.dueAttempts(now: now).isEmpty { now = roster.deadline(after: now)! }
        }
        #expect(relays == [3, 4, 3, 4, 3, 4].map { member($0).id })
    }

    @Test("behind a relay both members try a direct link: only the one with the higher id may be able to connect")
    func bothTryBehindARelay() {
        var roster = roster(2, with: 1)
        roster.recordFailure(of: member(1).id, now: Self.start)
        roster.recordConnection(to: member(1).id, via: member(3).id, now: Self.start)
        #expect(roster.dueAttempts(now: later(1)).isEmpty && roster.deadline(after: later(1)) == later(3))
        #expect(roster.dueAttempts(now: later(3)) == [.connect(member(1))])
        roster.recordAttempt(to: member(1).id)
        #expect(roster.dueAttempts(now: later(4)).isEmpty && roster.deadline(after: later(4)) == nil)
        roster.recordFailure(of: member(1).id, now: later(5))
        #expect(roster.deadline(after: later(5)) == later(6))
        roster.recordConnection(to: member(1).id, via: nil, now: later(6))
        #expect(roster.dueAttempts(now: later(9)).isEmpty && roster.deadline(after: later(9)) == nil)
    }

    @Test func `a due attempt that is not possible is not repeated at once`() {
        // The other member has no address; repeating at once would change nothing.
        var silent = SessionRoster(id: Self.id, own: member(2))
        var other = member(1)
        other.addresses = []
        silent.admit(other, now: Self.start)
        #expect(silent.dueAttempts(now: later(3)).isEmpty && silent.deadline(after: later(3)) == later(30))
    }

    @Test("a member that has announced no address is connected to where it was found") func foundAddresses() {
        var roster = SessionRoster(id: Self.id, own: member(1))
        var other = member(2)
        other.addresses = []
        roster.admit(other, now: Self.start)
        #expect(roster.dueAttempts(now: Self.start).isEmpty)
        let found = SessionMember.Address(host: "10.0.0.2", port: 7)
        roster.setDiscoveredAddresses([found], of: other.id, now: Self.start)
        other.addresses = [found]
        #expect(roster.dueAttempts(now: Self.start) == [.connect(other)])
    }

    @Test("R1: the addresses of a member that has left are not kept beyond the limit") func addressesOfFormerMembers() {
        var roster = roster(1, with: 2)
        let found = SessionMember.Address(host: "10.0.0.3", port: 7)
        for number in 1_000..<1_256 as Range<UInt64> {
            roster.setDiscoveredAddresses([found], of: PeerID(bytes: number.bigEndianBytes)!, now: Self.start)
        }
        var silent = member(2)
        silent.addresses = []
        roster.setDiscoveredAddresses([found], of: silent.id, now: Self.start)
        roster.recordDeparture(of: silent.id, now: Self.start)
        roster.admit(silent, now: later(1))
        #expect(roster.dueAttempts(now: later(1)).isEmpty)
    }

    @Test func `a member that is unreachable for too long is removed`() {
        var roster = roster(1, with: 2)
        roster.recordConnection(to: member(2).id, via: nil, now: Self.start)
        #expect(roster.deadline(after: Self.start) == nil)
        roster.recordDisconnection(of: member(2).id, now: later(5))
        roster.advance(to: later(34.9))
        #expect(roster.others.count == 1)
        roster.advance(to: later(35))
        #expect(roster.others.isEmpty && roster.deadline(after: later(35)) == nil)
    }

    @Test func `a member refutes the claim that it is gone`() {
        var roster = roster(1, with: 2)
        var claim = member(1)
        claim.presence = .gone
        roster.receive([claim], from: member(2).id, now: Self.start)
        #expect(news(&roster)?.first { $0.id == member(1).id }?.incarnation == 1)
        claim.incarnation = 5
        roster.receive([claim], from: member(2).id, now: Self.start)
        #expect(news(&roster)?.first { $0.id == member(1).id }?.incarnation == 6)
    }

    @Test("S4: claims of others do not remove a member with a local link") func falseClaims() {
        var roster = roster(1, with: 2, 3)
        roster.recordConnection(to: member(2).id, via: nil, now: Self.start)
        roster.recordConnection(to: member(3).id, via: nil, now: Self.start)
        _ = (roster.drainChanges(), news(&roster))
        var claim = member(2)
        claim.presence = .gone
        roster.receive([claim], from: member(2).id, now: Self.start)
        #expect(roster.deadline(after: Self.start) == later(2))
        roster.advance(to: later(2))
        #expect(roster.drainChanges().isEmpty)
        // Sent to all, including the claiming member and the one concerned.
        #expect(news(&roster)?.first { $0.id == member(2).id }?.incarnation == 1)
        // Valid reasons are: the link ends, or the member itself says so.
        claim.incarnation = 1
        roster.receive([claim], from: member(2).id, now: later(3))
        roster.recordDisconnection(of: member(2).id, now: later(3))
        #expect(roster.drainChanges() == [.state(member(2).id, .connecting), .left(member(2).id)])
        claim = member(3)
        claim.presence = .gone
        roster.receive([claim], from: member(2).id, now: later(3))
        roster.recordDeparture(of: member(3).id, now: later(3))
        #expect(roster.drainChanges() == [.left(member(3).id)] && roster.deadline(after: later(3)) == nil)
    }

    /// The members that a roster reports to others.
    private func members(_ roster: SessionRoster) throws -> [SessionMember] {
        guard case .roster(_, let members) = roster.rosterFrame else { throw NoRoster() }
        return members
    }

    private struct NoRoster: Error {}

    @Test("R6, R7: rosters full of unknown members are bounded, and evict no member") func floods() throws {
        var random = SeededRandom(seed: 5)
        var roster = roster(200, with: 201)
        for _ in 0..<50 {
            let strangers = (0..<64).map { _ in
                SessionMember(
                    fingerprint: Fingerprint(bytes: random.bytes(32))!, name: DisplayName(truncating: "x")!,
                    incarnation: [0, 1, .max].randomElement(using: &random)!, presence: random.once(in: 2) ? .gone : .present)
            }
            roster.receive(strangers, from: member(2).id, now: Self.start)
        }
        #expect(roster.isFull && roster.others.count == 7)
        let told = try members(roster)
        #expect(told.count <= 64)
        #expect(told.contains { $0.id == member(200).id } && told.contains { $0.id == member(201).id })
        let early = try #require(roster.others.first { $0.id != member(201).id })
        // All members leave and others join, repeatedly.
        for _ in 0..<50 {
            for other in roster.others { roster.recordDeparture(of: other.id, now: Self.start) }
            roster.receive(
                (0..<7).map { _ in
                    SessionMember(fingerprint: Fingerprint(bytes: random.bytes(32))!, name: DisplayName(truncating: "x")!)
                }, from: member(2).id, now: Self.start)
        }
        let later = try members(roster)
        #expect(later.count == 64 && later.prefix(8).allSatisfy { $0.presence == .present })
        // A member that left long ago is forgotten, so old information about it counts as new.
        while roster.isFull { roster.recordDeparture(of: roster.others[0].id, now: Self.start) }
        roster.receive([early], from: member(2).id, now: Self.start)
        #expect(roster.member(early.id) == early)
    }

    @Test("R7: an incarnation too far above the known one is rejected, so that a restart can always exceed it")
    func incarnations() {
        var roster = roster(1, with: 2)
        for incarnation in [1025, 1 << 31, .max] as [UInt32] {
            for number in [1, 2] as [UInt8] {
                var claim = member(number)
                claim.presence = .gone
                claim.incarnation = incarnation
                roster.receive([claim], from: member(2).id, now: Self.start)
            }
        }
        #expect(news(&roster) == nil && roster.others.count == 1)
    }

    @Test("K4: an entry with another key for a known id does not count") func otherFingerprint() {
        var roster = roster(1, with: 2)
        var claim = member(2)
        claim.fingerprint = Fingerprint(bytes: Array(claim.fingerprint.bytes.dropLast()) + [99])!
        claim.incarnation = 1
        #expect(claim.id == member(2).id)
        roster.receive([claim], from: member(2).id, now: Self.start)
        #expect(roster.member(member(2).id) == member(2))
    }

    @Test("members end with the same roster for any order of changes", arguments: seeds(0..<100))
    func converges(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var rosters = (1...5).map { SessionRoster(id: Self.id, own: member(UInt8($0))) }
        for index in 1..<5 {
            rosters[0].admit(member(UInt8(index + 1)), now: Self.start)
            rosters[index].admit(member(1), now: Self.start)
        }
        var onTheirWay: [(to: Int, [SessionMember])] = []
        var heardCount = 0
        func tell(_ index: Int) {
            let others = rosters.indices.filter { $0 != index }
            let updates = rosters[index].drainUpdates(
                for: others.map { member(UInt8($0 + 1)).id }, now: ticks.next())
            for case (let id, .roster(_, let told)) in updates {
                for other in others where member(UInt8(other + 1)).id == id { onTheirWay.append((other, told)) }
            }
        }
        for step in 0..<60 {
            let index = Int.random(in: 0..<5, using: &random)
            if step < 30 {
                let other = member(UInt8(Int.random(in: 1...5, using: &random))).id
                switch Int.random(in: 0..<4, using: &random) {
                case 0: rosters[index].recordDeparture(of: other, now: Self.start)
                case 1: rosters[index].recordConnection(to: other, via: nil, now: Self.start)
                case 2: rosters[index].recordDisconnection(of: other, now: Self.start)
                default: rosters[index].setAddresses([SessionMember.Address(host: "10.0.0.1", port: UInt16(step))])
                }
            }
            for index in rosters.indices { tell(index) }
            // In any order.
            while step >= 30 || random.once(in: 2), !onTheirWay.isEmpty {
                let (to, members) = onTheirWay.remove(at: Int.random(in: 0..<onTheirWay.count, using: &random))
                heardCount += 1
                rosters[to].receive(members, from: member(250).id, now: Self.start)
                rosters[to].advance(to: Self.start + .seconds(10))
                tell(to)
            }
        }
        #expect(heardCount >= 20, "seed \(seed)")
        for roster in rosters { #expect(roster.rosterFrame == rosters[0].rosterFrame, "seed \(seed)") }
    }
}
