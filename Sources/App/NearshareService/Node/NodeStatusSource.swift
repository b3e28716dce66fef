internal import Glibc
internal import Nearshare
internal import NearshareBundles
internal import NearshareMesh
internal import Synchronization

/// The status of a running node, as `nearshare mesh status` shows it.
final class NodeStatusSource: Sendable {
    private let node: Node
    private let messenger: Messenger
    private let contacts: ContactDirectory
    private let properties: NodeService.Properties
    private let started = SystemClock.monotonic()
    private let bluetooth = Mutex(NodeStatus.Bluetooth.starting)

    init(node: Node, messenger: Messenger, contacts: ContactDirectory, properties: NodeService.Properties) {
        (self.node, self.messenger, self.contacts, self.properties) = (node, messenger, contacts, properties)
    }

    /// Waits until it is known whether the radio can be used.
    func followRadio(of listener: Listener) async {
        guard node.hasRadio else { return bluetooth.withLock { $0 = .notUsed } }
        switch await listener.radio {
        case .on(let channel)?: bluetooth.withLock { $0 = .on(channel: channel) }
        case .unavailable(let reason)?: bluetooth.withLock { $0 = .unavailable(reason: reason) }
        case nil: break
        }
    }

    /// Reads the current status.
    func current() throws -> NodeStatus {
        let snapshot = try contacts.snapshot()
        let now = SystemClock.monotonic()
        let neighbours = messenger.peers.filter(\.isReachable).map { peer in
            NodeStatus.Neighbour(
                contact: snapshot.contact(peer.id), isDirect: peer.isDirect,
                signal: messenger.signal(of: peer.id).map { NodeStatus.Signal($0, at: now) })
        }
        return NodeStatus(
            id: node.id, name: node.name, process: getpid(),
            uptime: Int((now - started).components.seconds), isDaemon: properties.purpose == .daemon,
            profile: NodeStatus.Profile(messenger.settings.profile, name: properties.profileName), port: properties.port,
            neighbours: neighbours.sorted { $0.contact.name.claimed < $1.contact.name.claimed },
            storedBundleCount: messenger.storedBundleCount, sessionLifetime: Int(node.sessionLifetime.components.seconds),
            secureSessions: messenger.secureSessions, bluetooth: bluetooth.withLock { $0 }, inbox: properties.inbox)
    }
}
