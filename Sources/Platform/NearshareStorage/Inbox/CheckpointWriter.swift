internal import NearshareBase
internal import NearshareInterfaces

/// Writes the checkpoints of a staged transfer, and tells when one is due.
struct CheckpointWriter {
    private let staged: StagedTransfer
    private let clock: @Sendable () -> MonotonicInstant
    private var lastCheckpoint: MonotonicInstant
    private var lastDurableCheckpoint: MonotonicInstant

    /// Each checkpoint writes the journal, which costs a few milliseconds.
    private static let interval = Duration.seconds(2)
    /// Limit on the content that has to be received again after a loss of power, in a transfer of many files.
    private static let durableInterval = Duration.seconds(30)

    init(of staged: StagedTransfer, clock: @escaping @Sendable () -> MonotonicInstant) {
        self.staged = staged
        self.clock = clock
        lastCheckpoint = clock()
        lastDurableCheckpoint = lastCheckpoint
    }

    var isDue: Bool { clock() - lastCheckpoint >= Self.interval }

    /// Writes a checkpoint that is valid until the machine restarts, and first a durable one where that is due.
    mutating func write(_ checkpoint: TransferCheckpoint) throws(StorageError) {
        lastCheckpoint = clock()
        // While nothing is complete it stays due, and none is written.
        if clock() - lastDurableCheckpoint >= Self.durableInterval, checkpoint.completeEntries > 0 {
            try replaceDurable(checkpoint)
        }
        var checkpoint = checkpoint
        checkpoint.bootID = TransferCheckpoint.currentBootID
        try staged.replace(TransferCheckpoint.fileName, with: checkpoint.encoded, durably: false)
    }

    /// Writes a checkpoint that survives a loss of power, with the content that it covers.
    mutating func writeDurable(_ checkpoint: TransferCheckpoint) throws(StorageError) {
        try replaceDurable(checkpoint)
        try staged.replace(TransferCheckpoint.fileName, with: checkpoint.encoded, durably: false)
    }

    private mutating func replaceDurable(_ checkpoint: TransferCheckpoint) throws(StorageError) {
        lastDurableCheckpoint = clock()
        if checkpoint.completeEntries > 0 { try staged.items.synchronizeFileSystem() }
        try staged.replace(TransferCheckpoint.durableFileName, with: checkpoint.encoded, durably: true)
    }
}
