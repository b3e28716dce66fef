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

    /// Counts an offer towards its peer's share.
    /// - Returns: false when it does not fit any more. What does not say its size never does.
    func take(_ offer: Offer, from peer: Fingerprint) -> Bool {
        guard let limit else { return true }
        guard let size = offer.totalSize else { return false }
        return used.withLock { used in
            let (total, overflows) = used[peer, default: 0].addingReportingOverflow(size)
            guard !overflows, total <= limit else { return false }
            used[peer] = total
            return true
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
