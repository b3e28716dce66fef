package import Nearshare
internal import Synchronization

/// Limit on the disk space that one peer may take without the user being asked: by what it has sent while this process runs,
/// and by what is kept of its unfinished transfers (R8, Q7).
package final class PeerQuota: Sendable {
    package enum Reservation: Sendable, Hashable {
        case reserved
        /// An offer without a size never fits.
        case unknownSize
        /// The offer exceeds the limit, `used` bytes of which the peer has used before.
        case exceeds(limit: UInt64, used: UInt64)
    }

    private let limit: UInt64?
    private let used = Mutex<[Fingerprint: UInt64]>([:])

    /// - Parameter limit: in bytes per peer; nil for no limit but the disk's.
    package init(limit: UInt64?) {
        self.limit = limit
    }

    /// Counts an offer towards its peer's limit, if it fits.
    /// - Parameter kept: returns the space that the peer's unfinished transfers take; called if there is a limit.
    package func reserve(_ size: UInt64?, for peer: Fingerprint, kept: () -> UInt64 = { 0 }) -> Reservation {
        guard let limit else { return .reserved }
        guard let size else { return .unknownSize }
        let kept = kept()
        return used.withLock { used in
            let before = used[peer, default: 0]
            let (total, overflows) = before.addingReportingOverflow(size)
            guard !overflows, total.addingClamped(kept) <= limit else {
                return .exceeds(limit: limit, used: before.addingClamped(kept))
            }
            used[peer] = total
            return .reserved
        }
    }

    /// Releases what was reserved for a transfer that was not stored.
    package func release(_ size: UInt64?, for peer: Fingerprint) {
        used.withLock { used in
            guard let total = used[peer], let size else { return }
            used[peer] = total - min(total, size)
        }
    }
}
