/// A date: milliseconds since 1970-01-01 UTC by a wall clock, which may jump.
package struct WallTime: Sendable, Hashable, Comparable, Codable {
    /// Milliseconds since 1970, without leap seconds.
    package var milliseconds: Int64

    /// - Parameter milliseconds: The reading of a clock, or a peer's claim.
    package init(milliseconds: Int64) {
        self.milliseconds = milliseconds
    }

    /// Milliseconds since 1970 as JSON events and bitchat's packets hold them; 0 for earlier times.
    package var unixMilliseconds: UInt64 { UInt64(max(0, milliseconds)) }

    /// The time from another date to this one, clamped to 64 bits of milliseconds: peers claim any date.
    package func difference(from other: WallTime) -> Duration {
        let (difference, overflow) = milliseconds.subtractingReportingOverflow(other.milliseconds)
        let bound = milliseconds < other.milliseconds ? Int64.min : Int64.max
        return .milliseconds(overflow ? bound : difference)
    }

    package static func < (left: Self, right: Self) -> Bool { left.milliseconds < right.milliseconds }
}
