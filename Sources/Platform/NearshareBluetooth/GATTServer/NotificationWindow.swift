/// The send window of notifications, which BlueZ would queue without a bound. A D-Bus `Ping` after each half window
/// acknowledges it.
struct NotificationWindow {
    static let size = 16

    private var unacknowledgedCount = 0

    var isOpen: Bool { unacknowledgedCount < Self.size }

    /// Counts a notification that was sent.
    /// - Returns: whether a ping has to follow.
    mutating func recordSent() -> Bool {
        unacknowledgedCount += 1
        return unacknowledgedCount == Self.size / 2 || unacknowledgedCount == Self.size
    }

    /// Records that BlueZ has replied to a ping, or that the ping has timed out.
    mutating func acknowledge() { unacknowledgedCount = max(0, unacknowledgedCount - Self.size / 2) }

    mutating func reset() { unacknowledgedCount = 0 }
}
