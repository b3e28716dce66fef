package import Nearshare
internal import Synchronization

/// Limit on the disk space that one peer may take without a question to the user. What the peer has sent while this process runs
/// counts, and what is kept of its unfinished transfers (R8, Q7).
package final class PeerQuota: Sendable {
    package enum Reservation: Sendable, Hashable {
        case reserved
        /// An offer without a size never fits.
        case unknownSize
        /// The offer exceeds the limit, `used` bytes of which the peer has used before.
        case exceeds(limit: UInt64, used: UInt64)
    }

    /// The owner of a share: a peer, or the address of peers that are no friends, as one host can have many keys.
    private enum Holder: Hashable {
        case peer(Fingerprint)
        case source(String)
    }

    private struct State {
        var used: [Holder: UInt64] = [:]
        /// The space that unfinished transfers take, by source and peer. Each entry takes disk space, and so counts towards the
        /// limit that bounds their number.
        var partial: [String: [Fingerprint: UInt64]] = [:]
    }

    private let limit: UInt64?
    private let state = Mutex(State())

    /// - Parameter limit: in bytes per peer; nil for no limit but the disk's.
    package init(limit: UInt64?) {
        self.limit = limit
    }

    /// Counts an offer towards its peer's limit, if it fits.
    /// - Parameters:
    ///   - source: the address or network of a peer that is no friend, all of whose peers share one limit; nil for others.
    ///   - partial: returns the space that the peer's unfinished transfers take; called if there is a limit.
    package func reserve(
        _ size: UInt64?, for peer: Fingerprint, at source: String? = nil, partial: () -> UInt64 = { 0 }
    ) -> Reservation {
        guard let limit else { return .reserved }
        guard let size else { return .unknownSize }
        let partial = partial()
        return state.withLock { state in
            let others = source.flatMap { state.partial[$0] }?.filter { $0.key != peer }.values ?? [:].values
            var before = state.used[.peer(peer), default: 0]
            if let source {
                before = max(before, others.reduce(state.used[.source(source), default: 0]) { $0.addingClamped($1) })
            }
            let (total, overflows) = before.addingReportingOverflow(size)
            guard !overflows, total.addingClamped(partial) <= limit else {
                return .exceeds(limit: limit, used: before.addingClamped(partial))
            }
            // A transfer that is resumed counts with its whole size.
            if let source, state.partial[source] != nil { state.partial[source]?[peer] = partial > 0 ? partial : nil }
            // Bounded: each reserved total is within the limit.
            for holder in Self.holders(peer, source) { state.used[holder, default: 0] += size }
            return .reserved
        }
    }

    /// Records the space that the unfinished transfers of a peer take, which counts for the other peers at its source.
    /// - Parameter partial: returns that space, in bytes; called if there is a limit.
    package func recordPartial(_ partial: () -> UInt64, of peer: Fingerprint, at source: String) {
        guard limit != nil else { return }
        let byteCount = partial()
        state.withLock { $0.partial[source, default: [:]][peer] = byteCount > 0 ? byteCount : nil }
    }

    /// Releases what was reserved for a transfer that was not stored.
    package func release(_ size: UInt64?, for peer: Fingerprint, at source: String? = nil) {
        guard let size else { return }
        state.withLock { state in
            for holder in Self.holders(peer, source) {
                guard let total = state.used[holder] else { continue }
                state.used[holder] = total > size ? total - size : nil
            }
        }
    }

    private static func holders(_ peer: Fingerprint, _ source: String?) -> [Holder] {
        [.peer(peer)] + (source.map { [.source($0)] } ?? [])
    }
}
