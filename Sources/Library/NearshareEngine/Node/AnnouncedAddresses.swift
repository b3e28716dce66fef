internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

/// The addresses at which a peer is announced on the network, read one by one while a connection to it is attempted. Any host can
/// announce the peer's id (D1): its own address may come after others, and beyond those that ``NearbyPeerTable`` keeps for it.
final class AnnouncedAddresses: Sendable {
    private struct State {
        /// nil before the first address is asked for.
        var events: AsyncThrowingStream<DiscoveryEvent, any Error>?
        var addresses: Set<LinkAddress> = []
    }

    /// Limit on the addresses (R6).
    static let maximumCount = 64

    private let node: Node
    private let id: PeerID
    private let state = Mutex(State())

    init(of id: PeerID, on node: Node) {
        (self.id, self.node) = (id, node)
    }

    /// Waits for an address that was not returned before. Browsing begins with the first call; one call waits at a time.
    /// - Returns: nil when there are no more, or too many, and when the task is cancelled.
    func next() async -> LinkAddress? {
        do {
            var iterator = try await openEvents().makeAsyncIterator()
            while let event = try await iterator.next() {
                guard case .seen(let seen) = event, seen.certificate == nil, seen.address.medium == .network,
                    PeerTXTRecord(strings: seen.txt)?.id == id
                else { continue }
                let (isNew, count) = state.withLock { ($0.addresses.insert(seen.address).inserted, $0.addresses.count) }
                if count > Self.maximumCount { return nil }
                if isNew { return seen.address }
            }
        } catch {
            node.settings.log.debug("no further addresses of \(id): \(error)")
        }
        return nil
    }

    private func openEvents() async throws(NodeError) -> AsyncThrowingStream<DiscoveryEvent, any Error> {
        if let events = state.withLock({ $0.events }) { return events }
        let opened = try await node.browse([.network]).events
        state.withLock { $0.events = opened }
        return opened
    }
}
