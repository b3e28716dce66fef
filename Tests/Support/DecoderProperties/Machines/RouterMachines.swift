import NearshareBase
import NearshareBundles
import NearshareCrypto
import NearshareMesh
import NearshareTesting

extension DecoderProperty {
    /// Three mesh routers in a row, with an untrusted neighbour in the middle that repeats and changes frames.
    static let meshRouters = Self(
        name: "mesh-routers",
        seeds: [
            // Introduced; a public and a private message and a file to the far end.
            [
                0, 255, 8, 96, 0, 255, 1, 0, 0, 255, 2, 0, 2, 0, 255, 8, 80, 0, 255, 3, 0, 2, 9, 0, 255, 8, 80, 0, 255, 4, 2, 0,
                255,
            ],
            [0, 255, 6, 0, 3, 5, 2, 6, 1, 9, 40, 3, 0, 255, 5, 0, 8, 100, 5, 0, 0, 255, 7, 3, 30, 1, 2, 3],
        ]
    ) { bytes throws(Violation) in
        var script = EventScript(bytes, maximumEventCount: 96)
        var mesh = MeshLine()
        while let event = script.nextEvent(below: 9) { try mesh.perform(event, &script) }
        for _ in 0..<4 {
            try mesh.deliver(.max, script)
            script.elapse(.seconds(1))
            try mesh.advance(script)
        }
        return mesh.hasFrames
    }

    /// Three bundle routers in a row and their stores, with an untrusted neighbour in the middle, killed and started again.
    static let bundleRouters = Self(
        name: "bundle-routers",
        seeds: [
            // Sealed, private, for everyone; delivered, acknowledged; with a restart on the way.
            [0, 0, 2, 0, 3, 255, 7, 100, 3, 255, 0, 2, 0, 1, 3, 255, 4, 1, 3, 255, 7, 120, 3, 255],
            [1, 0, 3, 255, 7, 90, 3, 255],
            [0, 0, 2, 0, 3, 255, 5, 0, 2, 1, 9, 1, 5, 3, 1, 0, 3, 255, 2, 0, 2, 0, 7, 160, 3, 255, 6, 7, 200, 3, 255],
        ]
    ) { bytes throws(Violation) in
        var script = EventScript(bytes, maximumEventCount: 96)
        var line = BundleLine()
        while let event = script.nextEvent(below: 8) { try line.perform(event, &script) }
        for _ in 0..<4 {
            try line.deliver(.max, script)
            script.elapse(.seconds(20))
            try line.advance(script)
        }
        return line.hasPackets
    }
}

// MARK: Mesh

private struct MeshLine {
    private struct Way {
        let from: Int
        let to: Int
        var isUp = true
        var frames: [[UInt8]] = []
    }

    /// Link numbers of the routers: 0 to the left, 1 to the right, 2 to the untrusted neighbour of the middle.
    private static let attackerLink = MeshLinkID(rawValue: 2)
    private static let maximumFramesOfOneEvent = 4_096

    private(set) var hasFrames = false
    private var routers: [MeshRouter]
    private var ways: [Way]
    /// Frames seen, for the untrusted neighbour to repeat.
    private var seen: [[UInt8]] = []
    private var files: Set<[UInt8]> = []
    private var texts: Set<String> = []
    private var accepted: [Set<MeshFileKey>] = [[], [], []]
    private var lastText = 0

    init() {
        routers = (0..<3).map { index in
            let identity = LocalIdentity(seed: [UInt8](repeating: UInt8(index + 1), count: LocalIdentity.seedByteCount))
            return MeshRouter(
                identity: identity, name: DisplayName(truncating: "node \(index)")!,
                random: SeededRandom(seed: UInt64(index + 1)))
        }
        ways = [(0, 1), (1, 0), (1, 2), (2, 1)].map { Way(from: $0.0, to: $0.1) }
        let now = EventScript([]).now
        for way in ways { routers[way.from].linkUp(Self.link(way.from, way.to), .stream, now: now) }
        routers[1].linkUp(Self.attackerLink, .stream, now: now)
        for index in 0..<3 { try? collect(index, now) }
    }

    private static func link(_ from: Int, _ to: Int) -> MeshLinkID { MeshLinkID(rawValue: to > from ? 1 : 0) }

