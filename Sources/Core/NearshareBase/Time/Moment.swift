/// One moment by both clocks: the monotonic one for deadlines and rates, the wall clock for timestamps of other machines.
package struct Moment: Sendable, Hashable {
    /// The monotonic clock's reading.
    package var monotonic: MonotonicInstant
    /// The wall clock's reading.
    package var wall: WallTime

    /// Combines the readings of both clocks.
    package init(monotonic: MonotonicInstant, wall: WallTime) {
        self.monotonic = monotonic
        self.wall = wall
    }
}
