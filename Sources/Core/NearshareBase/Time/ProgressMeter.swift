/// The rate at which a link moves bytes, averaged over the last 10 to 20 s in which it waited for its peer. A link below
/// ``minimumRate`` gives way when slots are short: a trickle of bytes would hold its slot for ever (R5).
package struct ProgressMeter: Sendable {
    private let period: Duration
    /// The start of the present period. Moved by the time in which the measurement was suspended.
    private var begin: MonotonicInstant
    /// Bytes of the period before; nil in the first one.
    private var previous: Int?
    private var current = 0
    /// The time since which nothing is measured; nil while the link waits for its peer.
    private var suspension: MonotonicInstant?

    /// Bytes a second. The slowest carrier, Bluetooth, moves several times as many.
    package static let minimumRate = 1 << 10
    /// Long enough for a loss of radio contact or a few lost packets to leave a sound link above the minimum.
    package static let period = Duration.seconds(10)

    /// - Parameter period: at least a second.
    package init(now: MonotonicInstant, period: Duration = ProgressMeter.period) {
        (self.period, begin) = (period, now)
    }

    package mutating func record(_ byteCount: Int, now: MonotonicInstant) {
        advance(to: suspension ?? now)
        current += byteCount
    }

    /// Leaves out the time until ``resume(now:)``, in which the peer is not what the link waits for. No effect while suspended.
    package mutating func suspend(now: MonotonicInstant) {
        guard suspension == nil else { return }
        advance(to: now)
        suspension = now
    }

    /// Continues the measurement. No effect unless suspended.
    package mutating func resume(now: MonotonicInstant) {
        guard let since = suspension.take() else { return }
        begin = begin + (now - since)
    }

    /// Bytes a second; nil in the first period, and while suspended.
    package func rate(now: MonotonicInstant) -> Int? {
        guard suspension == nil else { return nil }
        var meter = self
        meter.advance(to: now)
        guard let previous = meter.previous else { return nil }
        return (previous + meter.current) / Int((period + (now - meter.begin)).components.seconds)
    }

    private mutating func advance(to now: MonotonicInstant) {
        let elapsed = now - begin
        guard elapsed >= period else { return }
        let isNext = elapsed < period + period
        (previous, current) = (isNext ? current : 0, 0)
        begin = isNext ? begin + period : now
    }
}
