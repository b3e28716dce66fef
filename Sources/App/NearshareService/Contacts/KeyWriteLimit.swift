internal import Nearshare
internal import Synchronization

/// Limit on the times in a minute that keys of untrusted peers are stored: keys are free, and each time the whole file is
/// replaced (R14).
final class KeyWriteLimit: Sendable {
    static let maximumCount = 20
    private static let window = Duration.seconds(60)

    private let rate = Mutex(RateWindow())

    /// - Returns: whether keys may be stored now, which then counts.
    func admit() -> Bool {
        rate.withLock { $0.admit(atMost: Self.maximumCount, within: Self.window, now: SystemClock.monotonic()) }
    }
}
