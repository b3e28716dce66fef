import NearshareBase
package import NearshareBundles
import NearshareCrypto
import NearshareTesting
import Synchronization

/// Many routers on virtual time, in one thread: the product's own ``BundleRouter``, with links that lose packets and nodes that
/// walk. Deterministic for a seed.
package struct BundleSimulation {
    package struct Scenario: Sendable {
        package var name: String
        package var count: Int
        package var degree: Double
        package var motion: Landscape.Motion
        package var profile: PropagationProfile
        /// Share of lost packets; 0 for reliable links.
        package var loss: Double
        /// Bundles for one endpoint and for everyone, sent one by one between ``warmUp`` and ``lastSent`` (seconds).
        package var messageCount: Int
        package var broadcastCount: Int
        package var warmUp: Double
        package var lastSent: Double
        package var duration: Double
        package var seed: UInt64
        /// Share of nodes that are attackers.
        package var hostileShare: Double
        package var attack: Attack
        /// Seconds between two made-up bundles of an attacker; nil for none.
        package var floodInterval: Double?

        package init(
            _ name: String, count: Int, degree: Double, motion: Landscape.Motion, profile: PropagationProfile,
            loss: Double, messageCount: Int, broadcastCount: Int, warmUp: Double = 600, lastSent: Double = 1_800,
            duration: Double = 3_600, seed: UInt64 = 1, hostileShare: Double = 0, attack: Attack = .lies,
            floodInterval: Double? = nil
        ) {
            self.name = name
            self.count = count
            self.degree = degree
            self.motion = motion
            self.profile = profile
            self.loss = loss
            self.messageCount = messageCount
            self.broadcastCount = broadcastCount
            self.warmUp = warmUp
            self.lastSent = lastSent
            self.duration = duration
            self.seed = seed
            self.hostileShare = hostileShare
            self.attack = attack
            self.floodInterval = floodInterval
        }
    }

    package enum Attack: Sendable {
        /// ``HostileNode``.
        case lies
        /// The product's router, which takes part in the tree, confirms what it receives, and forwards nothing.
        case drops
    }

    /// By reference, so that the queue moves events without copying packets.
    private final class Packet {
        let content: BundlePacket

        init(_ content: BundlePacket) {
            self.content = content
        }
    }

    private enum Event {
        case packet(Packet, from: Int32, to: Int32)
        case wake(Int32)
        case send(Int32, to: Int32?)
        case step
        /// An attacker makes up an epoch, or a bundle.
        case epoch(Int32)
        case flood(Int32)
    }

    /// The course of one bundle.
    struct Course {
        var yardstick: Yardstick
        let id: BundleID
        var deliveries: [Int32: Double] = [:]
        var acknowledgedAt: Double?
        var copyCount = 0
        var acknowledgementCount = 0
    }

    package let scenario: Scenario
    var landscape: Landscape
    /// Never copied, and not freed before the process ends.
    let routers: UnsafeMutableBufferPointer<BundleRouter>
    private(set) var courses: [Course] = []
    private(set) var reportCount = 0
    private(set) var receiptCount = 0
    private(set) var controlByteCount = 0
    private(set) var messageByteCount = 0
    private(set) var encounterCount = 0
    /// Transmissions of bundles that attackers made up, by honest nodes.
    private(set) var junkCount = 0
    /// The attackers, by number.
    private var hostile: [Int: HostileNode] = [:]
    /// The attackers that have a router.
    private var droppers: Set<Int> = []
    private var keys: [RouterKeys] = []
    private var addresses: [EndpointID] = []
    private var numbers: [EndpointID: Int32] = [:]
    private var wakes: [Int64]
    private var bundles: [BundleID: (bundle: Bundle, signature: [UInt8], byteCount: Int)] = [:]
    /// The course of each bundle, and of each acknowledgement.
    private var courseOf: [BundleID: (course: Int, isAcknowledgement: Bool)] = [:]
    private var queue = EventQueue<Event>()
    private var random: SeededRandom
    private var now: Int64 = 0

    private static let start: Int64 = 1_800_000_000_000
    private static let step: Double = 1

    package init(_ scenario: Scenario) {
        self.scenario = scenario
        random = SeededRandom(seed: scenario.seed)
        landscape = Landscape(
            count: scenario.count, degree: scenario.degree, motion: scenario.motion, seed: scenario.seed)
        wakes = Array(repeating: .max, count: scenario.count)
        let checks = SignatureChecks()
        var settings = BundleRouterSettings()
        settings.profile = scenario.profile
        settings.isSigned = { copy, id in checks.isSigned(copy, id) }
        routers = .allocate(capacity: scenario.count)
        for number in 0..<scenario.count {
            let pair = RouterKeys.random(using: &random)
            keys.append(pair)
            routers.initializeElement(
                at: number,
                to: BundleRouter(keys: pair, settings: settings, random: SeededRandom(seed: random.next()), now: moment))
            addresses.append(pair.publicKeys.address)
            numbers[pair.publicKeys.address] = Int32(number)
        }
        let hostileCount = Int((Double(scenario.count) * scenario.hostileShare).rounded())
        guard hostileCount > 0 else { return }
        for number in (0..<scenario.count).shuffled(using: &random).prefix(hostileCount) {
            guard scenario.attack == .lies else {
                droppers.insert(number)
                continue
            }
            hostile[number] = HostileNode(
                keys: keys[number], profile: scenario.profile, endpoints: addresses, seed: random.next())
        }
    }

    /// Whether a node is no attacker.
    func isHonest(_ number: Int) -> Bool { hostile[number] == nil && !droppers.contains(number) }

    private func hasRouter(_ number: Int) -> Bool { hostile[number] == nil }

    /// The links between honest nodes, over which a bundle can travel.
    private var honestNeighbours: [[Int32]] {
        guard scenario.hostileShare > 0 else { return landscape.neighbours }
        return landscape.neighbours.enumerated().map { number, others in
            isHonest(number) ? others.filter { isHonest(Int($0)) } : []
        }
    }

    private var moment: Moment {
        Moment(
            monotonic: MonotonicInstant(nanoseconds: now + 1_000_000_000),
            wall: WallTime(milliseconds: Self.start + now / 1_000_000))
    }

    private var seconds: Double { Double(now) / 1e9 }

    // MARK: Running

    public mutating func run() -> BundleOutcome {
        let began = ContinuousClock.now
        for (a, others) in landscape.neighbours.enumerated() {
            for b in others where b > a { linkUp(a, Int(b)) }
        }
        plan()
        if case .waypoint = scenario.motion { queue.insert(.step, at: Int64(Self.step * 1e9)) }
        let end = Int64(scenario.duration * 1e9)
        var peak = 0
        var nextMeasure: Int64 = 0
        while let at = queue.nextTime, at <= end {
            let (at, event) = queue.removeMin()
            now = at
            if at >= nextMeasure {
                peak = max(peak, routers.lazy.map(\.byteCount).max() ?? 0)
                nextMeasure = at + 60_000_000_000
            }
            switch event {
            case .packet(let packet, let from, let to): deliver(packet.content, from: Int(from), to: Int(to))
            case .wake(let number): wake(Int(number), at: at)
            case .send(let from, let to): send(from: Int(from), to: to.map(Int.init))
            case .step: step()
            case .epoch(let number): beginEpoch(Int(number))
            case .flood(let number): flood(Int(number))
            }
        }
        return BundleOutcome(self, peakByteCount: peak, took: ContinuousClock.now - began)
    }

    private mutating func plan() {
        func moment() -> Int64 { Int64(Double.random(in: scenario.warmUp...scenario.lastSent, using: &random) * 1e9) }
        func honestNode() -> Int32 {
            while true {
                let number = Int32.random(in: 0..<Int32(scenario.count), using: &random)
                if isHonest(Int(number)) { return number }
            }
        }
        for number in hostile.keys.sorted() {
            queue.insert(.epoch(Int32(number)), at: Int64.random(in: 0..<Self.hostileEpoch, using: &random))
            guard let interval = scenario.floodInterval else { continue }
            queue.insert(.flood(Int32(number)), at: Int64.random(in: 0..<Int64(interval * 1e9), using: &random))
        }
        for _ in 0..<scenario.messageCount {
            let from = honestNode()
            var to = from
            while to == from { to = honestNode() }
            queue.insert(.send(from, to: to), at: moment())
        }
        for _ in 0..<scenario.broadcastCount {
            queue.insert(.send(honestNode(), to: nil), at: moment())
        }
    }

    private mutating func step() {
        let (up, down) = landscape.move(to: Float(seconds), step: Float(Self.step))
        for (a, b) in down { linkDown(a, b) }
        for (a, b) in up { linkUp(a, b) }
        queue.insert(.step, at: now + Int64(Self.step * 1e9))
    }

    private mutating func linkUp(_ a: Int, _ b: Int) {
        encounterCount += 1
        if isHonest(a), isHonest(b), !courses.isEmpty {
            let neighbours = honestNeighbours
            for index in courses.indices { courses[index].yardstick.linkUp(a, b, now: seconds, in: neighbours) }
        }
        let link = BundleLink(isRadio: false)
        for (number, other) in [(a, b), (b, a)] where hasRouter(number) {
            routers[number].neighbourUp(addresses[other], link: link, now: moment)
        }
        for (number, other) in [(a, b), (b, a)] {
            if let answer = hostile[number]?.neighbourUp(addresses[other]) { writeAll(answer, from: number) }
            settle(number)
        }
    }

    private mutating func linkDown(_ a: Int, _ b: Int) {
        for (number, other) in [(a, b), (b, a)] {
            if hasRouter(number) { routers[number].neighbourDown(addresses[other], now: moment) }
            hostile[number]?.neighbourDown(addresses[other])
        }
        settle(a)
        settle(b)
    }

    // MARK: Attackers

    private mutating func beginEpoch(_ number: Int) {
        writeAll(hostile[number]?.beginEpoch() ?? [], from: number)
        queue.insert(.epoch(Int32(number)), at: now + Self.hostileEpoch)
    }

    private mutating func flood(_ number: Int) {
        guard let interval = scenario.floodInterval else { return }
        let created = moment.wall
        writeAll(hostile[number]?.flood(now: created) ?? [], from: number)
        queue.insert(.flood(Int32(number)), at: now + Int64(interval * 1e9))
    }

    private mutating func writeAll(_ outgoing: HostileNode.Outgoing, from number: Int) {
        for (packet, to) in outgoing { write(packet, from: number, to: to) }
    }

    /// Nanoseconds.
    private static let hostileEpoch: Int64 = 5_000_000_000

    private mutating func wake(_ number: Int, at: Int64) {
        guard wakes[number] == at else { return }
        wakes[number] = .max
        routers[number].advance(to: moment)
        settle(number)
    }

    private mutating func deliver(_ packet: BundlePacket, from: Int, to: Int) {
        // Out of range by now.
        guard landscape.neighbours[from].contains(Int32(to)) else { return }
        if let answer = hostile[to]?.receive(packet, from: addresses[from]) { return writeAll(answer, from: to) }
        routers[to].receive(packet, from: addresses[from], now: moment)
        settle(to)
    }

    private mutating func send(from: Int, to: Int?) {
        let content = try! BundleContent.structured(.string("hello, number \(courses.count)")).encoded()
        let message = OutgoingBundle(
            content, from: keys[from], to: to.map { keys[$0].publicKeys }, isSealed: to != nil, isPrivate: false,
            profile: scenario.profile, created: moment.wall, random: &random)
        courseOf[message.id] = (courses.count, false)
        courses.append(
            Course(
                yardstick: Yardstick(
                    source: from, receiver: to, created: seconds,
                    timeToLive: min(Double(scenario.profile.timeToLiveSeconds), scenario.duration - seconds),
                    hopLimit: scenario.profile.hopLimit, in: honestNeighbours),
                id: message.id))
        try! routers[from].send(message, now: moment)
        settle(from)
    }

    /// Performs a router's reactions, and schedules its next deadline.
    private mutating func settle(_ number: Int) {
        guard hasRouter(number) else { return }
        for reaction in routers[number].drainReactions() {
            switch reaction {
            case .store(let stored):
                let bundle = stored.copy.bundle
                guard bundles[stored.id] == nil else { continue }
                bundles[stored.id] = (bundle, stored.copy.signature, bundle.encoded.count)
                if bundle.kind == .acknowledgement, let body = try? BundleAcknowledgement(decoding: bundle.body),
                    let course = courseOf[body.id]
                {
                    courseOf[stored.id] = (course.course, true)
                }
            case .delete, .recordDelivery: continue
            case .forward(let id, let to, let hopCount, let forwarding, let visitedTags):
                if droppers.contains(number) { continue }
                guard let stored = bundles[id] else { preconditionFailure("forwarded without having been stored") }
                let copy = BundleCopy(
                    hopCount: hopCount, forwarding: forwarding, visitedTags: visitedTags, bundle: stored.bundle,
                    signature: stored.signature)
                switch courseOf[id] {
                case (let course, isAcknowledgement: true)?: courses[course].acknowledgementCount += 1
                case (let course, isAcknowledgement: false)?: courses[course].copyCount += 1
                // An attacker made it up.
                case nil: junkCount += 1
                }
                messageByteCount += stored.byteCount + 4 * visitedTags.count + 100
                write(.copy(copy), from: number, to: to)
            case .send(let packet, let to):
                switch packet {
                case .report(let report):
                    reportCount += 1
                    controlByteCount +=
                        48 + (report.summary.map { 14 + $0.filter.bytes.count } ?? 0)
                        + (report.reachability.map { 2 + $0.bytes.count } ?? 0)
                case .receipt(let ids):
                    receiptCount += 1
                    controlByteCount += 32 + 8 * ids.count
                case .copy: break
                }
                write(packet, from: number, to: to)
            case .emit(.received(let delivered)):
                guard let course = courseOf[delivered.id]?.course else { continue }
                precondition(courses[course].deliveries[Int32(number)] == nil, "delivered twice")
                courses[course].deliveries[Int32(number)] = seconds
            case .emit(.delivered(let id)):
                if let course = courseOf[id]?.course { courses[course].acknowledgedAt = seconds }
            case .emit: continue
            }
        }
        guard let deadline = routers[number].deadline else { return }
        let at = max(now, deadline.nanoseconds - 1_000_000_000)
        guard at < wakes[number] else { return }
        wakes[number] = at
        queue.insert(.wake(Int32(number)), at: at)
    }

    private mutating func write(_ packet: BundlePacket, from: Int, to: EndpointID) {
        if scenario.loss > 0, Double.random(in: 0..<1, using: &random) < scenario.loss { return }
        let delay = Int64.random(in: 10_000_000...50_000_000, using: &random)
        guard let number = numbers[to] else { preconditionFailure("sent to an unknown node") }
        queue.insert(.packet(Packet(packet), from: Int32(from), to: number), at: now + delay)
    }
}

/// Checks each signature once in the process.
private final class SignatureChecks: Sendable {
    private let checked = Mutex<[BundleID: [UInt8]]>([:])

    func isSigned(_ copy: BundleCopy, _ id: BundleID) -> Bool {
        checked.withLock { checked in
            if let signature = checked[id] { return signature == copy.signature }
            guard copy.bundle.isValid(copy.signature) else { return false }
            checked[id] = copy.signature
            return true
        }
    }
}
