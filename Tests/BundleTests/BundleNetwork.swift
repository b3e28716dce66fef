import NearshareBase
import NearshareBundles
import NearshareCrypto
import NearshareTesting

/// A few carriers and one clock, in one thread; every packet goes through its bytes. Each node has a store that outlives it.
struct CarryNetwork {
    struct Node {
        let keys: RouterKeys
        var carrier: BundleRouter?
        var store: [BundleID: StoredBundle] = [:]
        var delivered: [(id: BundleID, until: WallTime)] = []
        var events: [BundleEvent] = []
    }

    private struct Flight {
        let at: MonotonicInstant
        let order: Int
        let from: Int
        let to: Int
        let bytes: [UInt8]
    }

    var nodes: [Node] = []
    private(set) var now = MonotonicInstant(nanoseconds: 1_000_000_000)
    /// Added to the wall clock.
    var clockOffsets: [Int: Duration] = [:]
    var lossOneIn = 0
    var settings = BundleRouterSettings()
    /// Changes packets on their way; nil takes one away.
    var tamper: ((_ packet: BundlePacket, _ from: Int, _ to: Int) -> BundlePacket?)?
    private(set) var copies: [BundleID: Int] = [:]
    private var links: [Set<Int>: BundleLink] = [:]
    private var flights: [Flight] = []
    private var order = 0
    var random: SeededRandom

    init(_ count: Int, seed: UInt64 = 1, settings: BundleRouterSettings = BundleRouterSettings()) {
        random = SeededRandom(seed: seed)
        self.settings = settings
        for _ in 0..<count { addNode() }
    }

    mutating func addNode() {
        let keys = RouterKeys(
            agreementKey: try! AgreementPrivateKey(seed: random.bytes(32)),
            signingKey: try! SigningPrivateKey(seed: random.bytes(32)))
        nodes.append(Node(keys: keys))
        start(nodes.count - 1)
    }

    func moment(_ node: Int) -> Moment {
        let wall = 1_800_000_000_000 + now.nanoseconds / 1_000_000 + (clockOffsets[node] ?? .zero).nanoseconds / 1_000_000
        return Moment(monotonic: now, wall: WallTime(milliseconds: wall))
    }

    func address(_ node: Int) -> EndpointID { nodes[node].keys.contact.address }

    mutating func start(_ node: Int) {
        var carrier = BundleRouter(
            keys: nodes[node].keys, settings: settings, random: SeededRandom(seed: random.next()), now: moment(node))
        carrier.restore(Array(nodes[node].store.values), delivered: nodes[node].delivered, now: moment(node))
        nodes[node].carrier = carrier
        for (pair, link) in links where pair.contains(node) { bringUp(pair, link) }
        settle(node)
    }

    /// As `kill -9` does: what was not in the store is gone.
    mutating func kill(_ node: Int) {
        nodes[node].carrier = nil
        flights.removeAll { $0.to == node || $0.from == node }
        for pair in links.keys where pair.contains(node) {
            for other in pair where other != node {
                let (address, moment) = (address(node), moment(other))
                nodes[other].carrier?.neighbourDown(address, now: moment)
                settle(other)
            }
        }
    }

    mutating func connect(_ a: Int, _ b: Int, isRadio: Bool = false) {
        links[[a, b]] = BundleLink(isRadio: isRadio, isReliable: lossOneIn == 0)
        bringUp([a, b], links[[a, b]]!)
    }

    private mutating func bringUp(_ pair: Set<Int>, _ link: BundleLink) {
        guard pair.allSatisfy({ nodes[$0].carrier != nil }) else { return }
        for node in pair.sorted() {
            let other = pair.first { $0 != node }!
            let (address, moment) = (address(other), moment(node))
            nodes[node].carrier!.neighbourUp(address, link, now: moment)
        }
        for node in pair.sorted() { settle(node) }
    }

    mutating func cut(_ a: Int, _ b: Int) {
        links[[a, b]] = nil
        for (node, other) in [(a, b), (b, a)] {
            let (address, moment) = (address(other), moment(node))
            nodes[node].carrier?.neighbourDown(address, now: moment)
            settle(node)
        }
    }

