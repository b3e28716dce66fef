import NearshareBase
import Synchronization

/// A clock that only the test advances.
final class ManualClock: Sendable {
    private let nanoseconds = Mutex<Int64>(1_000_000_000)

    var now: MonotonicInstant { MonotonicInstant(nanoseconds: nanoseconds.withLock { $0 }) }

    func advance(by duration: Duration) {
        nanoseconds.withLock { $0 += duration.nanoseconds }
    }
}
