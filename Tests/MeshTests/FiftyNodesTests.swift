import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareMesh

/// Fifty nodes in virtual time: the links between them are random and change, and frames get lost.
@Suite struct FiftyNodesTests {
    private struct Crowd {
        static let size = 50
        var mesh: SimulatedMesh
        /// The links of each node, with their numbers.
        var edges: [(a: Int, b: Int, number: Int)] = []
        var random: SeededRandom

        init(seed: UInt64) {
            mesh = SimulatedMesh(seed: seed)
            random = SeededRandom(seed: seed ^ 0x50)
            for number in 0..<Self.size { mesh.addNode("node \(number)") }
            // Each node is linked to an earlier one, so that all are connected; some have more links.
            for number in 1..<Self.size { connect(number, Int.random(in: max(0, number - 12)..<number, using: &random)) }
            for _ in 0..<Self.size / 2 { connectAnybody() }
        }

        private func isLinked(_ a: Int, _ b: Int) -> Bool {
            edges.contains { ($0.a, $0.b) == (a, b) || ($0.a, $0.b) == (b, a) }
        }

        private mutating func connect(_ a: Int, _ b: Int) {
            edges.append((a, b, mesh.connect(a, b, .radio)))
        }

        private mutating func connectAnybody() {
            while true {
                let a = Int.random(in: 0..<Self.size, using: &random)
                let b = Int.random(in: 0..<Self.size, using: &random)
                guard a != b, !isLinked(a, b) else { continue }
                return connect(a, b)
            }
        }

        /// The distance of each node from one node; nil for an unreachable one.
        func distances(from start: Int) -> [Int?] {
            var distances = [Int?](repeating: nil, count: Self.size)
            distances[start] = 0
            var queue = [start]
            while let node = queue.first {
                queue.removeFirst()
                for edge in edges where edge.a == node || edge.b == node {
                    let other = edge.a == node ? edge.b : edge.a
                    guard distances[other] == nil else { continue }
                    distances[other] = distances[node]! + 1
                    queue.append(other)
                }
            }
            return distances
        }

        /// Removes one link and adds another; no node is disconnected permanently.
        mutating func churn() {
            let index = Int.random(in: edges.indices, using: &random)
            let edge = edges.remove(at: index)
            mesh.cut(edge.number)
            if distances(from: edge.a)[edge.b] == nil { connect(edge.a, edge.b) } else { connectAnybody() }
        }

        /// Runs in steps, with a link changing between them, until `isDone`, which is asked after each.
        mutating func run(
            for limit: Duration, step: Duration = .seconds(1), churnOneIn chance: Int = 0,
            _ act: (inout SimulatedMesh) -> Void = { _ in }, until isDone: (SimulatedMesh) -> Bool = { _ in false }
        ) {
            let end = mesh.now + limit
            while mesh.now < end, !isDone(mesh) {
                mesh.run(for: min(step, end - mesh.now))
                act(&mesh)
                if chance > 0, random.once(in: chance) { churn() }
            }
        }

        /// Two nodes with at least two others between them, as far from each other as frames go without sync.
        mutating func farPair() -> (Int, Int)? {
            for start in (0..<Self.size).shuffled(using: &random) {
                let distances = distances(from: start)
                let far = distances.indices.filter { (3...5).contains(distances[$0] ?? 0) }
                if let end = far.max(by: { distances[$0]! < distances[$1]! }) { return (start, end) }
            }
            return nil
        }
    }

    /// Accepts every file offered to a node, and confirms that it is stored.
    private struct Taker {
        let node: Int
        private var accepted = 0
        private var stored = 0

        init(_ node: Int) { self.node = node }

        mutating func act(in mesh: inout SimulatedMesh) {
            for offer in mesh.nodes[node].events.offers.dropFirst(accepted) {
                accepted += 1
                mesh.node(node) { $0.accept(offer, now: $1) }
            }
            for file in mesh.nodes[node].events.files.dropFirst(stored) {
                stored += 1
                mesh.node(node) { $0.confirmStored(MeshFileKey(file.id, with: file.sender), now: $1) }
            }
        }
    }

    @Test(
        "M1, R6: fifty nodes, changing neighbours and loss: messages arrive, and memory stays bounded",
        arguments: [1, 2] as [UInt64])
    func crowd(seed: UInt64) throws {
        var crowd = Crowd(seed: seed)
        crowd.mesh.lossOneIn = 20
        try getAcquainted(&crowd, seed)
        try talk(&crowd, seed)
        try sendFar(&crowd, seed)
        try share(&crowd, seed)
        try settle(&crowd, seed)
    }

    /// Each node receives the announcement of each other node.
    private func getAcquainted(_ crowd: inout Crowd, _ seed: UInt64) throws {
        func isDone(_ mesh: SimulatedMesh) -> Bool {
            mesh.nodes.allSatisfy { $0.router.peers.announced.count == Crowd.size - 1 }
        }
        crowd.run(for: .seconds(240), churnOneIn: 4, until: isDone)
        try #require(isDone(crowd.mesh), "seed \(seed)")
    }

