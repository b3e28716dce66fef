internal import NearshareBase

/// Proofs that peers are at the other ends of links: pings with random numbers, sent on one link alone, whose signed answers
/// must return on the same link (docs/PROTOCOL.md, section 10). An announcement proves nothing, because any node can replay it.
struct NeighbourChallenges: Sendable {
    struct Challenge: Sendable, Hashable {
        let peer: PeerID
        let link: MeshLinkID
        let nonce: [UInt8]
    }

    private struct Pending: Sendable {
        let nonce: [UInt8]
        var sent: MonotonicInstant
        var attempts = 1
    }

    private struct Key: Hashable, Sendable {
        let peer: PeerID
        let link: MeshLinkID
    }

    private var pending: [Key: Pending] = [:]

    /// Starts to challenge a peer that has announced itself unrelayed on a link.
    /// - Parameter nonce: 8 fresh random bytes.
    /// - Returns: nil while the peer is being challenged there, or when there are too many others on the link.
    mutating func start(_ peer: PeerID, on link: MeshLinkID, nonce: [UInt8], now: MonotonicInstant) -> Challenge? {
        pending = pending.filter { $0.value.attempts < Self.maximumAttemptCount || now - $0.value.sent < Self.pause }
        let key = Key(peer: peer, link: link)
        let isUnderWay = pending[key] != nil
        let isFull = pending.keys.count(where: { $0.link == link }) >= Self.maximumCountPerLink
        guard !isUnderWay, !isFull else { return nil }
        pending[key] = Pending(nonce: nonce, sent: now)
        return Challenge(peer: peer, link: link, nonce: nonce)
    }

    /// Whether an answer with this number is expected from a peer on a link.
    func isExpected(_ nonce: [UInt8], from peer: PeerID, on link: MeshLinkID) -> Bool {
        pending[Key(peer: peer, link: link)]?.nonce == nonce
    }

    mutating func finish(_ peer: PeerID, on link: MeshLinkID) { pending[Key(peer: peer, link: link)] = nil }

    mutating func removePeer(_ peer: PeerID) { pending = pending.filter { $0.key.peer != peer } }

    mutating func removeLink(_ link: MeshLinkID) { pending = pending.filter { $0.key.link != link } }

    /// The challenges that are to be sent again, because they or their answers were lost.
    mutating func retransmissions(now: MonotonicInstant) -> [Challenge] {
        var due: [Challenge] = []
        for (key, challenge) in pending
        where challenge.attempts < Self.maximumAttemptCount && now - challenge.sent >= Self.retransmissionInterval {
            pending[key]?.attempts += 1
            pending[key]?.sent = now
            due.append(Challenge(peer: key.peer, link: key.link, nonce: challenge.nonce))
        }
        return due.sorted { ($0.link.rawValue, $0.peer.hex) < ($1.link.rawValue, $1.peer.hex) }
    }

    private static let retransmissionInterval = Duration.milliseconds(500)
    private static let maximumAttemptCount = 4
    /// Time after the last attempt in which the peer is not challenged again, and counts towards ``maximumCountPerLink``.
    private static let pause = Duration.seconds(5)
    private static let maximumCountPerLink = 8
}