    mutating func perform(_ event: Int, _ script: inout EventScript) throws(DecoderProperty.Violation) {
        let now = script.now
        switch event {
        case 0: return try deliver(script.number(below: 256), script)
        case 1:
            let text = nextText()
            let node = script.number(below: 3)
            try? routers[node].sendPublicMessage(text, now: now)
            try collect(node, now)
        case 2:
            let (node, other) = (script.number(below: 3), script.number(below: 3))
            let text = nextText()
            try? routers[node].sendPrivateMessage(text, id: text, to: routers[other].id, now: now)
            try collect(node, now)
        case 3:
            let (node, other) = (script.number(below: 3), script.number(below: 4))
            let content = [UInt8](repeating: UInt8(lastText & 0xff), count: 1 + script.number(below: 4_096))
            files.insert(content)
            let file = MeshFile(
                name: "a.txt", mediaType: "text/plain", declaredSize: UInt64(content.count), content: content[...])
            _ = try? routers[node].sendFile(file, to: other == 3 ? nil : routers[other].id, now: now)
            try collect(node, now)
        case 4:
            let node = script.number(below: 3)
            for key in accepted[node] { routers[node].accept(key, now: now) }
            try collect(node, now)
        case 5:
            // A cable between two is cut, or plugged in.
            let pair = script.number(below: 2) * 2
            for index in [pair, pair + 1] {
                let way = ways[index]
                let link = Self.link(way.from, way.to)
                ways[index].frames = []
                ways[index].isUp.toggle()
                if way.isUp {
                    routers[way.from].linkDown(link, now: now)
                } else {
                    routers[way.from].linkUp(link, .stream, now: now)
                }
                try collect(way.from, now)
            }
        case 6:
            // The untrusted neighbour repeats a frame, or changes it first.
            guard var frame = script.element(of: seen) else { break }
            if script.flag() { frame = script.altered(frame) }
            routers[1].receive(frame[...], from: Self.attackerLink, now: now)
            try collect(1, now)
        case 7:
            // A packet of its own.
            let types: [MeshPacketType] = [
                .announce, .message, .leave, .noiseHandshake, .noiseEncrypted, .fragment, .requestSync, .fileTransfer, .ping,
                .pong,
            ]
            let packet = MeshPacket(
                type: script.element(of: types) ?? .ping, ttl: UInt8(script.number(below: 9)),
                timestamp: UInt64(now.wall.milliseconds), sender: routers[script.number(below: 3)].id,
                recipient: script.flag() ? routers[script.number(below: 3)].id : nil, payload: script.bytes(upTo: 300)[...])
            guard let frame = try? packet.encoded() else { break }
            routers[1].receive(frame[...], from: Self.attackerLink, now: now)
            try collect(1, now)
        default:
            script.elapse()
            try advance(script)
        }
    }

    private mutating func nextText() -> String {
        lastText += 1
        texts.insert("\(lastText)")
        return "\(lastText)"
    }

    mutating func deliver(_ limit: Int, _ script: EventScript) throws(DecoderProperty.Violation) {
        // Answers of answers wait for the next delivery.
        for index in ways.indices {
            let frames = Array(ways[index].frames.prefix(limit))
            ways[index].frames.removeFirst(frames.count)
            let (from, to) = (ways[index].from, ways[index].to)
            for frame in frames {
                hasFrames = true
                if seen.count < 64 { seen.append(frame) }
                routers[to].receive(frame[...], from: Self.link(to, from), now: script.now)
                try collect(to, script.now)
            }
        }
    }

    mutating func advance(_ script: EventScript) throws(DecoderProperty.Violation) {
        for index in routers.indices {
            guard let deadline = routers[index].deadline, deadline <= script.now.monotonic else { continue }
            routers[index].advance(to: script.now)
            try collect(index, script.now)
            try DecoderProperty.requireProgress(routers[index].deadline, script.now)
        }
    }

    private mutating func collect(_ index: Int, _ now: Moment) throws(DecoderProperty.Violation) {
        for event in routers[index].drainEvents() {
            switch event {
            case .privateMessage(let sender, let id, let text):
                try DecoderProperty.require(texts.contains(text), "a private message that nobody sent")
                routers[index].acknowledge(id, of: sender.id, now: now)
            case .publicMessage(_, _, let text, _):
                try DecoderProperty.require(texts.contains(text), "a public message that nobody signed")
            case .fileOffered(let offer, let peer): accepted[index].insert(MeshFileKey(offer.id, with: peer.id))
            case .fileReceived(let file):
                try DecoderProperty.require(files.contains(Array(file.file.content)), "a file that nobody sent")
            default: break
            }
        }
        var count = 0
        for way in ways.indices where ways[way].from == index {
            while let frame = routers[index].dequeueFrame(for: Self.link(index, ways[way].to)) {
                count += 1
                if ways[way].isUp { ways[way].frames.append(frame) }
            }
        }
        if index == 1 { while routers[1].dequeueFrame(for: Self.attackerLink) != nil { count += 1 } }
        try DecoderProperty.require(count <= Self.maximumFramesOfOneEvent, "\(count) frames after one event")
    }
}

