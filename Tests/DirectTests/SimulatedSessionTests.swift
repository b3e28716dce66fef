import NearshareBase
import NearshareDirect
import NearshareTesting
import Testing

/// Eight members in virtual time, each scenario with many seeds.
@Suite struct SimulatedSessionTests {
    /// All are members and connected.
    private func gathered(_ seed: UInt64, count: Int = 8) -> SimulatedSession {
        var session = SimulatedSession(seed: seed, count: count)
        session.begin(0)
        for guest in 1..<count {
            session.invite(guest, by: Int.random(in: 0..<guest, using: &session.random))
            session.run(for: .milliseconds(300))
        }
        session.run(for: .seconds(10))
        return session
    }

    @Test("nodes that join a room at about the same time are in one session", arguments: [2, 3, 8], seeds(0..<40))
    func rooms(count: Int, seed: UInt64) {
        var session = SimulatedSession(seed: seed, count: count)
        for member in (0..<count).shuffled(using: &session.random) {
            session.join(member)
            session.run(for: .milliseconds(Int.random(in: 0...400, using: &session.random)))
        }
        session.run(for: .seconds(20))
        expectConverged(session, seed, staying: count)
    }

    @Test(
        "of more nodes than the limit that join a room at once, as many are in it as can be",
        arguments: [(9, 8), (10, 8), (16, 8), (5, 3), (4, 2)], seeds(0..<10))
    func surplus(_ size: (count: Int, limit: Int), seed: UInt64) {
        let (count, limit) = size
        var settings = SessionRoster.Settings()
        settings.maximumMemberCount = limit
        var session = SimulatedSession(seed: seed, count: count, settings: settings)
        for member in (0..<count).shuffled(using: &session.random) {
            session.join(member)
            session.run(for: .milliseconds(Int.random(in: 0...100, using: &session.random)))
        }
        session.run(for: .seconds(60))
        expectFullRoom(session, of: limit, seed)
        let leaving = session.inside.first { session.roster($0)?.isFull == true }
        session.leave(leaving ?? 0)
        session.run(for: .seconds(150))
        expectFullRoom(session, of: limit, seed)
    }

    /// Checks that as many nodes as the limit are in one session, the others outside, and that all members of each group agree.
    private func expectFullRoom(_ session: SimulatedSession, of limit: Int, _ seed: UInt64) {
        var groups: [Set<PeerID>: Int] = [:]
        for member in session.inside {
            guard let roster = session.roster(member) else { continue }
            groups[Set(roster.memberIDs).union([session.identifier(member)]), default: 0] += 1
            #expect(roster.others.allSatisfy { roster.state(of: $0.id).isConnected }, "seed \(seed), member \(member)")
        }
        let sizes = groups.map { "\($0.value) members know \($0.key.count)" }
        #expect(groups.allSatisfy { $0.key.count == $0.value }, "seed \(seed): \(sizes)")
        #expect(groups.keys.map(\.count).max() == limit, "seed \(seed): \(sizes)")
        #expect(session.violations == [], "seed \(seed)")
    }

    @Test("two groups of a room merge when they can reach each other", arguments: seeds(0..<10))
    func groupsMerge(seed: UInt64) {
        var session = SimulatedSession(seed: seed, count: 8)
        for one in 0..<4 { for other in 4..<8 { session.partition(one, other) } }
        for member in 0..<8 { session.join(member) }
        session.run(for: .seconds(20))
        #expect(session.inside.allSatisfy { session.roster($0)?.others.count == 3 }, "seed \(seed)")
        session.letAllMeet()
        session.run(for: .seconds(90))
        expectConverged(session, seed)
    }

    private func chat(_ session: inout SimulatedSession, for seconds: Int) {
        for _ in 0..<seconds * 10 {
            let from = Int.random(in: 0..<8, using: &session.random)
            let to = Int.random(in: 0..<8, using: &session.random)
            if from != to { session.say(from: from, to: to) }
            session.run(for: .milliseconds(100))
        }
    }

    /// Checks that each member knows and reaches each other member, and that all rosters agree.
    private func expectConverged(_ session: SimulatedSession, _ seed: UInt64, staying: Int = 8) {
        let inside = session.inside
        #expect(inside.count >= staying, "seed \(seed)")
        let rosters = inside.compactMap { session.roster($0) }
        for roster in rosters {
            #expect(roster.others.count == inside.count - 1, "seed \(seed)")
            #expect(roster.others.allSatisfy { roster.state(of: $0.id).isConnected }, "seed \(seed)")
            #expect(roster.rosterFrame.encoded == rosters[0].rosterFrame.encoded, "seed \(seed)")
        }
        #expect(session.violations == [], "seed \(seed)")
    }

