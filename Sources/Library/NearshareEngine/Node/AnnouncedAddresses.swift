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
        /// The addresses that were returned, or are left out.
        var seen: Set<LinkAddress>
        var returnedCount = 0
    }

    /// Limit on the addresses (R6).
    static let maximumCount = 64

    private let node: Node
    private let id: PeerID
    private let service: ServiceType
    private let state: Mutex<State>

    /// - Parameter destination: its addresses, and those that it discards, are left out.
    /// - Returns: nil where no further addresses are announced.
    init?(of destination: PeerDestination, on node: Node) {
        guard let id = destination.id, let service = destination.announcedService else { return nil }
        (self.id, self.service, self.node) = (id, service, node)
        state = Mutex(State(seen: destination.discardedAddresses.union(destination.addresses)))
    }

    /// Waits for an address that is not known yet. Browsing begins with the first call; one call waits at a time.
    /// - Returns: nil when there are no more, or too many, and when the task is cancelled.
    func next() async -> LinkAddress? {
        do {
            var iterator = try await openEvents().makeAsyncIterator()
            while let event = try await iterator.next() {
                guard case .seen(let seen) = event, seen.certificate == nil, seen.address.medium == .network,
                    PeerTXTRecord(strings: seen.txt)?.id == id
                else { continue }
                let count: Int? = state.withLock { state in
                    guard state.seen.insert(seen.address).inserted else { return nil }
                    state.returnedCount += 1
                    return state.returnedCount
                }
                guard let count else { continue }
                return count > Self.maximumCount ? nil : seen.address
            }
        } catch {
            node.settings.log.debug("no further addresses of \(id): \(error)")
        }
        return nil
    }

    private func openEvents() async throws(NodeError) -> AsyncThrowingStream<DiscoveryEvent, any Error> {
        if let events = state.withLock({ $0.events }) { return events }
        let opened = try await node.browse([.network], for: service).events
        state.withLock { $0.events = opened }
        return opened
    }
}