// MARK: Bundles

private struct BundleLine {
    private struct Node {
        let keys: RouterKeys
        var router: BundleRouter
        var store: [BundleID: StoredBundle] = [:]
        var delivered: [(id: BundleID, expiry: WallTime)] = []
        /// Each node may receive a bundle once.
        var received: Set<BundleID> = []
    }

    private struct Way {
        let from: Int
        let to: Int
        var isUp = true
        var packets: [[UInt8]] = []
    }

    private static let attacker = EndpointID(rawValue: 0x0bad)
    /// The quotas of the settings, and the tables that they bound.
    private static let maximumByteCount = 16 << 20

    private(set) var hasPackets = false
    private var nodes: [Node] = []
    private var ways: [Way]
    private var seen: [[UInt8]] = []
    private var sent: Set<[UInt8]> = []
    private var random = SeededRandom(seed: 9)
    private var lastText = 0

    init() {
        ways = [(0, 1), (1, 0), (1, 2), (2, 1)].map { Way(from: $0.0, to: $0.1) }
        let now = EventScript([]).now
        for index in 0..<3 {
            let keys = Self.keys[index]
            let router = BundleRouter(keys: keys, random: SeededRandom(seed: UInt64(index)), now: now)
            nodes.append(Node(keys: keys, router: router))
        }
        for index in 0..<3 { try? bringUp(index, now) }
    }

    private static let keys = (0..<3).map { index in
        RouterKeys(
            agreementKey: try! AgreementPrivateKey(seed: [UInt8](repeating: UInt8(index + 1), count: 32)),
            signingKey: try! SigningPrivateKey(seed: [UInt8](repeating: UInt8(index + 4), count: 32)))
    }

    private mutating func bringUp(_ index: Int, _ now: Moment) throws(DecoderProperty.Violation) {
        for way in ways where way.from == index && way.isUp {
            nodes[index].router.neighbourUp(
                nodes[way.to].router.address, link: BundleLink(isRadio: false), now: now)
        }
        if index == 1 {
            nodes[1].router.neighbourUp(Self.attacker, link: BundleLink(isRadio: true), now: now)
        }
        try settle(index)
    }

    mutating func perform(_ event: Int, _ script: inout EventScript) throws(DecoderProperty.Violation) {
        let now = script.now
        switch event {
        case 0:
            let (node, other, kind) = (script.number(below: 3), script.number(below: 3), script.number(below: 4))
            try send(from: node, to: other, isSealed: kind < 2, isPrivate: kind % 2 == 1, now: now)
        case 1: try send(from: script.number(below: 3), to: nil, isSealed: false, isPrivate: false, now: now)
        case 2:
            let (node, other) = (script.number(below: 3), script.number(below: 3))
            let bundle = outgoing(from: node, to: other, isSealed: false, isPrivate: false, now: now)
            try? nodes[node].router.sendDirect(bundle, to: nodes[other].router.address, now: now)
            try settle(node)
        case 3: try deliver(script.number(below: 256), script)
        case 4:
            // Killed and started again: only the store remains.
            let index = script.number(below: 3)
            for way in ways.indices where ways[way].from == index || ways[way].to == index { ways[way].packets = [] }
            for way in ways where way.to == index {
                nodes[way.from].router.neighbourDown(nodes[index].router.address, now: now)
                try settle(way.from)
            }
            nodes[index].router = BundleRouter(
                keys: nodes[index].keys, random: SeededRandom(seed: random.next()), now: now)
            nodes[index].router.restore(
                nodes[index].store.values.sorted { Hex.encode($0.id.bytes) < Hex.encode($1.id.bytes) },
                delivered: nodes[index].delivered, now: now)
            try settle(index)
            try bringUp(index, now)
            for way in ways where way.to == index { try bringUp(way.from, now) }
        case 5:
            // The untrusted neighbour repeats a packet, or changes it first.
            guard var packet = script.element(of: seen) else { break }
            if script.flag() { packet = script.altered(packet) }
            try receive(packet, from: Self.attacker, at: 1, now)
        case 6:
            let pair = script.number(below: 2) * 2
            for index in [pair, pair + 1] {
                let way = ways[index]
                ways[index].packets = []
                ways[index].isUp.toggle()
                if way.isUp {
                    nodes[way.from].router.neighbourDown(nodes[way.to].router.address, now: now)
                    try settle(way.from)
                } else {
                    try bringUp(way.from, now)
                }
            }
        default:
            script.elapse()
            try advance(script)
        }
    }

