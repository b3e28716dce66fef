internal import Glibc
package import NearshareBase

/// The clocks of this machine. The engine is handed them as functions; only here are they read.
package enum SystemClock {
    /// Time that only goes forward, whatever is done to the calendar.
    package static func monotonic() -> MonotonicInstant {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return MonotonicInstant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }

    /// Time that people read.
    package static func wall() -> WallTime {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return WallTime(milliseconds: Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
    }
}
