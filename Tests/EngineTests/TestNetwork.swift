import Logging
import NearshareBase
import NearshareCrypto
import NearshareInterfaces
import NearshareTCP
import NearshareTesting
import Testing

@testable import NearshareEngine

/// The nodes of one test and the connectivity between them: any pair can be separated, also during an operation.
final class TestNetwork: Sendable {
    private struct State {
        var owners: [UInt16: Int] = [:]
        var apart: Set<Set<Int>> = []
        /// The nodes that can no longer be reached.
        var isolated: Set<Int> = []
        /// The pairs whose connection attempts are held until released.
        var held: Set<Set<Int>> = []
        /// The pairs with a connection attempt in progress.
        var connecting: [Set<Int>] = []
        var links: [(pair: Set<Int>, link: WeakLink)] = []
    }

    private struct WeakLink {
        weak var link: (any StreamLink)?
    }

    private let state = Monitor(State())
    private let stage: Stage

    init(_ linkKind: LinkKind) {
        stage = Stage(linkKind)
    }

    static func identity(_ number: Int) -> LocalIdentity {
        LocalIdentity(seed: [UInt8](repeating: UInt8(number + 1), count: 64))
    }

    func id(_ number: Int) -> PeerID { Self.identity(number).peerID }

    func settings(_ number: Int) -> NodeSettings {
        var settings = stage.settings(Self.identity(number), "node \(number)")
        settings.transport = PartitionedTransport(number: number, inner: stage.transport, network: self)
        // All nodes share the loopback address, and many of a large session connect at the same time.
        settings.limits.linksPerAddress = 64
        return settings
    }

    func destination(_ number: Int, _ port: UInt16) -> PeerDestination { stage.destination(port, id: id(number)) }

    /// Separates the two nodes: new connections fail, and existing links break.
    func partition(_ one: Int, _ other: Int) {
        let broken = state.update { state in
            state.apart.insert([one, other])
            return state.links.filter { $0.pair == [one, other] }
        }
        for (_, link) in broken { link.link?.close() }
    }

    /// Breaks the links between the two nodes, which can connect again at once.
    func breakLinks(_ one: Int, _ other: Int) {
        let broken = state.withLock { state in state.links.filter { $0.pair == [one, other] } }
        for (_, link) in broken { link.link?.close() }
    }

    func heal(_ one: Int, _ other: Int) {
        state.update { _ = $0.apart.remove([one, other]) }
    }

    /// Ends all links of a node at once, as when its process is killed: no member says goodbye, and it can no longer be reached.
    func isolate(_ number: Int) {
        let broken = state.update { state in
            state.isolated.insert(number)
            return state.links.filter { $0.pair.contains(number) }
        }
        for (_, link) in broken { link.link?.close() }
    }

    func bringBack(_ number: Int) {
        state.update { _ = $0.isolated.remove(number) }
    }

    /// Holds new connection attempts between two nodes, in either direction, until ``letConnect(_:_:)`` or their timeout.
    func holdConnecting(_ one: Int, _ other: Int) {
        state.update { _ = $0.held.insert([one, other]) }
    }

    func letConnect(_ one: Int, _ other: Int) {
        state.update { _ = $0.held.remove([one, other]) }
    }

    /// Whether no connection attempt between the two nodes is in progress.
    func hasNoPendingConnection(_ one: Int, _ other: Int) -> Bool { !state.withLock { $0.connecting.contains([one, other]) } }

    /// The number of ports on which a node has listened.
    func portCount(of number: Int) -> Int { state.withLock { state in state.owners.values.count { $0 == number } } }

    fileprivate func begin(_ number: Int, to port: UInt16) {
        state.update { state in if let owner = state.owners[port] { state.connecting.append([number, owner]) } }
    }

    fileprivate func end(_ number: Int, to port: UInt16) {
        state.update { state in
            guard let owner = state.owners[port], let index = state.connecting.firstIndex(of: [number, owner]) else { return }
            state.connecting.remove(at: index)
        }
    }

    fileprivate func recordListener(onPort port: UInt16, of number: Int) {
        state.update { $0.owners[port] = number }
    }

