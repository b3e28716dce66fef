internal import NearshareBase

/// The signs of life on a link: pings after silence, and the end of the link after more of it.
struct Keepalive: Sendable {
    /// The time of the last byte from the peer.
    private var lastReceived: MonotonicInstant
    private var lastPing: MonotonicInstant
    private var awaitsPong = false
    /// The time between the latest answered ping and its answer; nil before the first.
    private(set) var roundTripTime: Duration?

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

    /// Records the answer to a ping. Only the first one to the latest ping counts: the peer chooses its content.
    mutating func receivePong(_ token: UInt64, now: MonotonicInstant) {
        guard awaitsPong, token == UInt64(bitPattern: lastPing.nanoseconds) else { return }
        awaitsPong = false
        roundTripTime = now - lastPing
    }

    /// Whether the peer has been silent for too long.
    func isLost(now: MonotonicInstant) -> Bool { now >= lossDue }

    /// Returns a ping when one is due.
    mutating func advance(to now: MonotonicInstant) -> [DirectReaction] {
        now >= pingDue ? ping(now: now) : []
    }

    /// Returns a ping whose answer gives the round-trip time.
    mutating func ping(now: MonotonicInstant) -> [DirectReaction] {
        lastPing = now
        awaitsPong = true
        return [.send(.ping(UInt64(bitPattern: now.nanoseconds)))]
    }
}
