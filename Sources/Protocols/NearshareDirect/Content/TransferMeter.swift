package import NearshareBase

/// Turns amounts and times into a rate and a time left. The rate is smoothed over some seconds, and falls when nothing comes.
package struct TransferMeter: Sendable {
    private var amount: UInt64
    private var lastTime: MonotonicInstant
    private var smoothed: Double?

    /// The weight of the past falls to 1/e in this time.
    private static let memory = 3.0
    /// Samples closer together say little about a rate.
    private static let shortestSample = 0.05

    /// - Parameter amount: what was there before anything was moved, as when resuming: it does not count for the rate.
    package init(amount: UInt64, now: MonotonicInstant) {
        self.amount = amount
        lastTime = now
    }

    /// - Parameter amount: everything moved until now.
    package mutating func measure(_ amount: UInt64, now: MonotonicInstant) {
        // Nothing has moved yet: the wait for an answer says nothing of the rate.
        guard smoothed != nil || amount != self.amount else {
            lastTime = now
            return
        }
        let elapsed = (now - lastTime).inSeconds
        guard elapsed >= Self.shortestSample else { return }
        let sample = Double(amount >= self.amount ? amount - self.amount : 0) / elapsed
        let weight = Exponential.decay(elapsed / Self.memory)
        smoothed = smoothed.map { $0 * weight + sample * (1 - weight) } ?? sample
        self.amount = amount
        lastTime = now
    }

    /// Per second; nil until it can be told.
    package var rate: Double? { smoothed }

    /// nil when it can't be told, or is longer than a hundred hours.
    package func timeLeft(until total: UInt64?) -> Duration? {
        guard let total, total >= amount, let rate = smoothed, rate > 0 else { return nil }
        let seconds = Double(total - amount) / rate
        return seconds < 360_000 ? .seconds(seconds) : nil
    }
}

/// e to the minus x without the C library, which the pure layers don't import: halving and a Taylor series,
/// good to 1e-6 for 0 ≤ x.
enum Exponential {
    static func decay(_ x: Double) -> Double {
        guard x < 40 else { return 0 }
        let part = x / 16
        let series = 1 - part + part * part / 2 - part * part * part / 6 + part * part * part * part / 24
        let twice = series * series
        let fourfold = twice * twice
        let eightfold = fourfold * fourfold
        return max(0, eightfold * eightfold)
    }
}
