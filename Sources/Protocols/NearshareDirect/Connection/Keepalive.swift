internal import NearshareBase

/// The signs of life on a link: pings after silence, and the end of the link after more of it. On a link whose round-trip time is
/// measured, pings are sent at the same interval whatever else arrives.
struct Keepalive: Sendable {
    /// The time of the last byte from the peer.
    private var lastReceived: MonotonicInstant
    private var lastPing: MonotonicInstant
    private var awaitsPong = false
    /// Whether a ping follows each answered one after the interval.
    private var isMeasured = false
    /// The time between the latest answered ping and its answer; nil before the first.
    private(set) var roundTripTime: Duration?

    init(now: MonotonicInstant) {
        lastReceived = now
        lastPing = now
    }

    private var pingDue: MonotonicInstant {
        // The answer may wait behind much data; a further ping would make it count for nothing.
        let start = isMeasured && !awaitsPong ? lastPing : max(lastReceived, lastPing)
        return start + DirectLimits.keepaliveInterval
    }
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

    /// Measures the round-trip time from now on.
    /// - Returns: the first ping.
    mutating func startMeasuring(now: MonotonicInstant) -> [DirectReaction] {
        isMeasured = true
        return ping(now: now)
    }

    /// Returns a ping whose answer gives the round-trip time.
    private mutating func ping(now: MonotonicInstant) -> [DirectReaction] {
        lastPing = now
        awaitsPong = true
        return [.send(.ping(UInt64(bitPattern: now.nanoseconds)))]
    }
}
