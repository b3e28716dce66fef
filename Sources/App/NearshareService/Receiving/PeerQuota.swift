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

    /// A peer, or the address of one that is no friend: keys are free, and one host can have many.
    private enum Holder: Hashable {
        case peer(Fingerprint)
        case source(String)
    }

    private let limit: UInt64?
    private let used = Mutex<[Holder: UInt64]>([:])

    /// - Parameter limit: in bytes per peer; nil for no limit but the disk's.
    package init(limit: UInt64?) {
        self.limit = limit
    }

    /// Counts an offer towards its peer's limit, if it fits.
    /// - Parameters:
    ///   - source: the address or network of a peer that is no friend, all of whose peers share one limit; nil for others.
    ///   - kept: returns the space that the peer's unfinished transfers take; called if there is a limit.
    package func reserve(
        _ size: UInt64?, for peer: Fingerprint, at source: String? = nil, kept: () -> UInt64 = { 0 }
    ) -> Reservation {
        guard let limit else { return .reserved }
        guard let size else { return .unknownSize }
        let kept = kept()
        let holders = Self.holders(peer, source)
        return used.withLock { used in
            // Bounded: each reserved total is within the limit.
            let before = holders.map { used[$0, default: 0] }.max() ?? 0
            let (total, overflows) = before.addingReportingOverflow(size)
            guard !overflows, total.addingClamped(kept) <= limit else {
                return .exceeds(limit: limit, used: before.addingClamped(kept))
            }
            for holder in holders { used[holder, default: 0] += size }
            return .reserved
        }
    }

    /// Releases what was reserved for a transfer that was not stored.
    package func release(_ size: UInt64?, for peer: Fingerprint, at source: String? = nil) {
        guard let size else { return }
        used.withLock { used in
            for holder in Self.holders(peer, source) {
                guard let total = used[holder] else { continue }
                used[holder] = total > size ? total - size : nil
            }
        }
    }

    private static func holders(_ peer: Fingerprint, _ source: String?) -> [Holder] {
        [.peer(peer)] + (source.map { [.source($0)] } ?? [])
    }
}
