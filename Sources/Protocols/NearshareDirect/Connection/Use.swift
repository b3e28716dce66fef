internal import NearshareBase

/// The use of a link, apart from signs of life: transfers, offers, comparisons and sessions. A link that is not used costs its
/// place, which untrusted peers can't keep (Q6).
struct Use: Sendable {
    private let timeout: Duration?
    /// The latest time at which the link was seen in use.
    private var last: MonotonicInstant
    /// The time until which the link counts as used, whatever happens on it.
    private var heldUntil: MonotonicInstant

    init(timeout: Duration?, now: MonotonicInstant) {
        self.timeout = timeout
        (last, heldUntil) = (now, now)
    }

    mutating func record(now: MonotonicInstant) { last = max(last, now) }

    /// Counts the link as used until a time, such as the expiry of a question to the user. A hold without end stays.
    mutating func hold(until time: MonotonicInstant) {
        if heldUntil.nanoseconds < .max { heldUntil = time }
    }

    /// The start of the time without use; in the future while the link is held.
    var start: MonotonicInstant { max(last, heldUntil) }

    /// The time at which the link is to be closed.
    var deadline: MonotonicInstant? { timeout.map { start + $0 } }
}
