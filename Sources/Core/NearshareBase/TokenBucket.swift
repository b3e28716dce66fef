/// So many in a while, and no more: it holds some, and is filled again as time passes.
package struct TokenBucket: Sendable {
    private var tokens: Double
    private var filled: MonotonicInstant
    private let capacity: Double
    private let perSecond: Double

    /// Full to begin with.
    package init(capacity: Double, perSecond: Double, now: MonotonicInstant) {
        tokens = capacity
        filled = now
        self.capacity = capacity
        self.perSecond = perSecond
    }

    /// - Returns: false when none is left.
    package mutating func take(now: MonotonicInstant) -> Bool {
        tokens = min(capacity, tokens + (now - filled).inSeconds * perSecond)
        filled = now
        guard tokens >= 1 else { return false }
        tokens -= 1
        return true
    }

    /// What something turned out to cost besides; it may be more than is left, and is then paid back before anything else.
    package mutating func charge(_ cost: Double) { tokens -= cost }
}
