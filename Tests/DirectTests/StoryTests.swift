import NearshareBase
import NearshareDirect
import NearshareTesting
import Testing

/// Complete exchanges between two peers over a simulated link, each with hundreds of seeds.
@Suite struct StoryTests {
    private let id = TransferID(rawValue: 1)
    private let back = TransferID(rawValue: 2)

    private func conditions(_ seed: UInt64) -> SimulatedNetwork.Conditions {
        var conditions = SimulatedNetwork.Conditions()
        conditions.lossOneIn = seed.isMultiple(of: 2) ? 8 : 0
        return conditions
    }

    private func content(_ seed: UInt64, largest: Int = 30_000) -> MemoryContent {
        var random = SeededRandom(seed: seed &+ 1_000_000)
        return .random(using: &random, largest: largest, allowsUnknown: true)
    }

    /// Large enough for the transfer to take time.
    private func longContent(_ seed: UInt64) -> MemoryContent {
        (0...).lazy.map { content(seed &+ 1_000 &* $0) }.first { $0.entries.reduce(0) { $0 + $1.bytes.count } > 20_000 }!
    }

    /// A small window, so that transfers need credit many times.
    private func network(_ seed: UInt64) -> SimulatedNetwork {
        var limits = DirectLimits()
        limits.window = 16_384
        return SimulatedNetwork(seed: seed, conditions: conditions(seed), limits: limits)
    }

    /// Peer 0 offers as soon as it can; peer 1 answers with `answer`.
    private func offering(
        _ content: MemoryContent, timeout: Duration = .seconds(60), seed: UInt64,
        answer: @escaping (inout SimulatedPeer, MonotonicInstant) -> Void
    ) -> SimulatedNetwork {
        let id = self.id
        var network = network(seed)
        network.when({ $0.peers[0].isEstablished }, { $0.peer(0) { $0.offer(id, content, timeout: timeout, now: $1) } })
        network.when({ $0.peers[1].invitations[id] != nil }, { $0.peer(1, answer) })
        return network
    }

    private func accept(_ peer: inout SimulatedPeer, _ now: MonotonicInstant) { peer.accept(id, now: now) }

    private func expect(_ network: SimulatedNetwork, _ here: TransferOutcome, _ there: TransferOutcome, _ seed: UInt64) {
        #expect(network.peers[0].outcomes[id] == here, "seed \(seed)")
        #expect(network.peers[1].outcomes[id] == there, "seed \(seed)")
        #expect(network.peers.allSatisfy { $0.closure == nil }, "seed \(seed): \(network.log.suffix(4))")
        #expect(network.peers.allSatisfy { $0.connection?.isIdle == true }, "seed \(seed)")
    }

    @Test("a tree arrives unchanged", arguments: seeds(0..<100)) func sends(seed: UInt64) {
        let content = content(seed)
        var network = offering(content, seed: seed, answer: accept)
        network.run(for: .seconds(60))
        expect(network, .completed, .completed, seed)
        #expect(network.peers[1].received[id]?.entries == content.entries, "seed \(seed)")
    }

    @Test("the same seed gives the same run", arguments: [3, 4, 5] as [UInt64]) func replay(seed: UInt64) {
        let logs = (0..<2).map { _ in
            var network = offering(content(seed), seed: seed, answer: accept)
            network.run(for: .seconds(60))
            return network.log
        }
        #expect(logs[0] == logs[1])
        #expect(logs[0].count > 5)
    }

    @Test("a decline is reported with its reason", arguments: seeds(0..<100)) func declines(seed: UInt64) {
        let id = self.id
        var network = offering(content(seed), seed: seed) { $0.decline(id, .noSpace, now: $1) }
        network.run(for: .seconds(10))
        expect(network, .declined(.noSpace), .declined(.noSpace), seed)
    }

    @Test("A9: without an answer the invitation expires on both sides", arguments: seeds(0..<100)) func expires(seed: UInt64) {
        var network = offering(content(seed), timeout: .seconds(20), seed: seed) { _, _ in }
        network.run(for: .seconds(40))
        expect(network, .expired, .expired, seed)
    }

