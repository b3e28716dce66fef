/// The rate at which a link moves bytes, averaged over the last 10 to 20 s. A link below ``minimumRate`` gives way when slots are
/// short: a trickle of bytes would hold its slot for ever (R5).
package struct ProgressMeter: Sendable {
    /// The start of the present period.
    private var begin: MonotonicInstant
    /// Bytes of the period before; nil in the first one.
    private var previous: Int?
    private var current = 0
    private var restarted: MonotonicInstant?

    /// Bytes a second. The slowest carrier, Bluetooth, moves several times as many.
    package static let minimumRate = 1 << 10
    /// Long enough for a loss of radio contact or a few lost packets to leave a sound link above the minimum.
    package static let period = Duration.seconds(10)
    /// A peer that restarts its measurement as often as it may is measured for most of this time.
    private static let restartInterval = Duration.seconds(60)

    package init(now: MonotonicInstant) { begin = now }

    package mutating func record(_ byteCount: Int, now: MonotonicInstant) {
        advance(to: now)
        current += byteCount
    }

    /// Begins anew, as at the start of a transfer: the silence before it does not count. No effect within a minute of the last time.
    package mutating func restart(now: MonotonicInstant) {
        if let restarted, now - restarted < Self.restartInterval { return }
        self = ProgressMeter(now: now)
        restarted = now
    }

    /// Bytes a second; nil in the first period.
    package func rate(now: MonotonicInstant) -> Int? {
        var meter = self
        meter.advance(to: now)
        guard let previous = meter.previous else { return nil }
        return (previous + meter.current) / Int((Self.period + (now - meter.begin)).components.seconds)
    }

    private mutating func advance(to now: MonotonicInstant) {
        let elapsed = now - begin
        guard elapsed >= Self.period else { return }
        let isNext = elapsed < Self.period + Self.period
        (previous, current) = (isNext ? current : 0, 0)
        begin = isNext ? begin + Self.period : now
    }
}
