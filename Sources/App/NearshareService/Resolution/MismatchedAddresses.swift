internal import Nearshare

/// The addresses at which a peer was announced or last reached, and where another one has answered. Any host can announce another peer's
/// id (D1): a search for the peer leaves them out, and goes on until its time is over.
struct MismatchedAddresses: Sendable {
    /// Delay before a search that follows a failed connection. The peer may be announced at an address at which it does not listen yet.
    private static let delay = Duration.milliseconds(500)

    private let resolver: PeerResolver
    private let node: Node
    private var addresses: Set<LinkAddress> = []
    /// The end of the search; nil before the first address.
    private var deadline: MonotonicInstant?

    init(_ resolver: PeerResolver, on node: Node) {
        self.resolver = resolver
        self.node = node
    }

    /// Searches for a peer after a failed connection.
    /// - Parameters:
    ///   - destination: the peer, and where it was searched for.
    ///   - others: addresses at which another peer has answered now.
    /// - Returns: nil where no other peer has ever answered, when the time is over, and for a peer of which only an address is known.
    mutating func search(for destination: PeerDestination, without others: Set<LinkAddress>) async -> PeerDestination? {
        guard destination.id != nil, !destination.isLocalSend, deadline != nil || !others.isEmpty else { return nil }
        addresses.formUnion(others)
        if deadline == nil {
            resolver.reportOtherPeer(inPlaceOf: destination)
        } else {
            guard (try? await Task.sleep(for: Self.delay)) != nil else { return nil }
        }
        let now = SystemClock.monotonic()
        let end = deadline ?? now + resolver.mismatchTimeout
        deadline = end
        return await resolver.findElsewhere(destination, on: node, discarding: addresses, timeout: end - now)
    }
}
