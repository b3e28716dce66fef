package import NearshareBase

#if canImport(Darwin)
    internal import Darwin
#else
    internal import Glibc
#endif

/// The clocks of this machine. Other code receives them as functions and reads none.
package enum SystemClock {
    /// The monotonic clock, which never goes back.
    package static func monotonic() -> MonotonicInstant {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return MonotonicInstant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }

    /// The wall clock, which may jump.
    package static func wall() -> WallTime { WallTime(milliseconds: wallNanoseconds() / 1_000_000) }

    /// The wall clock in the unit of file systems: nanoseconds since 1970.
    package static func wallNanoseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
