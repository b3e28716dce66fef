import NearshareBase
import NearshareCrypto
import NearshareMesh
import NearshareTesting

/// Many nodes, the links between them and one clock, in one thread: the same each time for the same seed. Links deliver whole
/// frames, in order, after a delay drawn by chance; loss takes single frames away.
struct SimulatedMesh {
    struct Node {
        var router: MeshRouter
        var events: [MeshEvent] = []
    }

    private struct Way {
        var from: Int
        var to: Int
        var fromLink: MeshLinkID
        var toLink: MeshLinkID
        var isUp = true
        var last = MonotonicInstant(nanoseconds: 0)
    }

    private struct Delivery {
        var at: MonotonicInstant
        var order: Int
        var way: Int
        var frame: [UInt8]
    }

    var nodes: [Node] = []
    private(set) var now = MonotonicInstant(nanoseconds: 1_000_000_000)
    /// One frame in so many is lost; 0 for none.
    var lossOneIn = 0
    /// Whether each node accepts private messages for it.
    var takesMessages = true
    var delay = Duration.milliseconds(1)...Duration.milliseconds(5)
    /// Frames that were delivered, by type.
    private(set) var delivered: [MeshPacketType: Int] = [:]
    /// Called for each frame in transit.
    var tap: ((_ from: Int, _ to: Int, _ frame: [UInt8], _ at: MonotonicInstant) -> Void)?
    /// A man in the middle: replaces each frame that a node writes.
    var filter: ((_ from: Int, _ frame: [UInt8]) -> [[UInt8]])?
    private var ways: [Way] = []
    /// The outgoing links of each node.
    private var waysFrom: [[Int]] = []
    /// The next deadline of each node's router.
    private var deadlines: [MonotonicInstant?] = []
    private var deliveries: [Delivery] = []
    private var order = 0
    private var random: SeededRandom
    private let start: WallTime

    init(seed: UInt64, start: WallTime = WallTime(milliseconds: 1_800_000_000_000)) {
        random = SeededRandom(seed: seed)
        self.start = start
    }

    var moment: Moment { moment(at: now) }

    private func moment(at instant: MonotonicInstant) -> Moment {
        Moment(
            monotonic: instant, wall: WallTime(milliseconds: start.milliseconds + instant.nanoseconds / 1_000_000))
    }

    @discardableResult
    mutating func addNode(_ name: String, settings: MeshRouter.Settings = MeshRouter.Settings()) -> Int {
        let identity = LocalIdentity(seed: random.bytes(LocalIdentity.seedByteCount))
        let router = MeshRouter(
            identity: identity, name: try! DisplayName(name), settings: settings,
            random: SeededRandom(seed: random.next()))
        nodes.append(Node(router: router))
        waysFrom.append([])
        deadlines.append(nil)
        return nodes.count - 1
    }

    /// - Returns: a number for ``cut(_:)``.
    @discardableResult
    mutating func connect(_ a: Int, _ b: Int, _ profile: MeshLinkProfile = .stream) -> Int {
        let number = ways.count
        let here = MeshLinkID(rawValue: UInt64(number))
        let there = MeshLinkID(rawValue: UInt64(number + 1))
        ways.append(Way(from: a, to: b, fromLink: here, toLink: there))
        ways.append(Way(from: b, to: a, fromLink: there, toLink: here))
        waysFrom[a].append(number)
        waysFrom[b].append(number + 1)
        nodes[a].router.linkUp(here, profile, now: moment)
        nodes[b].router.linkUp(there, profile, now: moment)
        collect(from: a)
        collect(from: b)
        return number
    }

    mutating func cut(_ number: Int) {
        for index in [number, number + 1] {
            ways[index].isUp = false
            let from = ways[index].from
            nodes[from].router.linkDown(ways[index].fromLink, now: moment)
            waysFrom[from].removeAll { $0 == index }
            collect(from: from)
        }
    }

    mutating func node(_ index: Int, _ body: (inout MeshRouter, Moment) throws -> Void) rethrows {
        defer { collect(from: index) }
        try body(&nodes[index].router, moment)
    }

    /// Delivers a frame on a link as if the other end had written it.
    mutating func inject(_ frame: [UInt8], on number: Int) {
        schedule(frame, way: number)
    }

    mutating func run(for limit: Duration, until isDone: (SimulatedMesh) -> Bool = { _ in false }) {
        let end = now + limit
        while !isDone(self) {
            let next = (deadlines + [deliveries.first?.at]).compactMap(\.self).min()
            guard let next, next <= end else {
                now = end
                return
            }
            now = max(now, next)
            while let first = deliveries.first, first.at <= now {
                removeFirst()
                let way = ways[first.way]
                guard way.isUp else { continue }
                delivered[MeshPacketType(rawValue: first.frame[1]), default: 0] += 1
                tap?(way.from, way.to, first.frame, now)
                nodes[way.to].router.receive(first.frame[...], from: way.toLink, now: moment)
                collect(from: way.to)
            }
            for index in nodes.indices {
                guard let deadline = deadlines[index], deadline <= now else { continue }
                nodes[index].router.advance(to: moment)
                collect(from: index)
            }
        }
    }

    /// Takes the pending frames of a node, after each event.
    private mutating func collect(from index: Int) {
        let events = nodes[index].router.drainEvents()
        nodes[index].events += events
        for case .privateMessage(let sender, let id, _) in events where takesMessages {
            nodes[index].router.acknowledge(id, of: sender.id, now: moment)
        }
        for number in waysFrom[index] {
            while let frame = nodes[index].router.nextFrame(for: ways[number].fromLink) {
                for frame in filter?(index, frame) ?? [frame] { schedule(frame, way: number) }
            }
        }
        deadlines[index] = nodes[index].router.deadline
    }

    private mutating func schedule(_ frame: [UInt8], way: Int) {
        if lossOneIn > 0, random.once(in: lossOneIn) { return }
        let range = delay.lowerBound.nanoseconds...delay.upperBound.nanoseconds
        let at = max(ways[way].last, now + .nanoseconds(Int64.random(in: range, using: &random)))
        ways[way].last = at
        order += 1
        insert(Delivery(at: at, order: order, way: way, frame: frame))
    }

    private mutating func insert(_ delivery: Delivery) {
        var low = 0
        var high = deliveries.count
        while low < high {
            let middle = (low + high) / 2
            if deliveries[middle].at <= delivery.at { low = middle + 1 } else { high = middle }
        }
        deliveries.insert(delivery, at: low)
    }

    private mutating func removeFirst() { deliveries.removeFirst() }
}

extension [MeshEvent] {
    var texts: [String] {
        compactMap { event in
            switch event {
            case .privateMessage(_, _, let text), .publicMessage(_, _, let text, _): text
            default: nil
            }
        }
    }

    var files: [MeshReceivedFile] {
        compactMap { if case .fileReceived(let file) = $0 { file } else { nil } }
    }

    var outcomes: [MeshFileOutcome] {
        compactMap { if case .fileSendEnded(_, let outcome) = $0 { outcome } else { nil } }
    }

    func outcome(of file: MeshFileKey) -> MeshFileOutcome? {
        for case .fileSendEnded(file, let outcome) in self { return outcome }
        return nil
    }

    var offers: [MeshFileKey] {
        compactMap { if case .fileOffered(let offer, let peer) = $0 { MeshFileKey(offer.id, with: peer.id) } else { nil } }
    }
}
