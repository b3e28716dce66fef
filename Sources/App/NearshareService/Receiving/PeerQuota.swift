package import Nearshare
internal import Synchronization

/// Limit on the bytes that one peer may send without the user being asked, while this process runs (R8).
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
    package func reserve(_ size: UInt64?, for peer: Fingerprint) -> Reservation {
        guard let limit else { return .reserved }
        guard let size else { return .unknownSize }
        return used.withLock { used in
            let before = used[peer, default: 0]
            let (total, overflows) = before.addingReportingOverflow(size)
            guard !overflows, total <= limit else { return .exceeds(limit: limit, used: before) }
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
