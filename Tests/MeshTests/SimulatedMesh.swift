import NearshareBase
import NearshareCrypto
import NearshareMesh
import NearshareTesting

/// Many nodes, the links between them and one clock, in one thread: the same each time for the same seed. Links deliver whole
/// frames, in order, after a delay drawn by chance; loss takes single frames away.
struct SimulatedMesh: Simulation {
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
        var line = SimulatedLine()
    }

    struct Delivery {
        var way: Int
        var frame: [UInt8]
    }

    var nodes: [Node] = []
    var timeline: Timeline<Delivery>
    /// One of this many frames is lost; 0 for none.
    var lossOneIn: Int {
        get { conditions.lossOneIn }
        set { conditions.lossOneIn = newValue }
    }
    var delay: ClosedRange<Duration> {
        get { conditions.delay }
        set { conditions.delay = newValue }
    }
    private var conditions = SimulatedLine.Conditions()
    /// Whether each node accepts private messages for it.
    var acceptsMessages = true
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

    init(seed: UInt64, start: WallTime = WallTime(milliseconds: 1_800_000_000_000)) {
        timeline = Timeline(seed: seed, startOfWallClock: start)
    }

    var moment: Moment { timeline.moment }

    @discardableResult
    mutating func addNode(_ name: String, settings: MeshRouter.Settings = MeshRouter.Settings()) -> Int {
        let identity = LocalIdentity(seed: timeline.random.bytes(LocalIdentity.seedByteCount))
        let router = MeshRouter(
            identity: identity, name: try! DisplayName(name), settings: settings,
            random: SeededRandom(seed: timeline.random.next()))
        nodes.append(Node(router: router))
        waysFrom.append([])
        deadlines.append(nil)
        return nodes.count - 1
    }

    /// - Parameter source: the machine of the other end, as both nodes see it.
    /// - Returns: a number for ``cut(_:)``.
    @discardableResult
    mutating func connect(_ a: Int, _ b: Int, _ profile: MeshLinkProfile = .stream, from source: MeshLinkSource? = nil) -> Int {
        let number = ways.count
        let firstLink = MeshLinkID(rawValue: UInt64(number))
        let secondLink = MeshLinkID(rawValue: UInt64(number + 1))
        ways.append(Way(from: a, to: b, fromLink: firstLink, toLink: secondLink))
        ways.append(Way(from: b, to: a, fromLink: secondLink, toLink: firstLink))
        waysFrom[a].append(number)
        waysFrom[b].append(number + 1)
        nodes[a].router.linkUp(firstLink, profile, from: source, now: moment)
        nodes[b].router.linkUp(secondLink, profile, from: source, now: moment)
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

    // MARK: Simulation

    var deadline: MonotonicInstant? { deadlines.compactMap(\.self).min() }

    mutating func handle(_ delivery: Delivery) {
        let way = ways[delivery.way]
        guard way.isUp else { return }
        delivered[delivery.frame.packetType, default: 0] += 1
        tap?(way.from, way.to, delivery.frame, now)
        nodes[way.to].router.receive(delivery.frame[...], from: way.toLink, now: moment)
        collect(from: way.to)
    }

    mutating func advanceMachines() {
        for index in nodes.indices {
            guard let deadline = deadlines[index], deadline <= now else { continue }
            nodes[index].router.advance(to: moment)
            collect(from: index)
        }
    }

    /// Takes the pending frames of a node, after each event.
    private mutating func collect(from index: Int) {
        let events = nodes[index].router.drainEvents()
        nodes[index].events += events
        for case .privateMessage(let sender, let id, _) in events where acceptsMessages {
            nodes[index].router.acknowledge(id, of: sender.id, now: moment)
        }
        for number in waysFrom[index] {
            while let frame = nodes[index].router.dequeueFrame(for: ways[number].fromLink) {
                for frame in filter?(index, frame) ?? [frame] { schedule(frame, way: number) }
            }
        }
        deadlines[index] = nodes[index].router.deadline
    }

    private mutating func schedule(_ frame: [UInt8], way: Int) {
        ways[way].line.send(Delivery(way: way, frame: frame), conditions, on: &timeline)
    }
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

extension [UInt8] {
    /// The type of the packet in a frame: its second byte (bitchat specification, section 2).
    var packetType: MeshPacketType { MeshPacketType(rawValue: self[1]) }
}
