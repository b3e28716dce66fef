import Logging
import NearshareBase
import NearshareBundles
import NearshareInterfaces
import NearshareMesh

@testable import NearshareEngine

/// The machines of one running node, put together as `MeshDriver` and `BundleDriver` do.
struct SimulatedProcess: Sendable {
    var mesh: MeshMachine
    var bundles: BundleMachine
    private var performer: CollectingPerformer

    init(_ mesh: MeshMachine, _ bundles: BundleMachine, store: InMemoryBundleStore) {
        self.mesh = mesh
        self.bundles = bundles
        performer = CollectingPerformer(store)
    }

    /// Performs the reactions of both machines until there are none.
    mutating func settle(_ node: inout SimulatedNodes.Node, now: Moment) {
        while mesh.hasReactions || bundles.hasReactions {
            for event in mesh.drainReactions().map(\.event) {
                node.meshEvents.append(event)
                switch event {
                case .peerChanged, .peerLost: bundles.setNeighbours(mesh.router.bundleNeighbours, now: now)
                case .bundlePacket(let bytes, let peer):
                    if !bundles.isNeighbour(peer) { bundles.setNeighbours(mesh.router.bundleNeighbours, now: now) }
                    if let packet = try? BundlePacket(decoding: bytes[...]) { bundles.receive(packet, from: peer, now: now) }
                case .privateMessage(let sender, let id, _): mesh.router.acknowledge(id, of: sender.id, now: now)
                default: break
                }
            }
            let reactions = bundles.drainReactions()
            for case .rejected(_, let reason) in reactions { node.rejections.append(reason) }
            let (events, packets) = performer.perform(
                reactions.compactMap { if case .perform(let reaction) = $0 { reaction } else { nil } })
            node.bundleEvents += events
            for (packet, endpoint, requiresSession) in packets {
                guard let peer = bundles.peer(endpoint) else { continue }
                if requiresSession {
                    mesh.router.sendSealedBundlePacket(packet.encoded, to: peer, now: now)
                } else {
                    mesh.router.sendBundlePacket(packet.encoded, to: peer, now: now)
                }
            }
        }
    }
}

/// A ``BundlePerformer`` whose output is collected.
///
/// Safe: a simulation has one thread.
final class CollectingPerformer: @unchecked Sendable {
    typealias Packet = (packet: BundlePacket, neighbour: EndpointID, requiresSession: Bool)

    private final class Output {
        var events: [BundleEvent] = []
        var packets: [Packet] = []
    }

    private let output = Output()
    private var performer: BundlePerformer

    init(_ store: InMemoryBundleStore) {
        performer = BundlePerformer(
            store: store, log: Logger(label: "simulation", factory: { _ in SwiftLogNoOpLogHandler() }),
            emit: { [output] in output.events.append($0) },
            send: { [output] in output.packets.append(($0, $1, $2)) })
    }

    func perform(_ reactions: [BundleReaction]) -> (events: [BundleEvent], packets: [Packet]) {
        performer.perform(reactions)
        defer { (output.events, output.packets) = ([], []) }
        return (output.events, output.packets)
    }
}
