internal import NearshareBase
internal import NearshareInterfaces
internal import NearshareMesh

/// The peers of the mesh, as operations that wait for one see them.
final class MeshPeers: Sendable {
    private let router: RouterDriver
    private let clock: @Sendable () -> MonotonicInstant
    private let changes = Broadcast<PeerID>()
    /// The same changes, for consumers whose work grows with the number of peers.
    private let collectedChanges: ChangeCollector<PeerID>

    init(_ router: RouterDriver, clock: @escaping @Sendable () -> MonotonicInstant) {
        (self.router, self.clock) = (router, clock)
        collectedChanges = ChangeCollector(clock: clock)
    }

    /// All peers that have announced themselves: neighbours, and peers behind relays.
    var all: [MeshPeer] { router.read { $0.announcedPeers } }

    // MARK: Changes

    /// Records that a peer appeared, changed or left.
    func recordChange(of id: PeerID) {
        changes.publish(id)
        collectedChanges.insert(id)
    }

    /// Passes changes to a handler, several at once when they are frequent, until ``finishChanges()``.
    func runChanges(_ handle: (Set<PeerID>) async -> Void) async { await collectedChanges.run(handle) }

    /// Ends ``runChanges(_:)`` after the changes that wait.
    func finishChanges() { collectedChanges.finish() }

    // MARK: Waiting

    /// Waits for the peer that `text` selects: an id, a name, or the beginning of one.
    /// - Parameter settlingTime: for other peers to appear before a name is decided, where that is longer than the usual time.
    /// - Throws: ``NodeError``; `CancellationError`.
    func find(
        _ text: String, knownAs ids: Set<PeerID>, settlingTime: Duration, timeout: Duration
    ) async throws -> MeshPeer {
        // Subscribed before the peers are read, so that no change is lost between the two.
        let changes = changes.subscribe()
        let finder = PeerFinder(text: text, knownAs: ids, settlingTime: settlingTime, clock: clock)
        for peer in all { finder.receive(.present(Self.nearby(peer))) }
        let found = try await finder.find(before: clock() + timeout) { update in
            for await id in changes {
                update(self.router.read { $0.peer(id) }.map { .present(Self.nearby($0)) } ?? .absent(id))
            }
        }
        // The peer may have just left.
        guard let peer = router.read({ $0.peer(found.id) }) else { throw NodeError.notFound(text, nearby: []) }
        return peer
    }

    private static func nearby(_ peer: MeshPeer) -> NearbyPeer { NearbyPeer(id: peer.id, name: peer.name, addresses: []) }

    /// Waits until there is a neighbour to which something for everyone can be sent.
    /// - Returns: false at the timeout.
    func awaitNeighbour(timeout: Duration) async -> Bool {
        let changes = changes.subscribe()
        let isLinked: @Sendable () -> Bool = { self.all.contains(where: \.isDirect) }
        if isLinked() { return true }
        let isFound = await withTimeout(timeout) {
            for await _ in changes where isLinked() { return true }
            return false
        }
        return isFound ?? false
    }
}
