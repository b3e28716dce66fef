package import NearshareBase
internal import NearshareInterfaces
internal import Synchronization

/// A clock that the test advances. Otherwise it stands still, or goes with the machine's clock.
package final class ManualClock: Sendable {
    private let start: @Sendable () -> MonotonicInstant
    private let advance: Mutex<Duration>

    /// Creates a clock that stands still.
    package init() {
        start = { MonotonicInstant(nanoseconds: 1_000_000_000) }
        advance = Mutex(.zero)
    }

    /// Creates a clock that goes with the machine's, behind it so that advancing leads to no time in the future.
    package init(behindSystemBy delay: Duration) {
        start = { SystemClock.monotonic() }
        advance = Mutex(.zero - delay)
    }

    package var now: MonotonicInstant { start() + advance.withLock(\.self) }

    /// The function that reads the clock.
    package var read: @Sendable () -> MonotonicInstant { { self.now } }

    package func advance(by duration: Duration) { advance.withLock { $0 += duration } }
}
