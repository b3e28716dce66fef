internal import NearshareBase

/// The deadlines of a router's recurring work.
struct RouterTimers: Sendable {
    /// When this node announces itself again; nil while there is no link.
    var nextAnnouncement: MonotonicInstant?
    /// When maintenance is due; nil while there is nothing to maintain.
    private(set) var nextMaintenance: MonotonicInstant?
    private var clockWarnings = RateWindow()

    mutating func startMaintenance(now: MonotonicInstant) {
        if nextMaintenance == nil { nextMaintenance = now + Self.maintenanceInterval }
    }

    /// Schedules the next maintenance, where one is due now.
    /// - Parameter isIdle: there is nothing to maintain, so this maintenance is the last.
    /// - Returns: whether maintenance is due.
    mutating func popMaintenance(now: MonotonicInstant, isIdle: Bool) -> Bool {
        guard let due = nextMaintenance, due <= now else { return false }
        nextMaintenance = isIdle ? nil : now + Self.maintenanceInterval
        return true
    }

    /// Whether another warning about differing clocks may be reported to the program.
    func isClockWarningDue(now: MonotonicInstant) -> Bool {
        clockWarnings.isEmpty(within: Self.clockWarningInterval, now: now)
    }

    mutating func recordClockWarning(now: MonotonicInstant) {
        _ = clockWarnings.admit(atMost: 1, within: Self.clockWarningInterval, now: now)
    }

    private static let maintenanceInterval = Duration.milliseconds(250)
    private static let clockWarningInterval = Duration.seconds(600)
}
