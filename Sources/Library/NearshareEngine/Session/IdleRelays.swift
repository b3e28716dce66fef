internal import NearshareBase
internal import NearshareDirect

/// Decides when relayed links beside a direct one are closed: once they are idle, or when only the confirmation that their bytes have
/// arrived is awaited, and does not come in the time in which a silent link counts as lost.
struct IdleRelays {
    /// The use of a link.
    enum Use {
        case open
        /// All its streams have ended, and not all of their bytes are known to have arrived.
        case unconfirmed
        case idle
    }

    /// The time since which each link awaits only a confirmation.
    private var unconfirmedSince: [ObjectIdentifier: MonotonicInstant] = [:]

    /// - Parameter uses: those of all relayed links beside a direct one.
    /// - Returns: the links to close.
    mutating func dueLinks(among uses: [ObjectIdentifier: Use], now: MonotonicInstant) -> Set<ObjectIdentifier> {
        unconfirmedSince = uses.filter { $0.value == .unconfirmed }.reduce(into: [:]) { times, link in
            times[link.key] = unconfirmedSince[link.key] ?? now
        }
        let overdue = unconfirmedSince.filter { now - $0.value >= DirectLimits.idleTimeout }.keys
        return Set(uses.filter { $0.value == .idle }.keys).union(overdue)
    }
}
