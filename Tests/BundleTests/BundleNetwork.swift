import NearshareBase
import NearshareBundles
import NearshareCrypto
import NearshareTesting

/// Some routers on virtual time, in one thread. Every packet is encoded and decoded. Each node has a store that outlives its
/// router.
struct BundleNetwork: Simulation {
    struct Node {
        let keys: RouterKeys
        /// The hash of its signing key.
        let address: EndpointID
        /// Nil while the node is killed.
        var router: BundleRouter?
        var store: [BundleID: StoredBundle] = [:]
        var delivered: [(id: BundleID, expiry: WallTime)] = []
        var events: [BundleEvent] = []
    }

    /// A packet on a link.
    struct Transmission {
        let from: Int
        let to: Int
        let bytes: [UInt8]
    }

    var nodes: [Node] = []
    var timeline: Timeline<Transmission>
    var random: SeededRandom {
        get { timeline.random }
        set { timeline.random = newValue }
    }
    /// Errors of the nodes' wall clocks.
    var clockOffsets: [Int: Duration] = [:]
    /// 0 for reliable links.
    var lossOneIn = 0
    var settings = BundleRouterSettings()
    /// Changes packets in transit; nil drops one.
    var tamper: ((_ packet: BundlePacket, _ from: Int, _ to: Int) -> BundlePacket?)?
    /// How often each bundle was forwarded.
    private(set) var copies: [BundleID: Int] = [:]
    private var links: [Set<Int>: BundleLink] = [:]

    init(_ count: Int, seed: UInt64 = 1, settings: BundleRouterSettings = BundleRouterSettings()) {
        timeline = Timeline(seed: seed)
        self.settings = settings
        for _ in 0..<count { addNode() }
    }

    mutating func addNode() {
        let keys = RouterKeys(
            agreementKey: try! AgreementPrivateKey(seed: random.bytes(32)),
            signingKey: try! SigningPrivateKey(seed: random.bytes(32)))
        nodes.append(Node(keys: keys, address: keys.publicKeys.address))
        start(nodes.count - 1)
    }

    func moment(_ node: Int) -> Moment {
        timeline.moment(offset: clockOffsets[node] ?? .zero)
    }

    func address(_ node: Int) -> EndpointID { nodes[node].address }

    mutating func start(_ node: Int) {
        var router = BundleRouter(
            keys: nodes[node].keys, settings: settings, random: SeededRandom(seed: random.next()), now: moment(node))
        router.restore(Array(nodes[node].store.values), delivered: nodes[node].delivered, now: moment(node))
        nodes[node].router = router
        for (pair, link) in links where pair.contains(node) { bringUp(pair, link) }
        settle(node)
    }

    /// Ends a node like `kill -9`: only the store remains.
    mutating func kill(_ node: Int) {
        nodes[node].router = nil
        timeline.removeEvents { $0.to == node || $0.from == node }
        for pair in links.keys where pair.contains(node) {
            for other in pair where other != node {
                let (address, moment) = (address(node), moment(other))
                nodes[other].router?.neighbourDown(address, now: moment)
                settle(other)
            }
        }
    }

    /// - Parameter host: the machine of the other end, as both nodes see it; nil where each counts alone.
    mutating func connect(_ a: Int, _ b: Int, isRadio: Bool = false, host: BundleHost? = nil) {
        links[[a, b]] = BundleLink(isRadio: isRadio, host: host)
        bringUp([a, b], links[[a, b]]!)
    }

    /// The same two nodes are connected by another kind of link.
    mutating func relink(_ a: Int, _ b: Int, isRadio: Bool) {
        let link = BundleLink(isRadio: isRadio)
        links[[a, b]] = link
        for (node, other) in [(a, b), (b, a)] {
            let (address, moment) = (address(other), moment(node))
            nodes[node].router?.neighbourRelinked(address, link: link, now: moment)
            settle(node)
        }
    }

    private mutating func bringUp(_ pair: Set<Int>, _ link: BundleLink) {
        guard pair.allSatisfy({ nodes[$0].router != nil }) else { return }
        for node in pair.sorted() {
            let other = pair.first { $0 != node }!
            let (address, moment) = (address(other), moment(node))
            nodes[node].router!.neighbourUp(address, link: link, now: moment)
        }
        for node in pair.sorted() { settle(node) }
    }

