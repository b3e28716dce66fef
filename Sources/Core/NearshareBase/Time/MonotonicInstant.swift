/// A point on a clock that never goes back. The pure layers receive the time as an argument; they read no clock.
package struct MonotonicInstant: Sendable, Hashable, Comparable {
    /// Nanoseconds since an arbitrary origin that is fixed while the machine runs.
    package var nanoseconds: Int64

    /// - Parameter nanoseconds: The reading of a monotonic clock.
    package init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    package static func < (left: Self, right: Self) -> Bool { left.nanoseconds < right.nanoseconds }

    /// The instant that lies `duration` after this one.
    package static func + (instant: Self, duration: Duration) -> Self {
        Self(nanoseconds: instant.nanoseconds &+ duration.nanoseconds)
    }

    /// The time from `right` to `left`.
    package static func - (left: Self, right: Self) -> Duration {
        .nanoseconds(left.nanoseconds - right.nanoseconds)
    }
}