    /// No message arrives twice, out of order or without having been sent; between members that stayed, all arrive.
    private func expectMessages(_ session: SimulatedSession, staying: [Int], _ seed: UInt64) {
        for (receiver, senders) in session.received {
            for (sender, numbers) in senders {
                let sent = session.sent[sender]?[receiver] ?? []
                #expect(zip(numbers, numbers.dropFirst()).allSatisfy { $0 < $1 }, "seed \(seed)")
                #expect(Set(numbers).isSubset(of: sent), "seed \(seed)")
            }
        }
        var sentCount = 0
        for sender in staying.map(session.instance) {
            for receiver in staying.map(session.instance) {
                sentCount += session.sent[sender]?[receiver]?.count ?? 0
                #expect(
                    session.received[receiver]?[sender] ?? [] == session.sent[sender]?[receiver] ?? [],
                    "seed \(seed): \(sender) to \(receiver)")
            }
        }
        #expect(sentCount > 20, "seed \(seed)")
    }

    @Test("all meet, regardless of which member invited them", arguments: seeds(0..<8)) func gathers(seed: UInt64) {
        expectConverged(gathered(seed), seed)
    }

    @Test("repeatedly breaking links lose and duplicate no message", arguments: seeds(0..<8)) func breaks(seed: UInt64) {
        var session = gathered(seed)
        for _ in 0..<40 {
            session.after(.milliseconds(Int.random(in: 0...20_000, using: &session.random))) { $0.breakSomeLink() }
        }
        chat(&session, for: 20)
        session.run(for: .seconds(60))
        expectConverged(session, seed)
        expectMessages(session, staying: Array(0..<8), seed)
    }

    @Test("separated members communicate through others, and directly afterwards", arguments: seeds(0..<8)) func partitions(
        seed: UInt64
    ) {
        var session = gathered(seed)
        for _ in 0..<12 {
            let pair = Array(0..<8).shuffled(using: &session.random).prefix(2)
            session.after(.milliseconds(Int.random(in: 0...5000, using: &session.random))) {
                $0.partition(pair.first!, pair.last!)
            }
        }
        chat(&session, for: 40)
        expectConverged(session, seed)
        #expect(session.relayedCount > 0, "seed \(seed)")
        session.letAllMeet()
        session.run(for: .seconds(90))
        expectConverged(session, seed)
        expectMessages(session, staying: Array(0..<8), seed)
        for member in 0..<8 {
            let roster = session.roster(member)!
            #expect(roster.others.allSatisfy { roster.state(of: $0.id) == .connected(via: nil) }, "seed \(seed)")
        }
    }

    @Test("A8: members leave, crash and return in every state, and the others agree", arguments: seeds(0..<8))
    func comesAndGoes(seed: UInt64) {
        var session = gathered(seed)
        for _ in 0..<12 {
            let member = Int.random(in: 3..<8, using: &session.random)
            let time = Int.random(in: 0...40_000, using: &session.random)
            let leaves = session.random.once(in: 2)
            session.after(.milliseconds(time)) { session in
                guard session.inside.contains(member) else { return }
                leaves ? session.leave(member) : session.crash(member)
            }
            // Sometimes before the others have noticed.
            session.after(.milliseconds(time + Int.random(in: 500...15_000, using: &session.random))) {
                $0.invite(member, by: member % 3)
            }
            if session.random.once(in: 2) {
                let other = Int.random(in: 0..<3, using: &session.random)
                session.after(.milliseconds(time)) { $0.partition(member, other) }
                session.after(.milliseconds(time + 8000)) { $0.heal(member, other) }
            }
        }
        chat(&session, for: 60)
        session.letAllMeet()
        session.run(for: .seconds(120))
        expectConverged(session, seed, staying: 3)
        expectMessages(session, staying: [0, 1, 2], seed)
    }

    /// One member invites all others, as a room full of people would join.
    private func invited(_ seed: UInt64, count: Int, topology: SessionTopology = .automatic) -> SimulatedSession {
        var settings = SessionRoster.Settings()
        settings.maximumMemberCount = 64
        settings.topology = topology
        var session = SimulatedSession(seed: seed, count: count, settings: settings)
        session.begin(0)
        for guest in 1..<count {
            session.after(.milliseconds(2000 * guest / count)) { $0.invite(guest, by: 0) }
        }
        return session
    }

    private func isFormed(_ session: SimulatedSession, count: Int) -> Bool {
        session.inside.allSatisfy { member in
            let roster = session.roster(member)
            return roster?.others.count == count - 1
                && roster?.memberIDs.allSatisfy { roster?.state(of: $0).isConnected == true } == true
        }
    }

    @Test(
        "sessions of any size form soon, with few bytes and links",
        arguments: [(4, 10_000, 6), (8, 110_000, 28), (16, 400_000, 45), (32, 1_200_000, 93), (64, 4_200_000, 189)])
    func forms(count: Int, byteCount: Int, linkCount: Int) {
        for seed in seeds(0..<(count > 16 ? 1 : 2)) {
            var session = invited(seed, count: count)
            let hasFormed = session.run(for: .seconds(5)) { isFormed($0, count: count) && $0.inside.count == count }
            #expect(hasFormed, "seed \(seed)")
            session.run(for: .seconds(10))
            #expect(isFormed(session, count: count), "seed \(seed)")
            #expect(session.sessionByteCount < byteCount, "seed \(seed)")
            // Two members may connect to each other at the same time.
            #expect(session.linkCount <= linkCount * 5 / 4, "seed \(seed)")
            #expect(session.violations == [], "seed \(seed)")
            let quiet = session.sessionByteCount
            session.run(for: .seconds(60))
            #expect(session.sessionByteCount == quiet, "seed \(seed): gossip goes on without changes")
        }
    }

    @Test("a direct network that appears is used at once, whatever the back-off behind the relay", arguments: seeds(0..<8))
    func networkAppears(seed: UInt64) {
        var session = gathered(seed, count: 3)
        session.partition(1, 2)
        session.run(for: .seconds(70))
        let (one, two) = (session.identifier(1), session.identifier(2))
        #expect(session.roster(1)?.state(of: two) == .connected(via: session.identifier(0)), "seed \(seed)")
        session.heal(1, 2)
        for member in [1, 2] { session.changeNetwork(of: member) }
        session.run(for: .seconds(1))
        #expect(session.roster(1)?.state(of: two) == .connected(via: nil), "seed \(seed)")
        #expect(session.roster(2)?.state(of: one) == .connected(via: nil), "seed \(seed)")
    }

    @Test(
        "two members that only a third one connects are connected again soon after it is back, and lose no message",
        arguments: [2, 10, 28], seeds(0..<8))
    func relayReturns(absence: Int, seed: UInt64) {
        var session = gathered(seed, count: 3)
        session.partition(1, 2)
        session.run(for: .seconds(10))
        let (one, two) = (session.identifier(1), session.identifier(2))
        for _ in 0..<4 {
            session.leave(0)
            for _ in 0..<absence * 2 {
                session.say(from: 1, to: 2)
                session.say(from: 2, to: 1)
                session.run(for: .milliseconds(500))
            }
            session.invite(0, by: 1)
            session.meet(2, 0)
            let areConnected = session.run(for: .seconds(4)) { session in
                session.roster(1)?.state(of: two).isConnected == true && session.roster(2)?.state(of: one).isConnected == true
            }
            #expect(areConnected, "seed \(seed)")
            session.run(for: .seconds(Int.random(in: 5...25, using: &session.random)))
        }
        expectConverged(session, seed, staying: 3)
        expectMessages(session, staying: [1, 2], seed)
    }

    @Test("after a long cut, news of the network leads to an attempt before a member is given up", arguments: seeds(0..<8))
    func networkReturns(seed: UInt64) {
        var session = gathered(seed, count: 2)
        session.partition(0, 1)
        session.say(from: 0, to: 1)
        // Within the pause between two attempts, and just before the timeout.
        session.run(for: .milliseconds(29_800))
        session.heal(0, 1)
        for member in [0, 1] { session.changeNetwork(of: member) }
        session.run(for: .seconds(2))
        expectConverged(session, seed, staying: 2)
        let (sender, receiver) = (session.instance(0), session.instance(1))
        #expect(session.received[receiver]?[sender] == session.sent[sender]?[receiver], "seed \(seed)")
        #expect(session.departureCount == 0, "seed \(seed)")
    }

    @Test("in a large session any two members exchange messages, also after those with the most links have gone")
    func largeSession() {
        var session = invited(1, count: 20)
        session.run(for: .seconds(10))
        for gone in [0, 1] {
            for _ in 0..<40 {
                let pair = session.inside.shuffled(using: &session.random).prefix(2)
                session.say(from: pair.first!, to: pair.last!)
                session.run(for: .milliseconds(100))
            }
            session.run(for: .seconds(5))
            expectMessages(session, staying: session.inside, 1)
            session.crash(gone)
            session.run(for: .seconds(60))
            #expect(isFormed(session, count: 19 - gone))
        }
        #expect(session.violations == [])
    }

    @Test("the same seed gives the same run") func replay() {
        func story() -> [Int] {
            var session = gathered(7)
            chat(&session, for: 5)
            return session.received.values.flatMap { $0.values.joined() }.sorted()
                + [session.random.next()].map { Int(truncatingIfNeeded: $0) }
        }
        #expect(story() == story())
    }
}