    mutating func cut(_ a: Int, _ b: Int) {
        links[[a, b]] = nil
        for (node, other) in [(a, b), (b, a)] {
            let (address, moment) = (address(other), moment(node))
            nodes[node].router?.neighbourDown(address, now: moment)
            settle(node)
        }
    }

    mutating func sendDirect(_ message: OutgoingBundle, from: Int, to: Int) throws(BundleRejection) {
        let (address, moment) = (address(to), moment(from))
        try nodes[from].router!.sendDirect(message, to: address, now: moment)
        settle(from)
    }

    @discardableResult
    mutating func send(
        _ text: String, from: Int, to: Int?, isSealed: Bool = true, isPrivate: Bool = false,
        profile: PropagationProfile = .standard
    ) -> BundleID {
        let message = outgoing(text, from: from, to: to, isSealed: isSealed, isPrivate: isPrivate, profile: profile)
        let moment = moment(from)
        try! nodes[from].router!.send(message, now: moment)
        settle(from)
        return message.id
    }

    mutating func outgoing(
        _ text: String, from: Int, to: Int?, isSealed: Bool = true, isPrivate: Bool = false,
        profile: PropagationProfile = .standard
    ) -> OutgoingBundle {
        OutgoingBundle(
            try! BundleContent.structured(.string(text)).encoded(), from: nodes[from].keys,
            to: to.map { nodes[$0].keys.publicKeys }, isSealed: to != nil && isSealed, isPrivate: isPrivate, profile: profile,
            created: moment(from).wall, random: &random)
    }

    /// Gives a bundle of a node the present time.
    mutating func redate(_ copy: BundleCopy, of node: Int) -> BundleID? {
        let moment = moment(node)
        defer { settle(node) }
        return nodes[node].router!.redate(copy, created: moment.wall, now: moment)
    }

    /// Delivers a packet as if a neighbour had sent it.
    mutating func inject(_ packet: BundlePacket, from: Int, to: Int) {
        let (address, moment) = (address(from), moment(to))
        nodes[to].router!.receive(packet, from: address, now: moment)
        settle(to)
    }

    mutating func run(_ limit: Duration) { run(for: limit) }

    // MARK: Simulation

    var deadline: MonotonicInstant? { nodes.compactMap { $0.router?.deadline }.min() }

    mutating func handle(_ transmission: Transmission) {
        guard links[[transmission.from, transmission.to]] != nil, nodes[transmission.to].router != nil,
            let packet = try? BundlePacket(decoding: transmission.bytes[...])
        else { return }
        let (address, moment) = (address(transmission.from), moment(transmission.to))
        nodes[transmission.to].router!.receive(packet, from: address, now: moment)
        settle(transmission.to)
    }

    mutating func advanceMachines() {
        for node in nodes.indices {
            guard let deadline = nodes[node].router?.deadline, deadline <= now else { continue }
            let moment = moment(node)
            nodes[node].router!.advance(to: moment)
            settle(node)
        }
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
        guard nodes[node].router != nil else { return }
        for reaction in nodes[node].router!.drainReactions() {
            switch reaction {
            case .store(let stored): nodes[node].store[stored.id] = stored
            case .delete(let ids): for id in ids { nodes[node].store[id] = nil }
            case .recordDelivery(let id, let expiry): nodes[node].delivered.append((id, expiry))
            case .forward(let id, let to, let hopCount, let forwarding, let visitedTags):
                guard var copy = nodes[node].store[id]?.copy else { continue }
                (copy.hopCount, copy.forwarding, copy.visitedTags) = (hopCount, forwarding, visitedTags)
                copies[id, default: 0] += 1
                transmit(.copy(copy), from: node, to: to)
            case .send(let packet, let to): transmit(packet, from: node, to: to)
            case .emit(let event): nodes[node].events.append(event)
            }
        }
    }

    private mutating func transmit(_ packet: BundlePacket, from: Int, to address: EndpointID) {
        guard let to = nodes.indices.first(where: { self.address($0) == address }) else { return }
        guard let packet = tamper == nil ? packet : tamper!(packet, from, to) else { return }
        if lossOneIn > 0, random.once(in: lossOneIn) { return }
        let at = now + .milliseconds(Int64.random(in: 1...5, using: &random))
        timeline.schedule(Transmission(from: from, to: to, bytes: packet.encoded), at: at)
    }
}
