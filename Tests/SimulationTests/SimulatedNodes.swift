import Logging
import NearshareBase
import NearshareBundles
import NearshareCrypto
import NearshareDirect
import NearshareInterfaces
import NearshareMesh
import NearshareTesting

@testable import NearshareEngine

/// Whole nodes on virtual time: the mesh, the bundles in it, and direct links, as the engine puts their machines together.
///
///     frames ─► MeshMachine ─► events ─► BundleMachine ─► reactions ─► BundlePerformer ─► store, packets in the mesh
struct SimulatedNodes: Simulation {
    enum Event {
        case frame([UInt8], line: Int)
        /// The end of a link that began on the other side.
        case end(line: Int)
        case bytes([UInt8], directLine: Int)
    }

    struct Node {
        let identity: LocalIdentity
        let name: DisplayName
        /// Outlives the process.
        let store = InMemoryBundleStore()
        /// nil while the node does not run.
        var process: SimulatedProcess?
        /// The events of all processes of this node.
        var meshEvents: [MeshEvent] = []
        var bundleEvents: [BundleEvent] = []
        var rejections: [BundleRejection] = []

        var contact: EndpointKeys {
            EndpointKeys(agreementKey: identity.agreementKey.publicKey, signingKey: identity.signingKey.publicKey)
        }
    }

    /// One direction of a link of the mesh.
    private struct MeshLine {
        let from: Int
        let to: Int
        let fromLink: MeshLinkID
        let toLink: MeshLinkID
        var isUp = true
        var line = SimulatedLine()
    }

    /// One direction of a direct link.
    private struct DirectLine {
        let from: Int
        let to: Int
        var line = SimulatedLine()
    }

    var timeline: Timeline<Event>
    var conditions = SimulatedLine.Conditions()
    private(set) var nodes: [Node] = []
    private var lines: [MeshLine] = []
    /// Ends of direct links, by the line that begins at them.
    private(set) var peers: [SimulatedPeer] = []
    private var directLines: [DirectLine] = []

    init(seed: UInt64) {
        timeline = Timeline(seed: seed)
    }

    // MARK: Nodes

    @discardableResult
    mutating func addNode(_ name: String) throws -> Int {
        nodes.append(
            Node(
                identity: LocalIdentity(seed: timeline.random.bytes(LocalIdentity.seedByteCount)),
                name: try DisplayName(name)))
        try start(nodes.count - 1)
        return nodes.count - 1
    }

    /// Starts a process with what the node's store has kept.
    mutating func start(_ number: Int) throws {
        let node = nodes[number]
        let moment = timeline.moment
        var mesh = MeshMachine(
            MeshRouter(
                identity: node.identity, name: node.name, random: SeededRandom(seed: timeline.random.next())))
        mesh.router.enableBundles(now: moment)
        var router = BundleRouter(
            keys: RouterKeys(node.identity), random: SeededRandom(seed: timeline.random.next()), now: moment)
        try router.restore(from: node.store, now: moment)
        nodes[number].process = SimulatedProcess(mesh, BundleMachine(router), store: node.store)
        settle(number)
    }

    /// Ends a process without a word, as `kill -9` does: only the store remains.
    mutating func kill(_ number: Int) {
        nodes[number].process = nil
        for index in lines.indices where lines[index].from == number { cut(line: index) }
    }

    /// Announces that the node leaves. Its process ends once the queued frames are out.
    mutating func leave(_ number: Int) {
        let moment = timeline.moment
        nodes[number].process?.mesh.leave(now: moment)
        nodes[number].process?.bundles.stop()
        settle(number)
    }

    func id(_ number: Int) -> PeerID { nodes[number].identity.peerID }

    /// Gives a node's router an input.
    @discardableResult
    mutating func mesh<Result>(_ number: Int, _ input: (inout MeshRouter, Moment) throws -> Result) rethrows -> Result? {
        defer { settle(number) }
        let moment = timeline.moment
        return try nodes[number].process.map { _ in try input(&nodes[number].process!.mesh.router, moment) }
    }

    // MARK: Links of the mesh

    /// - Returns: a number for ``cut(_:)``.
    @discardableResult
    mutating func connect(_ one: Int, _ other: Int, _ profile: MeshLinkProfile = .stream) -> Int? {
        let moment = timeline.moment
        guard let oneLink = nodes[one].process?.mesh.linkUp(profile, now: moment),
            let otherLink = nodes[other].process?.mesh.linkUp(profile, now: moment)
        else { return nil }
        lines.append(MeshLine(from: one, to: other, fromLink: oneLink, toLink: otherLink))
        lines.append(MeshLine(from: other, to: one, fromLink: otherLink, toLink: oneLink))
        settle(one)
        settle(other)
        return lines.count - 2
    }

    /// Breaks a link; both ends notice.
    mutating func cut(_ link: Int) { cut(line: link) }

    private mutating func cut(line: Int) {
        let moment = timeline.moment
        for index in [line, line ^ 1] where lines[index].isUp {
            lines[index].isUp = false
            nodes[lines[index].from].process?.mesh.linkDown(lines[index].fromLink, now: moment)
            settle(lines[index].from)
        }
    }

    // MARK: Bundles

