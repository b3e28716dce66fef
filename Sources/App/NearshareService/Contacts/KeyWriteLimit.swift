internal import Nearshare
internal import Synchronization

/// Limit on the times in a minute that a file is replaced to store keys of untrusted peers: keys are free (R14). There is one limit
/// for each file: a flood of announcements, whose keys go to `contacts.json`, does not keep the key of an accepted peer out of
/// `trust.json`.
final class KeyWriteLimit: Sendable {
    static let maximumCount = 20
    private static let window = Duration.seconds(60)

    private let rate = Mutex(RateWindow())

    /// - Returns: whether keys may be stored now, which then counts.
    func admit() -> Bool {
        rate.withLock { $0.admit(atMost: Self.maximumCount, within: Self.window, now: SystemClock.monotonic()) }
    }
}