    /// Public messages reach all nodes once.
    private func talk(_ crowd: inout Crowd, _ seed: UInt64) throws {
        var said: [String: Int] = [:]
        for number in 0..<5 {
            let speaker = Int.random(in: 0..<Crowd.size, using: &crowd.random)
            said["text \(number)"] = speaker
            try crowd.mesh.node(speaker) { try $0.sendPublicMessage("text \(number)", now: $1) }
            crowd.run(for: .seconds(4), churnOneIn: 2)
        }
        func isDone(_ mesh: SimulatedMesh) -> Bool {
            mesh.nodes.indices.allSatisfy { node in
                mesh.nodes[node].events.texts.count >= said.values.count { $0 != node }
            }
        }
        crowd.run(for: .seconds(240), until: isDone)
        for node in crowd.mesh.nodes.indices {
            let expected = said.keys.filter { said[$0] != node }.sorted()
            #expect(crowd.mesh.nodes[node].events.texts.sorted() == expected, "seed \(seed), node \(node)")
        }
    }

    /// A file goes over three hops and more, while links change and one frame in twenty is lost.
    private func sendFar(_ crowd: inout Crowd, _ seed: UInt64) throws {
        let pair = crowd.farPair()
        let (sender, receiver) = try #require(pair, "seed \(seed)")
        let file = MeshFile(name: "far", mediaType: "a/b", content: crowd.random.bytes(20_000)[...])
        let recipient = crowd.mesh.nodes[receiver].router.id
        try crowd.mesh.node(sender) { _ = try $0.sendFile(file, to: recipient, now: $1) }
        var taker = Taker(receiver)
        crowd.run(
            for: .seconds(240), step: .milliseconds(500), churnOneIn: 8, { taker.act(in: &$0) },
            until: { !$0.nodes[sender].events.outcomes.isEmpty })
        #expect(crowd.mesh.nodes[sender].events.outcomes == [.stored], "seed \(seed)")
        let isEqual = crowd.mesh.nodes[receiver].events.files.map(\.file.content) == [file.content]
        #expect(isEqual, "seed \(seed)")
    }

    /// Two files to one peer share the route, and a text overtakes them.
    private func share(_ crowd: inout Crowd, _ seed: UInt64) throws {
        crowd.mesh.lossOneIn = 0
        let pair = crowd.farPair()
        let (sender, receiver) = try #require(pair, "seed \(seed)")
        let recipient = crowd.mesh.nodes[receiver].router.id
        var taker = Taker(receiver)
        crowd.mesh.nodes[sender].events = []
        crowd.mesh.nodes[receiver].events = []
        var files: [MeshFileKey] = []
        for number in 0..<2 {
            let file = MeshFile(name: "\(number)", mediaType: "a/b", content: crowd.random.bytes(40_000)[...])
            try crowd.mesh.node(sender) { files.append(try $0.sendFile(file, to: recipient, now: $1)) }
        }
        func sent(_ mesh: SimulatedMesh) -> [Int] {
            files.map { file in
                mesh.nodes[sender].events.compactMap {
                    if case .fragmentsSent(file, let sent, _) = $0 { sent } else { nil }
                }.last ?? 0
            }
        }
        crowd.run(
            for: .seconds(20), step: .milliseconds(100), { taker.act(in: &$0) },
            until: { sent($0).allSatisfy { $0 > 5 } })
        let before = sent(crowd.mesh)
        try crowd.mesh.node(sender) { try $0.sendPrivateMessage("quick", id: "Q", to: recipient, now: $1) }
        crowd.run(for: .milliseconds(600), step: .milliseconds(100), { taker.act(in: &$0) })
        #expect(crowd.mesh.nodes[receiver].events.texts == ["quick"], "seed \(seed)")
        // The first was requested a little earlier, and is ahead; since then they have alternated.
        let steps = zip(sent(crowd.mesh), before).map { $0 - $1 }
        #expect(abs(steps[0] - steps[1]) <= 1 && steps[0] > 5, "seed \(seed): \(steps)")
        crowd.run(
            for: .seconds(30), step: .milliseconds(100), { taker.act(in: &$0) },
            until: { $0.nodes[sender].events.outcomes.count == 2 })
        #expect(crowd.mesh.nodes[sender].events.outcomes == [.stored, .stored], "seed \(seed)")
    }

    /// All tables are within their bounds, and entries of ended operations expire.
    private func settle(_ crowd: inout Crowd, _ seed: UInt64) throws {
        crowd.run(for: .seconds(40))
        for (number, node) in crowd.mesh.nodes.enumerated() {
            let router = node.router
            let comment: Comment = "seed \(seed), node \(number)"
            #expect(router.peers.count == Crowd.size - 1, comment)
            #expect(router.history.packets.count <= 20_000 && router.history.fragments.count <= 50_000, comment)
            #expect(router.sync.store.count <= 500 && router.sync.store.byteCount <= 4 << 20, comment)
            #expect(router.incoming.assembler.count == 0 && router.fragments.isEmpty, comment)
            #expect(router.relays.count == router.relays.recordCount && router.relays.count < 500, comment)
            #expect(router.outgoingFiles.isEmpty && router.incoming.files.files.values.allSatisfy(\.isEnded), comment)
            #expect(router.sessions.waitingCounts.allSatisfy { $0.queued == 0 && $0.early == 0 }, comment)
        }
    }
}
