/// A token-bucket rate limiter.
package struct TokenBucket: Sendable {
    private var tokens: Double
    private var lastRefill: MonotonicInstant
    private let capacity: Double
    private let tokensPerSecond: Double

    /// Creates a full bucket.
    /// - Parameters:
    ///   - capacity: The burst: tokens that can be consumed at once.
    ///   - perSecond: The sustained rate.
    package init(capacity: Double, perSecond: Double, now: MonotonicInstant) {
        tokens = capacity
        lastRefill = now
        self.capacity = capacity
        tokensPerSecond = perSecond
    }

    /// Removes one token, or `cost` tokens.
    /// - Returns: false, with nothing removed, when fewer are left.
    package mutating func consume(_ cost: Double = 1, now: MonotonicInstant) -> Bool {
        guard balance(now: now) >= cost else { return false }
        tokens -= cost
        return true
    }

    /// Refills the bucket.
    /// - Returns: The tokens that are left; a negative number is a debt.
    package mutating func balance(now: MonotonicInstant) -> Double {
        tokens = min(capacity, tokens + now.seconds(since: lastRefill) * tokensPerSecond)
        lastRefill = now
        return tokens
    }

    /// Removes `cost` tokens for work that has been done. The balance may become negative; ``consume(now:)`` then fails until
    /// the debt is refilled.
    package mutating func charge(_ cost: Double) { tokens -= cost }

    /// Removes `cost` tokens, but leaves no larger debt than a second refills.
    package mutating func drain(_ cost: Double, now: MonotonicInstant) {
        tokens = max(min(balance(now: now), -tokensPerSecond), tokens - cost)
    }

    /// Returns tokens that were consumed and not needed.
    package mutating func refund(_ count: Double) { tokens = min(capacity, tokens + count) }
}
