package import NearshareBase
package import NearshareDirect

/// Two peers, the way between them and a clock, all in one thread: a whole conversation over an encrypted link, run in no
/// time and the same each time for the same seed.
///
/// The way delivers bytes in order, as TCP does: chance delays them, loss delays them by a retransmission, and a
/// partition holds them back until the machines' own timers give up.
package struct SimulatedNetwork {
    package struct Conditions: Sendable {
        package var delay = Duration.milliseconds(1)...Duration.milliseconds(20)
        /// One delivery in this number is lost and repeated after ``retransmission``; 0 for none.
        package var lossOneIn = 0
        package var retransmission = Duration.milliseconds(250)

        package init() {}
    }

    /// An action on the peers at a given time, or when a condition holds.
    package struct Event {
        var isDue: (SimulatedNetwork) -> Bool
        var action: (inout SimulatedNetwork) -> Void
    }

    private struct Delivery {
        var at: MonotonicInstant
        var bytes: [UInt8]
    }

    /// 0 is the initiator, 1 the responder.
    package private(set) var peers: [SimulatedPeer]
    package private(set) var now = MonotonicInstant(nanoseconds: 1_000_000_000)
    /// The log of all events, for comparing two runs.
    package private(set) var log: [String] = []
    private var ways: [[Delivery]] = [[], []]
    private var events: [Event] = []
    private var isPartitioned = false
    private var random: SeededRandom
    private let conditions: Conditions

    package init(seed: UInt64, conditions: Conditions, limits: DirectLimits = DirectLimits()) {
        random = SeededRandom(seed: seed)
        self.conditions = conditions
        peers = []
        for index in 0..<2 { peers.append(SimulatedPeer(index: index, limits: limits, random: &random)) }
        collect()
    }

    // MARK: Scenario

    /// Performs `action` as soon as `condition` holds, which is checked after each event.
    package mutating func when(
        _ condition: @escaping (SimulatedNetwork) -> Bool, _ action: @escaping (inout SimulatedNetwork) -> Void
    ) {
        events.append(Event(isDue: condition, action: action))
    }

    /// Performs an action of a peer.
    package mutating func peer(_ index: Int, _ body: (inout SimulatedPeer, MonotonicInstant) -> Void) {
        body(&peers[index], now)
        collect()
    }

    /// From now on all packets are lost, and neither side is told.
    package mutating func partition() {
        log.append("\(now.nanoseconds) partition")
        isPartitioned = true
    }

    /// Runs until no event is pending, or until `limit` of virtual time has passed.
    package mutating func run(for limit: Duration) {
        let end = now + limit
        while let next = nextMoment(), next <= end {
            now = max(now, next)
            for index in 0..<2 {
                while !isPartitioned, let first = ways[index].first, first.at <= now {
                    ways[index].removeFirst()
                    peers[1 - index].receive(first.bytes, now: now)
                    collect()
                }
                if let deadline = peers[index].deadline, deadline <= now { peers[index].advance(to: now) }
                collect()
            }
        }
        now = max(now, end)
    }

    // MARK: Events

    private func nextMoment() -> MonotonicInstant? {
        var moments = peers.compactMap(\.deadline)
        if !isPartitioned { moments += ways.compactMap { $0.first?.at } }
        return moments.min()
    }

    /// Takes the pending frames of the peers, logs their events, and performs due actions.
    private mutating func collect() {
        var isBusy = true
        while isBusy {
            isBusy = false
            for index in 0..<2 {
                let (bytes, notes) = peers[index].drainOutput(now: now)
                log += notes.map { "\(now.nanoseconds) \(index) \($0)" }
                if !bytes.isEmpty { send(bytes, from: index) }
                if !bytes.isEmpty || !notes.isEmpty { isBusy = true }
            }
            for (number, event) in events.enumerated() where event.isDue(self) {
                events.remove(at: number)
                event.action(&self)
                isBusy = true
                break
            }
        }
    }

    private mutating func send(_ bytes: [UInt8], from index: Int) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let part = Array(rest.prefix(Int.random(in: 1...9000, using: &random)))
            rest = rest.dropFirst(part.count)
            let range = conditions.delay.lowerBound.nanoseconds...conditions.delay.upperBound.nanoseconds
            var at = now + .nanoseconds(Int64.random(in: range, using: &random))
            if conditions.lossOneIn > 0, random.once(in: conditions.lossOneIn) { at = at + conditions.retransmission }
            // Deliveries keep their order.
            ways[index].append(Delivery(at: max(at, ways[index].last?.at ?? at), bytes: part))
        }
    }
}