    private mutating func outgoing(
        from node: Int, to other: Int?, isSealed: Bool, isPrivate: Bool, now: Moment
    ) -> OutgoingBundle {
        lastText += 1
        let content = (try? BundleContent.structured(.string("\(lastText)")).encoded()) ?? []
        sent.insert(content)
        return OutgoingBundle(
            content, from: nodes[node].keys, to: other.map { nodes[$0].keys.publicKeys }, isSealed: isSealed,
            isPrivate: isPrivate, profile: .standard, created: now.wall, random: &random)
    }

    private mutating func send(
        from node: Int, to other: Int?, isSealed: Bool, isPrivate: Bool, now: Moment
    ) throws(DecoderProperty.Violation) {
        let bundle = outgoing(from: node, to: other, isSealed: isSealed, isPrivate: isPrivate, now: now)
        try? nodes[node].router.send(bundle, now: now)
        try settle(node)
    }

    mutating func deliver(_ limit: Int, _ script: EventScript) throws(DecoderProperty.Violation) {
        for index in ways.indices {
            let packets = Array(ways[index].packets.prefix(limit))
            ways[index].packets.removeFirst(packets.count)
            for packet in packets {
                hasPackets = true
                if seen.count < 64 { seen.append(packet) }
                try receive(packet, from: nodes[ways[index].from].router.address, at: ways[index].to, script.now)
            }
        }
    }

    private mutating func receive(
        _ bytes: [UInt8], from neighbour: EndpointID, at index: Int, _ now: Moment
    ) throws(DecoderProperty.Violation) {
        guard let packet = try? BundlePacket(decoding: bytes[...]) else { return }
        nodes[index].router.receive(packet, from: neighbour, now: now)
        try settle(index)
    }

    mutating func advance(_ script: EventScript) throws(DecoderProperty.Violation) {
        for index in nodes.indices {
            nodes[index].router.advance(to: script.now)
            try settle(index)
            try DecoderProperty.requireProgress(nodes[index].router.deadline, script.now)
        }
    }

    private mutating func settle(_ index: Int) throws(DecoderProperty.Violation) {
        for reaction in nodes[index].router.drainReactions() {
            switch reaction {
            case .store(let bundle):
                let known = nodes[index].store.updateValue(bundle, forKey: bundle.id)
                try DecoderProperty.require(known == nil, "a bundle is stored twice")
            case .delete(let ids): for id in ids { nodes[index].store[id] = nil }
            case .recordDelivery(let id, let expiry): nodes[index].delivered.append((id, expiry))
            case .forward(let id, let to, let hopCount, let forwarding, let visitedTags):
                guard var copy = nodes[index].store[id]?.copy else {
                    throw DecoderProperty.Violation(description: "a bundle is forwarded that is not stored")
                }
                (copy.hopCount, copy.forwarding, copy.visitedTags) = (hopCount, forwarding, visitedTags)
                transmit(.copy(copy), from: index, to: to)
            case .send(let packet, let to): transmit(packet, from: index, to: to)
            case .emit(.received(let bundle)):
                try DecoderProperty.require(sent.contains(bundle.content), "a bundle that nobody sent is delivered")
                try DecoderProperty.require(
                    nodes[index].received.insert(bundle.id).inserted, "a bundle is delivered twice")
            case .emit: break
            }
        }
        let router = nodes[index].router
        try DecoderProperty.require(
            router.bundleCount == nodes[index].store.count, "\(router.bundleCount) bundles, \(nodes[index].store.count) stored")
        try DecoderProperty.require(router.byteCount <= Self.maximumByteCount, "\(router.byteCount) bytes of memory")
    }

    private mutating func transmit(_ packet: BundlePacket, from index: Int, to address: EndpointID) {
        for way in ways.indices where ways[way].from == index && nodes[ways[way].to].router.address == address && ways[way].isUp
        {
            ways[way].packets.append(packet.encoded)
        }
    }
}
