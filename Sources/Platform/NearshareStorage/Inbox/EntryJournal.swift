internal import NearshareBase
internal import NearshareInterfaces

/// The record of the complete entries of an incoming transfer, from which checkpoints are written for a later attempt.
struct EntryJournal {
    /// The accepted offer, as ``OfferDigest``.
    let offerDigest: [UInt8]
    private let directory: FileDescriptor
    private var checkpoints: CheckpointWriter
    /// nil until both ends agree on the point to resume from.
    private var completed: CompletedEntries?
    /// The last checkpoint of a transfer that cannot be resumed any further.
    private var lastCheckpoint: TransferCheckpoint?
    /// Changed names of complete entries.
    private(set) var changedNames = ChangedNames()

    init(of offerDigest: [UInt8], in staged: StagedTransfer, clock: @escaping @Sendable () -> MonotonicInstant) {
        self.offerDigest = offerDigest
        directory = staged.directory
        checkpoints = CheckpointWriter(of: staged, clock: clock)
    }

    /// Whether entries can be recorded.
    var isOpen: Bool { completed != nil }
    /// Content of the complete entries, in bytes.
    var byteCount: UInt64 { completed?.byteCount ?? 0 }

    // MARK: Start

    /// Begins without entries.
    mutating func start() throws(StorageError) {
        completed = CompletedEntries(names: try CompletedNames(in: directory, keeping: 0))
    }

    /// Continues after the complete entries of an earlier attempt.
    mutating func resume(from partial: PartialTransfer) {
        completed = CompletedEntries(resuming: partial)
        changedNames = partial.checkpoint.names
    }

    // MARK: Entries

    mutating func beginItem() throws(StorageError) { try completed?.beginItem() }

    /// - Parameter digest: the hash chain over the headers up to and including that of the entry.
    mutating func beginEntry(digest: [UInt8]) { completed?.beginEntry(digest: digest) }

    /// Records the current entry as complete.
    /// - Parameter depth: its depth below the item's directory.
    mutating func completeEntry(
        _ claimed: ClaimedFileName, storedAs stored: String, depth: Int, byteCount: UInt64
    ) throws(StorageError) {
        try completed?.completeEntry(name: stored, depth: depth, byteCount: byteCount)
        changedNames.record(claimed, storedAs: stored)
    }

    // MARK: Checkpoints

    var isCheckpointDue: Bool { lastCheckpoint == nil && checkpoints.isDue }

    /// Makes the complete entries the last ones that a later attempt skips. No entry must be open.
    mutating func fixCheckpoint(_ tree: StagedTree) throws(StorageError) {
        guard lastCheckpoint == nil else { return }
        try completed?.flushNames()
        lastCheckpoint = checkpoint(tree, nil)
        try writeCheckpoint(tree, nil)
    }

    /// Writes a checkpoint of the complete entries.
    /// - Parameters:
    ///   - tree: the open folders.
    ///   - open: the current entry, which is not complete.
    ///   - isDurable: whether it has to survive a loss of power.
    mutating func writeCheckpoint(_ tree: StagedTree, _ open: OpenEntry?, isDurable: Bool = false) throws(StorageError) {
        try completed?.flushNames()
        let checkpoint = lastCheckpoint ?? checkpoint(tree, open)
        if isDurable { try checkpoints.writeDurable(checkpoint) } else { try checkpoints.write(checkpoint) }
    }

    private func checkpoint(_ tree: StagedTree, _ open: OpenEntry?) -> TransferCheckpoint {
        // A folder that is the current entry is open, but not complete.
        var completeFolderCount = tree.folders.count
        var file: TransferCheckpoint.OpenFile?
        switch open {
        case .created(let entry)?: completeFolderCount = min(entry.depth, completeFolderCount)
        case .file(let open)?:
            file = TransferCheckpoint.OpenFile(claimed: open.claimed.bytes, stored: open.stored, size: open.header.size)
        case nil: break
        }
        return TransferCheckpoint(
            offerDigest: offerDigest, completeEntries: completed?.count ?? 0, completeBytes: byteCount,
            entriesDigest: completed?.digest ?? [], item: tree.item ?? 0,
            folders: tree.folders.prefix(completeFolderCount).map {
                TransferCheckpoint.OpenFolder(
                    claimed: $0.claimed.bytes, stored: $0.stored, modified: $0.modified, permissions: $0.permissions)
            },
            file: file, namesByteCount: completed?.names.byteCount ?? 0,
            changedNames: TransferCheckpoint.ChangedNameList(changedNames))
    }
}