    /// Waits while attempts between the two nodes are held.
    /// - Returns: whether a connection is possible; nil at the timeout.
    fileprivate func waitUntilConnectable(_ number: Int, to port: UInt16, timeout: Duration) -> Bool? {
        let deadline = (SystemClock.monotonic() + timeout).nanoseconds
        return state.wait(untilNanoseconds: deadline) { state in
            guard let owner = state.owners[port] else { return true }
            if state.apart.contains([number, owner]) || !state.isolated.isDisjoint(with: [number, owner]) { return false }
            return state.held.contains([number, owner]) ? nil : true
        }
    }

    fileprivate func keep(_ link: any StreamLink, _ number: Int, to port: UInt16) {
        let isClosed = state.update { state in
            guard let owner = state.owners[port] else { return false }
            state.links.removeAll { $0.link.link == nil }
            state.links.append(([number, owner], WeakLink(link: link)))
            return state.apart.contains([number, owner]) || !state.isolated.isDisjoint(with: [number, owner])
        }
        // Separated while it was being established.
        if isClosed { link.close() }
    }
}

// MARK: Sessions

extension TestNetwork {
    /// Every key is trusted, without a question.
    static let trusting: SessionSettings = {
        var settings = SessionSettings()
        settings.trust = .anyKey
        return settings
    }()

    /// Runs a session: node 0 creates it, all others accept. All are members when `body` runs.
    static func withSession(
        of count: Int, _ linkKind: LinkKind, apart: [(Int, Int)] = [], settings: SessionSettings = TestNetwork.trusting,
        adjust: @Sendable (Int, inout NodeSettings) -> Void = { _, _ in },
        _ body: @escaping @Sendable (TestNetwork, [Session]) async throws -> Void
    ) async throws {
        let network = TestNetwork(linkKind)
        for (one, other) in apart { network.partition(one, other) }
        try await gather(0, count, network, linkKind, settings, adjust, []) { ports, joined in
            try await body(network, joined)
        }
    }

    /// The nodes are nested scopes; the innermost call sends the invitations.
    private static func gather(
        _ number: Int, _ count: Int, _ network: TestNetwork, _ linkKind: LinkKind, _ settings: SessionSettings,
        _ adjust: @Sendable (Int, inout NodeSettings) -> Void, _ others: [(Node, Listener)],
        _ body: @escaping @Sendable ([UInt16], [Session]) async throws -> Void
    ) async throws {
        var nodeSettings = network.settings(number)
        adjust(number, &nodeSettings)
        try await withNode(nodeSettings) { node in
            let listener = try node.listen()
            let all = others + [(node, listener)]
            guard all.count == count else {
                return try await gather(number + 1, count, network, linkKind, settings, adjust, all, body)
            }
            let first = try all[0].0.startSession(settings)
            var sessions = [first]
            for (index, (_, listener)) in all.enumerated().dropFirst() {
                async let joined = listener.sessionInvitations.first { _ in true }?.accept(settings)
                let id = try await first.invite(network.destination(index, listener.port))
                #expect(id == network.id(index))
                sessions.append(try #require(await joined))
            }
            for session in sessions { try await session.waitUntilAllAreConnected(count - 1) }
            try await body(all.map(\.1.port), sessions)
            for session in sessions { await session.leave() }
        }
    }
}

private struct PartitionedTransport: StreamTransport {
    let number: Int
    let inner: any StreamTransport
    let network: TestNetwork

    func listen(port: UInt16, interface: String?) throws(LinkError) -> any StreamListener {
        let listener = try inner.listen(port: port, interface: interface)
        network.recordListener(onPort: listener.port, of: number)
        return listener
    }

    func connect(
        to address: LinkAddress, timeout: Duration, cancelledBy cancellation: EventFD?
    ) throws(LinkError) -> any StreamLink {
        network.begin(number, to: address.port)
        defer { network.end(number, to: address.port) }
        switch network.waitUntilConnectable(number, to: address.port, timeout: timeout) {
        case true?: break
        case false?: throw LinkError(.unreachable, "kept apart")
        case nil: throw LinkError(.timedOut, "held")
        }
        let link = try inner.connect(to: address, timeout: timeout, cancelledBy: cancellation)
        network.keep(link, number, to: address.port)
        return link
    }
}
