internal import NearshareBase

/// The deadlines of a router's recurring work.
struct RouterTimers: Sendable {
    /// When this node announces itself again; nil while there is no link.
    var nextAnnouncement: MonotonicInstant?
    /// When maintenance is due; nil while there is nothing to maintain.
    private(set) var nextMaintenance: MonotonicInstant?
    /// The times of the latest warnings about peers whose clocks differ.
    private var clockWarnings: [PeerID: MonotonicInstant] = [:]

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

    /// Whether a warning about the clock of a peer may be reported to the program. At most one for each peer in
    /// ``clockWarningInterval``, because a line may wait for that peer, and four in all, because made-up keys cost nothing (M14).
    mutating func isClockWarningDue(about peer: PeerID, now: MonotonicInstant) -> Bool {
        clockWarnings = clockWarnings.filter { now - $0.value < Self.clockWarningInterval }
        return clockWarnings[peer] == nil && clockWarnings.count < Self.maximumClockWarningCount
    }

    mutating func recordClockWarning(about peer: PeerID, now: MonotonicInstant) { clockWarnings[peer] = now }

    private static let maintenanceInterval = Duration.milliseconds(250)
    private static let clockWarningInterval = Duration.seconds(600)
    /// Limit on the peers of the warnings within ``clockWarningInterval``.
    private static let maximumClockWarningCount = 4
}
