package import NearshareBase

/// Estimates the rate and remaining time of a transfer, by an exponentially weighted moving average.
package struct TransferMeter: Sendable {
    private var amount: UInt64
    private var lastTime: MonotonicInstant
    private var average: Double?
    /// The average, and the time, when the amount has changed last.
    private var lastChange: (average: Double?, time: MonotonicInstant)
    /// Whether the change before came after a stall as well, so that the transfer is merely slow.
    private var wasStalled = false

    /// The time constant of the average, in seconds.
    private static let timeConstant = 3.0
    /// The shortest interval between samples, in seconds; shorter ones are too noisy.
    private static let shortestInterval = 0.05
    /// Seconds without a change after which the transfer is stalled, as by a cable that was pulled out.
    private static let stallTime = 3.0

    /// - Parameter amount: The amount at the start, as of a resumed transfer, which does not count for the rate.
    package init(amount: UInt64, now: MonotonicInstant) {
        self.amount = amount
        lastTime = now
        lastChange = (nil, now)
    }

    /// Adds a sample. A stall does not count, once the transfer goes on.
    /// - Parameter amount: The total amount so far.
    package mutating func measure(_ amount: UInt64, now: MonotonicInstant) {
        // The wait before the first bytes does not count.
        guard average != nil || amount != self.amount else {
            lastTime = now
            return
        }
        if amount != self.amount, average != nil {
            let isStalled = (now - lastChange.time).inSeconds >= Self.stallTime
            defer { wasStalled = isStalled }
            if isStalled, !wasStalled {
                average = lastChange.average
                lastChange.time = now
                (self.amount, lastTime) = (amount, now)
                return
            }
        }
        let elapsed = (now - lastTime).inSeconds
        guard elapsed >= Self.shortestInterval else { return }
        let sample = Double(amount.subtractingClamped(self.amount)) / elapsed
        let weight = Exponential.decay(elapsed / Self.timeConstant)
        average = average.map { $0 * weight + sample * (1 - weight) } ?? sample
        if amount != self.amount { lastChange = (average, now) }
        self.amount = amount
        lastTime = now
    }

    /// The amount per second; nil before the first sample.
    package var rate: Double? { average }

    /// The estimated time until `total` is reached; nil when it is unknown or above a hundred hours.
    package func timeLeft(until total: UInt64?) -> Duration? {
        guard let total, total >= amount, let average, average > 0 else { return nil }
        let seconds = Double(total.subtractingClamped(amount)) / average
        return seconds < 360_000 ? .seconds(seconds) : nil
    }
}

/// The exponential function without the C library, which pure modules do not import.
enum Exponential {
    /// Returns e^-x for x ≥ 0 with an error below 1e-6, by a Taylor series of e^(-x/16).
    static func decay(_ x: Double) -> Double {
        // From here on the series is no longer close, and the result below the error.
        guard x < 24 else { return 0 }
        let part = x / 16
        let series = 1 - part + part * part / 2 - part * part * part / 6 + part * part * part * part / 24
        let power2 = series * series
        let power4 = power2 * power2
        let power8 = power4 * power4
        return max(0, power8 * power8)
    }
}
