internal import NearshareBase

/// The signs of life on a link: pings after silence, and the end of the link after more of it.
struct Keepalive: Sendable {
    /// The time of the last byte from the peer.
    private var lastReceived: MonotonicInstant
    private var lastPing: MonotonicInstant

    init(now: MonotonicInstant) {
        lastReceived = now
        lastPing = now
    }

    private var pingDue: MonotonicInstant { max(lastReceived, lastPing) + DirectLimits.keepaliveInterval }
    private var lossDue: MonotonicInstant { lastReceived + DirectLimits.idleTimeout }

    /// The time of the next ping or of the link's loss.
    var deadline: MonotonicInstant { min(pingDue, lossDue) }

    mutating func recordActivity(now: MonotonicInstant) {
        lastReceived = now
    }

    /// Whether the peer has been silent for too long.
    func isLost(now: MonotonicInstant) -> Bool { now >= lossDue }

    /// Returns a ping when one is due.
    mutating func advance(to now: MonotonicInstant) -> [DirectReaction] {
        guard now >= pingDue else { return [] }
        lastPing = now
        return [.send(.ping(UInt64(bitPattern: now.nanoseconds)))]
    }
}
