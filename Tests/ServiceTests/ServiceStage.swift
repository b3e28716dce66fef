import Logging
import Nearshare
import NearshareInterfaces
import NearshareTesting
import Synchronization

@testable import NearshareService

/// A network in memory that the users of one test share: links without sockets, discovery without multicast.
final class ServiceStage: Sendable {
    let transport = StoryResources.counted(InMemoryTransport())
    let segment = InMemorySegment()
    private let hostCount = Atomic(0)

    /// A user with files and a host of their own.
    func user(_ name: String) throws -> StageUser {
        let (_, number) = hostCount.add(1, ordering: .relaxed)
        return try StageUser(name, host: "10.0.0.\(number)", on: self)
    }
}

/// One user of a ``ServiceStage``.
final class StageUser: Sendable {
    let scratch = ScratchFolder()
    let machine: LocalMachine
    let name: DisplayName
    let identity: LocalIdentity
    let host: String
    private let stage: ServiceStage

    fileprivate init(_ name: String, host: String, on stage: ServiceStage) throws {
        machine = try LocalMachine(environment: [
            "HOME": scratch("home"), "XDG_STATE_HOME": scratch("state"), "XDG_CONFIG_HOME": scratch("config"),
            "XDG_RUNTIME_DIR": scratch("run"),
        ])
        self.name = try DisplayName(name)
        identity = try machine.state.identity()
        self.host = host
        self.stage = stage
    }

    var id: PeerID { identity.peerID }
    var fingerprint: Fingerprint { identity.fingerprint }
    var discovery: any Discovery { stage.segment.join(host: host) }

    /// The settings of a node that leaves this process in no way.
    func settings() throws -> NodeSettings {
        var settings = try machine.nodeSettings(
            name: name, discovery: discovery, log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        settings.transport = stage.transport
        settings.datagrams = nil
        return settings
    }

    /// Makes this user know a key by a name that no other peer can claim.
    func introduce(_ fingerprint: Fingerprint, as name: String, isFriend: Bool = false) throws {
        let name = try DisplayName(name)
        try machine.trust.update { trust in
            _ = trust.introduce(fingerprint, claiming: name, as: name, at: WallTime(milliseconds: 1))
            trust.setFriend(fingerprint, to: isFriend)
        }
    }

    /// Records that this user has accepted the keys of others under the names that they claim.
    func meet(_ peers: [StageUser]) throws {
        for peer in peers {
            try introduce(peer.fingerprint, as: peer.name.claimed)
            try machine.trust.update { _ = $0.rename(peer.fingerprint, to: nil) }
        }
    }

    /// The trust in a key.
    func trust(in fingerprint: Fingerprint) throws -> TrustLevel? { try machine.trust.read()[fingerprint]?.trust }

    /// Runs a node that listens and answers each invitation, until `body` returns.
    func listening<Result: Sendable>(
        answer: @escaping @Sendable (Invitation) async -> Void, _ body: @Sendable (Listener) async throws -> Result
    ) async throws -> Result {
        try await withNode(try settings()) { node in
            let listener = try node.listen(joinsMesh: false)
            return try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    await withDiscardingTaskGroup { answers in
                        for await invitation in listener.invitations { answers.addTask { await answer(invitation) } }
                    }
                }
                defer { node.beginShutdown() }
                return try await body(listener)
            }
        }
    }

    /// The way to this user's node.
    func destination(_ listener: Listener) -> PeerDestination {
        PeerDestination(addresses: [LinkAddress(host: host, port: listener.port)], id: id, name: name)
    }
}

/// Records all events of an operation, and lets one task wait for them in order.
final class EventRecorder: Reporter {
    private let recorded = Mutex<[OperationEvent]>([])
    private let stream: AsyncStream<OperationEvent>
    private let sink: AsyncStream<OperationEvent>.Continuation

    init() {
        (stream, sink) = AsyncStream.makeStream()
    }

    func report(_ event: OperationEvent) {
        recorded.withLock { $0.append(event) }
        sink.yield(event)
    }

    /// Waits for the next event of which `select` makes a value.
    func next<Value: Sendable>(_ select: (OperationEvent) -> Value?) async -> Value? {
        for await event in stream { if let value = select(event) { return value } }
        return nil
    }

    var events: [OperationEvent] { recorded.withLock { $0 } }

    /// All events but progress, each by its name.
    var names: [String] {
        events.compactMap { event in
            if case .progress = event { nil } else { Mirror(reflecting: event).children.first?.label ?? "\(event)" }
        }
    }

    var notices: [String] {
        events.compactMap { event in
            switch event {
            case .notice(let line), .goesOn(let line, _): line
            case .hotspot(let step): step.sentence
            default: nil
            }
        }
    }
    var hotspotSteps: [HotspotStep] { events.compactMap { if case .hotspot(let step) = $0 { step } else { nil } } }
    var warnings: [String] { events.compactMap { if case .warning(let line) = $0 { line } else { nil } } }
    var sent: [SendResult] { events.compactMap { if case .sent(let result) = $0 { result } else { nil } } }
    var ended: [ReceiveResult] { events.compactMap { if case .receiveEnded(let result) = $0 { result } else { nil } } }
    var invitations: [OutgoingInvitation] { events.compactMap { if case .inviting(let one) = $0 { one } else { nil } } }
    var digits: [ShortAuthenticationDigits] {
        events.compactMap { if case .authenticationDigits(_, _, let digits, _) = $0 { digits } else { nil } }
    }
    var found: [PeerID] { events.compactMap { if case .found(let id, _, _) = $0 { id } else { nil } } }
}

/// The failure of an operation; nil for success.
func caughtFailure(_ body: () async throws -> Void) async -> CommandFailure? {
    do {
        try await body()
        return nil
    } catch {
        return CommandFailure(error)
    }
}
