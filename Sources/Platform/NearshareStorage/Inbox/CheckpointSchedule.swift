internal import NearshareBase

/// The times at which the checkpoints of an incoming transfer are due.
struct CheckpointSchedule {
    private let clock: @Sendable () -> MonotonicInstant
    private var lastCheckpoint: MonotonicInstant
    private var lastDurableCheckpoint: MonotonicInstant

    /// Each checkpoint writes the journal, which costs a few milliseconds.
    private static let interval = Duration.seconds(2)
    /// Limit on the content that has to be received again after a loss of power, in a transfer of many files.
    private static let durableInterval = Duration.seconds(30)

    init(clock: @escaping @Sendable () -> MonotonicInstant) {
        self.clock = clock
        lastCheckpoint = clock()
        lastDurableCheckpoint = lastCheckpoint
    }

    var isCheckpointDue: Bool { clock() - lastCheckpoint >= Self.interval }

    /// Whether the next checkpoint has to survive a loss of power. Stays true while nothing is complete, and no durable one is
    /// written.
    var isDurableCheckpointDue: Bool { clock() - lastDurableCheckpoint >= Self.durableInterval }

    /// Starts the time until the next checkpoint.
    mutating func recordCheckpoint() { lastCheckpoint = clock() }

    mutating func recordDurableCheckpoint() {
        lastDurableCheckpoint = clock()
    }
}
