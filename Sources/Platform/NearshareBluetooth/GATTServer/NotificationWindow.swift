/// The send window of notifications, which BlueZ would queue without a bound. A D-Bus `Ping` after each half window
/// acknowledges it.
struct NotificationWindow {
    static let size = 16

    /// A ping that is on its way.
    struct Ping: Sendable, Hashable {
        fileprivate let generation: Int
    }

    private var unacknowledgedCount = 0
    /// The number of resets: pings from before one acknowledge nothing.
    private var generation = 0

    var isOpen: Bool { unacknowledgedCount < Self.size }

    /// Counts a notification that was sent.
    /// - Returns: the ping that has to follow; nil for none.
    mutating func recordSent() -> Ping? {
        unacknowledgedCount += 1
        return unacknowledgedCount % (Self.size / 2) == 0 ? Ping(generation: generation) : nil
    }

    /// Records that BlueZ has replied to a ping, or that the ping has timed out.
    mutating func recordEnd(of ping: Ping) {
        if ping.generation == generation { unacknowledgedCount = max(0, unacknowledgedCount - Self.size / 2) }
    }

    mutating func reset() {
        unacknowledgedCount = 0
        generation += 1
    }
}
