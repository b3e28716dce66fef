package import NearshareBase
internal import NearshareInterfaces

/// Clock and randomness of a discovery engine, which reads neither by itself.
package struct DiscoveryEnvironment: Sendable {
    /// The monotonic clock.
    package var now: @Sendable () -> MonotonicInstant
    /// 64 random bits, for host labels and message ids.
    package var random: @Sendable () -> UInt64

    package init(now: @escaping @Sendable () -> MonotonicInstant, random: @escaping @Sendable () -> UInt64) {
        self.now = now
        self.random = random
    }

    /// The clock and the random number generator of this machine.
    package static let system = DiscoveryEnvironment(
        now: { SystemClock.monotonic() }, random: { UInt64.random(in: .min ... .max) })
}
