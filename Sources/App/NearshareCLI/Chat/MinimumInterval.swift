internal import Nearshare

/// The minimum time between two actions of the chat, by the wall clock.
struct MinimumInterval: Sendable {
    private let interval: Duration
    private var last: WallTime?

    init(_ interval: Duration) { self.interval = interval }

    /// Records an action now, if the last one is long enough ago.
    /// - Returns: whether it may be performed.
    mutating func admit(at now: WallTime) -> Bool {
        if let last {
            let passed = Duration.milliseconds(now.milliseconds - last.milliseconds)
            // The wall clock may have been set back.
            guard passed >= interval || passed < .zero else { return false }
        }
        last = now
        return true
    }

    /// Records an action that is performed in any case.
    mutating func record(at now: WallTime) { last = now }
}
