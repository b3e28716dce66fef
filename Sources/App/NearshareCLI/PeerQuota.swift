internal import Nearshare
internal import Synchronization

/// How much one peer may leave here without a person being asked, while this command runs (R8).
final class PeerQuota: Sendable {
    private let limit: UInt64?
    private let used = Mutex<[Fingerprint: UInt64]>([:])

    /// - Parameter limit: bytes of each peer; nil for as much as fits on the disk.
    init(_ limit: UInt64?) {
        self.limit = limit
    }

    enum Verdict: Sendable, Hashable {
        case taken
        /// What does not say its size never fits.
        case unknownSize
        /// It would be more than there may be, after so much of before.
        case exceeds(limit: UInt64, used: UInt64)
    }

    /// Counts an offer towards its peer's share, if it fits.
    func take(_ offer: Offer, from peer: Fingerprint) -> Verdict {
        guard let limit else { return .taken }
        guard let size = offer.totalSize else { return .unknownSize }
        return used.withLock { used in
            let before = used[peer, default: 0]
            let (total, overflows) = before.addingReportingOverflow(size)
            guard !overflows, total <= limit else { return .exceeds(limit: limit, used: before) }
            used[peer] = total
            return .taken
        }
    }

    /// Nothing of it was kept.
    func giveBack(_ offer: Offer, from peer: Fingerprint) {
        used.withLock { used in
            guard let total = used[peer], let size = offer.totalSize else { return }
            used[peer] = total - min(total, size)
        }
    }
}
