// Time as values: the pure layers are told what time it is.

/// A point on a clock that never goes back, in nanoseconds since an arbitrary origin.
package struct MonotonicInstant: Sendable, Hashable, Comparable {
    /// Since some moment that stays the same while the machine runs.
    package var nanoseconds: Int64

    /// As a clock gives it.
    package init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    package static func < (left: Self, right: Self) -> Bool { left.nanoseconds < right.nanoseconds }

    /// So much later.
    package static func + (instant: Self, duration: Duration) -> Self {
        Self(nanoseconds: instant.nanoseconds &+ duration.nanoseconds)
    }

    /// From the right one to the left one.
    package static func - (left: Self, right: Self) -> Duration {
        .nanoseconds(left.nanoseconds - right.nanoseconds)
    }
}

/// Milliseconds since 1970-01-01 UTC, as the wall clock tells: it may jump.
package struct WallTime: Sendable, Hashable, Comparable, Codable {
    /// Since 1970, leap seconds left out.
    package var milliseconds: Int64

    /// As a clock gives it, or a peer claims it.
    package init(milliseconds: Int64) {
        self.milliseconds = milliseconds
    }

    package static func < (left: Self, right: Self) -> Bool { left.milliseconds < right.milliseconds }
}

extension Duration {
    /// Whole nanoseconds, saturating at the ends of `Int64` (292 years).
    package var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow else { return seconds < 0 ? .min : .max }
        return product &+ attoseconds / 1_000_000_000
    }

    /// Seconds with a fraction.
    package var inSeconds: Double {
        let (seconds, attoseconds) = components
        return Double(seconds) + Double(attoseconds) * 1e-18
    }
}

/// A point in time on both clocks: monotonic for timers, wall for timestamps.
package struct Moment: Sendable, Hashable {
    package var monotonic: MonotonicInstant
    package var wall: WallTime

    package init(monotonic: MonotonicInstant, wall: WallTime) {
        self.monotonic = monotonic
        self.wall = wall
    }
}
