/// A point on a clock that never goes back. The pure layers receive the time as an argument; they read no clock.
@usableFromInline package struct MonotonicInstant: Sendable, Hashable, Comparable {
    /// Nanoseconds since an arbitrary origin that is fixed while the machine runs.
    @usableFromInline package var nanoseconds: Int64

    /// - Parameter nanoseconds: The reading of a monotonic clock.
    @inlinable
    package init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    @inlinable
    package static func < (left: Self, right: Self) -> Bool { left.nanoseconds < right.nanoseconds }

    /// The instant that lies `duration` after this one, saturating at the bounds of `Int64`: a deadline that is too far away
    /// must not lie in the past.
    package static func + (instant: Self, duration: Duration) -> Self {
        let distance = duration.nanoseconds
        let (sum, overflow) = instant.nanoseconds.addingReportingOverflow(distance)
        return Self(nanoseconds: overflow ? (distance < 0 ? .min : .max) : sum)
    }

    /// The time from `right` to `left`, saturating at the bounds of `Int64`.
    package static func - (left: Self, right: Self) -> Duration {
        let (difference, overflow) = left.nanoseconds.subtractingReportingOverflow(right.nanoseconds)
        return .nanoseconds(overflow ? (left < right ? .min : .max) : difference)
    }

    /// The seconds from `start` to this instant. Quicker than the difference as a `Duration`, which has 128 bits.
    package func seconds(since start: Self) -> Double { (Double(nanoseconds) - Double(start.nanoseconds)) / 1e9 }
}