    /// Sends a text that nodes store and forward.
    /// - Parameter receiver: nil for a broadcast.
    @discardableResult
    mutating func send(_ text: String, from number: Int, to receiver: Int?) throws -> BundleID {
        let bundle = OutgoingBundle(
            try BundleContent.structured(.string(text)).encoded(), from: RouterKeys(nodes[number].identity),
            to: receiver.map { nodes[$0].contact }, isSealed: receiver != nil, isPrivate: false, profile: .standard,
            created: timeline.moment.wall, random: &timeline.random)
        let moment = timeline.moment
        nodes[number].process?.bundles.send(PreparedBundle(bundle: bundle, neighbour: nil), now: moment)
        settle(number)
        return bundle.id
    }

    /// The texts that bundles have brought to a node.
    func texts(_ number: Int) -> [String] {
        nodes[number].bundleEvents.compactMap { event in
            guard case .received(let message) = event,
                case .structured(.string(let text))? = try? BundleContent(decoding: message.content[...])
            else { return nil }
            return text
        }
    }

    // MARK: Failures

    /// The story's seed and where it stands, for messages of failing tests.
    var summary: String {
        let states = nodes.map { node in
            guard let process = node.process else { return "\(node.name.shown): does not run" }
            return """
                \(node.name.shown): knows \(process.mesh.router.announcedPeers.map(\.name.shown)), \
                \(process.bundles.router.neighbourCount) neighbours for bundles, stores \(node.store.bundles().count)
                """
        }
        return "seed \(timeline.seed), after \(now.nanoseconds / 1_000_000) ms: " + states.joined(separator: "; ")
    }

    // MARK: Direct links

    /// Connects two nodes directly.
    /// - Returns: the numbers of both ends in ``peers``, the initiator's first.
    mutating func connectDirectly(_ one: Int, _ other: Int) -> (initiator: Int, responder: Int) {
        let first = peers.count
        for (role, from, to) in [(HandshakeRole.initiator, one, other), (.responder, other, one)] {
            peers.append(
                SimulatedPeer(
                    role: role, identity: nodes[from].identity, name: nodes[from].name, limits: DirectLimits(),
                    random: &timeline.random))
            directLines.append(DirectLine(from: from, to: to))
        }
        transmit(from: first)
        return (first, first + 1)
    }

    /// Gives one end of a direct link an input.
    mutating func peer(_ number: Int, _ input: (inout SimulatedPeer, MonotonicInstant) -> Void) {
        input(&peers[number], now)
        transmit(from: number)
    }

    private mutating func transmit(from number: Int) {
        let bytes = peers[number].drainOutput(now: now).bytes
        // A stream loses nothing.
        var conditions = conditions
        conditions.lossOneIn = 0
        if !bytes.isEmpty {
            directLines[number].line.send(.bytes(bytes, directLine: number), conditions, on: &timeline)
        }
    }

    // MARK: Simulation

    var deadline: MonotonicInstant? {
        let machines = nodes.compactMap(\.process).flatMap { [$0.mesh.deadline, $0.bundles.deadline] }
        return (machines + peers.map(\.deadline)).compactMap(\.self).min()
    }

    mutating func handle(_ event: Event) {
        switch event {
        case .frame(let frame, let index):
            let line = lines[index]
            let moment = timeline.moment
            guard line.isUp else { return }
            nodes[line.to].process?.mesh.router.receive(frame[...], from: line.toLink, now: moment)
            settle(line.to)
        case .end(let index): cut(line: index)
        case .bytes(let bytes, let index):
            peers[index ^ 1].receive(bytes, now: now)
            transmit(from: index ^ 1)
        }
    }

    mutating func advanceMachines() {
        let moment = timeline.moment
        for number in nodes.indices {
            guard var process = nodes[number].process.take() else { continue }
            let isAdvanced = [advance(&process.mesh, to: moment), advance(&process.bundles, to: moment)]
            nodes[number].process = process
            if isAdvanced.contains(true) { settle(number) }
        }
        for number in peers.indices {
            guard let deadline = peers[number].deadline, deadline <= now else { continue }
            peers[number].advance(to: now)
            transmit(from: number)
        }
    }

    /// Performs the reactions of a node's machines, and writes the frames that its router has for its links.
    private mutating func settle(_ number: Int) {
        // Removed meanwhile, so that its tables are not copied.
        guard var process = nodes[number].process.take() else { return }
        let moment = timeline.moment
        process.settle(&nodes[number], now: moment)
        for index in lines.indices where lines[index].from == number && lines[index].isUp {
            while let frame = process.mesh.router.dequeueFrame(for: lines[index].fromLink) {
                lines[index].line.send(.frame(frame, line: index), conditions, on: &timeline)
            }
        }
        if process.mesh.isLeaving { end(&process, number) }
        if !process.mesh.isFinished { nodes[number].process = process }
    }

    /// Ends the links of a node that leaves, after the last frames.
    private mutating func end(_ process: inout SimulatedProcess, _ number: Int) {
        var reliable = conditions
        reliable.lossOneIn = 0
        for index in lines.indices where lines[index].from == number && lines[index].isUp {
            process.mesh.linkDown(lines[index].fromLink, now: timeline.moment)
            lines[index].line.send(.end(line: index), reliable, on: &timeline)
        }
    }
}