    mutating func sendDirect(_ message: OutgoingMessage, from: Int, to: Int) throws(BundleRejection) {
        let (address, moment) = (address(to), moment(from))
        try nodes[from].carrier!.sendDirect(message, to: address, now: moment)
        settle(from)
    }

    @discardableResult
    mutating func send(
        _ text: String, from: Int, to: Int?, isSealed: Bool = true, isPrivate: Bool = false,
        profile: PropagationProfile = .standard
    ) -> BundleID {
        let message = outgoing(text, from: from, to: to, isSealed: isSealed, isPrivate: isPrivate, profile: profile)
        let moment = moment(from)
        try! nodes[from].carrier!.send(message, now: moment)
        settle(from)
        return message.id
    }

    mutating func outgoing(
        _ text: String, from: Int, to: Int?, isSealed: Bool = true, isPrivate: Bool = false,
        profile: PropagationProfile = .standard
    ) -> OutgoingMessage {
        OutgoingMessage(
            try! BundleContent.structured(.string(text)).encoded(), from: nodes[from].keys,
            to: to.map { nodes[$0].keys.contact }, isSealed: to != nil && isSealed, isPrivate: isPrivate, profile: profile,
            created: moment(from).wall, random: &random)
    }

    /// Gives a node a packet as if a neighbour had sent it.
    mutating func inject(_ packet: BundlePacket, from: Int, to: Int) {
        let (address, moment) = (address(from), moment(to))
        nodes[to].carrier!.receive(packet, from: address, now: moment)
        settle(to)
    }

    mutating func run(_ limit: Duration) {
        let end = now + limit
        while true {
            let next = (nodes.compactMap { $0.carrier?.deadline } + [flights.first?.at].compactMap { $0 }).min()
            guard let next, next <= end else { break }
            now = max(now, next)
            while let flight = flights.first, flight.at <= now {
                flights.removeFirst()
                guard links[[flight.from, flight.to]] != nil, nodes[flight.to].carrier != nil else { continue }
                guard let packet = try? BundlePacket(decoding: flight.bytes[...]) else { continue }
                let (address, moment) = (address(flight.from), moment(flight.to))
                nodes[flight.to].carrier!.receive(packet, from: address, now: moment)
                settle(flight.to)
            }
            for node in nodes.indices {
                guard let deadline = nodes[node].carrier?.deadline, deadline <= now else { continue }
                let moment = moment(node)
                nodes[node].carrier!.advance(to: moment)
                settle(node)
            }
        }
        now = end
    }

    func texts(_ node: Int) -> [String] {
        nodes[node].events.compactMap { event in
            guard case .received(let message) = event,
                case .structured(.string(let text))? = try? BundleContent(decoding: message.content[...])
            else { return nil }
            return text
        }
    }

    private mutating func settle(_ node: Int) {
        guard nodes[node].carrier != nil else { return }
        for action in nodes[node].carrier!.takeActions() {
            switch action {
            case .keep(let kept): nodes[node].store[kept.id] = kept
            case .drop(let ids): for id in ids { nodes[node].store[id] = nil }
            case .remember(let id, let until): nodes[node].delivered.append((id, until))
            case .forward(let id, let to, let hops, let way, let carriers):
                guard var kept = nodes[node].store[id] else { continue }
                kept.copy.hops = hops
                kept.copy.way = way
                kept.copy.carriers = carriers
                copies[id, default: 0] += 1
                fly(.copy(kept.copy), from: node, to: to)
            case .send(let packet, let to): fly(packet, from: node, to: to)
            case .tell(let event): nodes[node].events.append(event)
            }
        }
    }

    private mutating func fly(_ packet: BundlePacket, from: Int, to address: EndpointID) {
        guard let to = nodes.indices.first(where: { self.address($0) == address }) else { return }
        guard let packet = tamper == nil ? packet : tamper!(packet, from, to) else { return }
        if lossOneIn > 0, random.once(in: lossOneIn) { return }
        order += 1
        let at = now + .milliseconds(Int64.random(in: 1...5, using: &random))
        let flight = Flight(at: at, order: order, from: from, to: to, bytes: packet.encoded)
        let place = flights.firstIndex { ($0.at, $0.order) > (flight.at, flight.order) } ?? flights.endIndex
        flights.insert(flight, at: place)
    }
}
