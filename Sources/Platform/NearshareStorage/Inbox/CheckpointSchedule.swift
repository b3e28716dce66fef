internal import NearshareBase

/// The times at which the checkpoints of an incoming transfer are due.
struct CheckpointSchedule {
    private let clock: @Sendable () -> MonotonicInstant
    private var lastCheckpoint: MonotonicInstant
    private var lastDurableCheckpoint: MonotonicInstant

    private static let interval = Duration.seconds(2)
    /// Limit on the work that a loss of power may cost in a transfer of many files.
    private static let durableInterval = Duration.seconds(30)

    init(clock: @escaping @Sendable () -> MonotonicInstant) {
        self.clock = clock
        lastCheckpoint = clock()
        lastDurableCheckpoint = lastCheckpoint
    }

    var isCheckpointDue: Bool { clock() - lastCheckpoint >= Self.interval }

    /// Records a checkpoint.
    /// - Returns: whether it has to be durable.
    mutating func recordCheckpoint() -> Bool {
        let now = clock()
        lastCheckpoint = now
        return now - lastDurableCheckpoint >= Self.durableInterval
    }

    mutating func recordDurableCheckpoint() {
        lastDurableCheckpoint = clock()
    }
}
