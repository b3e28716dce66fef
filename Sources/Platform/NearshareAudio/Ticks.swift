internal import Glibc

/// The kernel's monotonic clock, for what devices do not tell: how long they have been silent.
func monotonicNanoseconds() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}

/// After which a microphone counts as gone: one that is only quiet still brings samples.
let longestStillnessInNanoseconds: Int64 = 5_000_000_000