    /// The duration of a transfer, which determines the times of events during it.
    private func undisturbedDuration(of content: MemoryContent, _ seed: UInt64) throws -> Duration {
        var network = offering(content, seed: seed, answer: accept)
        network.run(for: .seconds(60))
        let ended = try #require(network.log.last { $0.contains("ended") })
        // On a clock that begins at one second.
        return .nanoseconds(try #require(Int64(ended.prefix { $0 != " " })) - 1_000_000_000)
    }

    @Test("A8: a cancel by either side at any time gives the same outcome on both", arguments: seeds(0..<100)) func cancels(
        seed: UInt64
    )
        throws
    {
        let id = self.id
        let content = longContent(seed)
        let duration = try undisturbedDuration(of: content, seed)
        for side in 0..<2 {
            var cancelledCount = 0
            for part in 0..<12 as Range<Int64> {
                var network = offering(content, seed: seed, answer: accept)
                network.run(for: duration * Double(part) / 11)
                network.peer(side) { $0.cancel(id, now: $1) }
                network.run(for: .seconds(5))
                let outcomes = network.peers.map { $0.outcomes[id] }
                let views = outcomes.map { $0 == .completed }
                #expect(
                    network.peers.allSatisfy { $0.closure == nil }, "seed \(seed), side \(side), part \(part): \(network.log)")
                // A cancel before the offer has nothing to cancel; the transfer then continues.
                #expect(views[0] == views[1], "seed \(seed), side \(side), part \(part): \(network.log)")
                guard outcomes[side] == .cancelled(by: .local) else { continue }
                cancelledCount += 1
                #expect(
                    outcomes[1 - side] == .cancelled(by: .remote) || outcomes[1 - side] == nil, "seed \(seed): \(network.log)")
            }
            #expect(cancelledCount > 0, "seed \(seed), side \(side): none came in time")
        }
    }

    @Test("A8: both cancel at the same moment", arguments: seeds(0..<100)) func bothCancel(seed: UInt64) throws {
        let id = self.id
        let content = longContent(seed)
        let duration = try undisturbedDuration(of: content, seed)
        var cancelledCount = 0
        for part in 1..<16 {
            var network = offering(content, seed: seed, answer: accept)
            network.run(for: duration * part / 16)
            for side in 0..<2 { network.peer(side) { $0.cancel(id, now: $1) } }
            network.run(for: .seconds(5))
            let outcomes = network.peers.map { $0.outcomes[id] }
            // One side may not have received the offer yet; if both have, their outcomes correspond.
            if let sender = outcomes[0], let receiver = outcomes[1] {
                #expect(sender.fromTheOtherSide == receiver, "seed \(seed): \(network.log)")
            }
            cancelledCount += outcomes.contains { if case .cancelled? = $0 { true } else { false } } ? 1 : 0
            #expect(network.peers.allSatisfy { $0.closure == nil }, "seed \(seed): \(network.log)")
        }
        #expect(cancelledCount > 0, "seed \(seed): none came in time")
    }

    @Test("N2: a break is detected, and the next attempt resumes with identical bytes", arguments: seeds(0..<100))
    func breaksAndResumes(seed: UInt64) {
        let id = self.id
        var random = SeededRandom(seed: seed)
        let content = MemoryContent(file: "large", random.bytes(200_000))
        let limit = Int.random(in: 1...190_000, using: &random)
        var network = offering(content, seed: seed, answer: accept)
        network.when({ ($0.peers[1].received[id]?.entries.first?.bytes.count ?? 0) >= limit }, { $0.partition() })
        network.run(for: .seconds(60))
        #expect(network.peers.allSatisfy { $0.closure == .lost && $0.outcomes[id] == .interrupted }, "seed \(seed)")
        guard let kept = network.peers[1].received[id] else {
            Issue.record("nothing was kept, seed \(seed)")
            return
        }
        #expect(kept.resumePoint.partialSize >= UInt64(limit))
        var again = offering(content, seed: seed &+ 1) { $0.accept(id, kept: kept, now: $1) }
        again.run(for: .seconds(60))
        expect(again, .completed, .completed, seed)
        #expect(again.peers[1].received[id]?.entries == content.entries, "seed \(seed)")
        #expect(again.log.contains { $0.contains("from 0, \(kept.resumePoint.partialSize)") }, "seed \(seed): it went on")
    }

    @Test("the end of one side interrupts the transfer on both", arguments: seeds(0..<100)) func goesAway(seed: UInt64) {
        let id = self.id
        let side = seed.isMultiple(of: 3) ? 0 : 1
        var random = SeededRandom(seed: seed)
        var network = offering(MemoryContent(file: "large", random.bytes(100_000)), seed: seed, answer: accept)
        network.when(
            { ($0.peers[1].received[id]?.entries.first?.bytes.count ?? 0) > 0 },
            { $0.peer(side) { $0.close(.goingAway, now: $1) } })
        network.run(for: .seconds(30))
        #expect(network.peers.allSatisfy { $0.outcomes[id] == .interrupted }, "seed \(seed)")
        #expect(network.peers[1 - side].closure == .closed(by: .remote, .goingAway), "seed \(seed)")
    }

    @Test("both send to each other at once", arguments: seeds(0..<100)) func bothSend(seed: UInt64) {
        let (offered, back) = (content(seed), self.back)
        let returned = content(seed &+ 500)
        var network = offering(offered, seed: seed, answer: accept)
        network.when({ $0.peers[1].isEstablished }, { $0.peer(1) { $0.offer(back, returned, now: $1) } })
        network.when({ $0.peers[0].invitations[back] != nil }, { $0.peer(0) { $0.accept(back, now: $1) } })
        network.run(for: .seconds(120))
        expect(network, .completed, .completed, seed)
        #expect(network.peers.allSatisfy { $0.outcomes[back] == .completed }, "seed \(seed)")
        #expect(network.peers[1].received[id]?.entries == offered.entries, "seed \(seed)")
        #expect(network.peers[0].received[back]?.entries == returned.entries, "seed \(seed)")
    }

    @Test("an idle link stays alive", arguments: seeds(0..<10)) func idle(seed: UInt64) {
        var network = network(seed)
        network.run(for: .seconds(300))
        #expect(network.peers.allSatisfy { $0.closure == nil && $0.isEstablished }, "seed \(seed)")
    }
}

extension TransferOutcome {
    /// The same outcome from the other side's view.
    fileprivate var fromTheOtherSide: TransferOutcome {
        switch self {
        case .cancelled(by: let side): .cancelled(by: side == .local ? .remote : .local)
        case .failed(let reason, at: let side): .failed(reason, at: side == .local ? .remote : .local)
        case .completed, .declined, .expired, .interrupted: self
        }
    }
}
