internal import CNearshareShims
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// Writes one accepted transfer into its staging directory and hands it to the inbox when it is complete. Used by one thread at
/// a time.
final class IncomingTransferSink: ResourceSink {
    private struct OpenFile {
        let header: EntryHeader
        let claimed: ClaimedFileName
        let stored: String
        var writer: SparseWriter

        var descriptor: FileDescriptor { writer.file }
        /// Received bytes, including those of earlier attempts.
        var size: UInt64 { writer.size }
    }

    /// A folder, a link, or a file that is taken from the inbox: whole as soon as it is created.
    private struct CreatedEntry {
        let claimed: ClaimedFileName
        let stored: String
        let depth: Int
        var size: UInt64 = 0
    }

    /// The entry that was begun and not ended.
    private enum OpenEntry {
        case file(OpenFile)
        case created(CreatedEntry)
    }

    private let offer: Offer
    private let offerDigest: [UInt8]
    private let staged: StagedTransfer
    private let inbox: Inbox
    /// nil when nothing is compared.
    private var comparison: InboxComparison?
    /// Whether the content of a staged file was copied from the inbox.
    private var hasCopies = false
    /// Whether staged files may be hard links to files of the inbox.
    private var mayContainHardLinks = false
    private var quota: TransferQuota
    private let cancellation: Cancellation
    /// Reserves the bytes of the rest of the transfer in the limit of its peer.
    private let reserveQuota: @Sendable (UInt64) throws(StorageError) -> Void
    /// Whether limits and free space were checked; no content is received before.
    private var isAdmitted = false
    private var checkpoints: CheckpointWriter
    /// The state that an earlier attempt has left.
    private var partial: PartialTransfer?
    private var storedPoint = ResumePoint.start
    /// nil until both ends agree on the point to resume from.
    private var completed: CompletedEntries?
    /// Whether each file and folder is synchronised by itself.
    private let syncsEachEntry: Bool
    private var tree: StagedTree
    /// Content of earlier attempts that is of no use.
    private var discarded: StagedTransfer?
    private var open: OpenEntry?
    /// The file that is being received; nil for none.
    private var file: OpenFile? {
        get { if case .file(let file)? = open { file } else { nil } }
        set { open = newValue.map { .file($0) } }
    }
    /// Changed names of complete entries.
    private(set) var changedNames = ChangedNames()

    /// A checkpoint for a smaller file would cost more than sending the file again.
    private static let checkpointedFileSize: UInt64 = 1 << 20
    /// Limit on the entries of a transfer that are synchronised one by one. Beyond it the whole file system is synchronised, which
    /// waits for other programs' writes too: minutes on a busy machine.
    private static let maximumIndividuallySyncedEntryCount = 16

    init(
        offer: Offer, listed: [EntryHeader], selection: EntrySelection?, staged: StagedTransfer,
        comparison: InboxComparison?, inbox: Inbox,
        cancellation: Cancellation, reserveQuota: @escaping @Sendable (UInt64) throws(StorageError) -> Void,
        clock: @escaping @Sendable () -> MonotonicInstant
    ) throws(StorageError) {
        self.offer = offer
        offerDigest = OfferDigest.of(offer, listed: listed, selection: selection)
        self.staged = staged
        self.comparison = comparison
        self.inbox = inbox
        (self.cancellation, self.reserveQuota) = (cancellation, reserveQuota)
        quota = try TransferQuota(offer: offer, limits: inbox.limits)
        // Files that the inbox has do not count, and are known later.
        if comparison == nil { try quota.checkSize() }
        checkpoints = CheckpointWriter(of: staged, clock: clock)
        tree = StagedTree(staged, limits: inbox.limits)
        syncsEachEntry = offer.entryCount <= Self.maximumIndividuallySyncedEntryCount
        tree.synchronizesFolders = syncsEachEntry
    }

    // MARK: Resuming

    func resumePoint() throws(StorageError) -> ResumePoint {
        // Where the size is not known, the sender can't say how much it skips.
        partial = offer.totalSize == nil ? nil : PartialTransfer(in: staged, of: offerDigest)
        storedPoint = try partial?.resumePoint(cancellation) ?? .start
        return storedPoint
    }

    func checkLimits() throws(StorageError) {
        if let comparison { quota.recordPresent(comparison.shared) }
        try quota.checkSize()
        try quota.checkSpace(beyond: try partial?.storedByteCount(storedPoint) ?? 0, free: staged.items.freeBytes)
        try reserveQuota(quota.storedByteCount)
        isAdmitted = true
    }

    func cancel() { cancellation.cancel() }

    func resume(at point: ResumePoint) throws(StorageError) {
        if !isAdmitted { try checkLimits() }
        guard point != .start, let partial else {
            self.partial = nil
            discarded = try staged.clear()
            completed = CompletedEntries(names: try CompletedNames(in: staged.directory, keeping: 0))
            return
        }
        mayContainHardLinks = inbox.limits.existing != .keepBoth
        try tree.resume(from: partial)
        completed = CompletedEntries(resuming: partial)
        changedNames = partial.checkpoint.names
        try partial.removeUnfinished(from: staged, keepsFile: point.partialSize > 0)
    }

    // MARK: Files that the inbox has

    var comparesFiles: Bool { comparison != nil }

    func compare(_ entry: EntryHeader, encodedHeader: [UInt8], number: UInt64) throws(StorageError) -> FilePresence {
        // Entries that an earlier attempt has stored are not received again anyway.
        let storedCount = (partial?.checkpoint.completeEntries ?? 0).addingClamped(storedPoint.partialSize > 0 ? 1 : 0)
        guard number >= storedCount else { return .absent }
        return try comparison?.compare(entry, encodedHeader: encodedHeader, number: number) ?? .absent
    }

    func compareDigest(_ digest: [UInt8], number: UInt64) throws(StorageError) -> FilePresence {
        try comparison?.decide(number: number, digest: digest) ?? .absent
    }

    func keepPresent(_ entry: EntryHeader, number: UInt64, entriesDigest: [UInt8]) throws(StorageError) {
        let (directory, claimed, name) = try enter(entry, entriesDigest)
        let stored = try StagedTree.create(name) { (candidate) throws(StorageError) -> String? in
            guard let isHardLink = try comparison?.stage(entry, number: number, as: candidate, in: directory) else {
                return nil
            }
            if isHardLink { mayContainHardLinks = true } else { hasCopies = true }
            return candidate
        }
        if comparison?.isShared(entry, number: number) == true { quota.recordUnsent(entry.size ?? 0) }
        open = .created(
            CreatedEntry(claimed: claimed, stored: stored, depth: entry.path.count - 1, size: entry.size ?? 0))
    }

    // MARK: Entries

    /// Moves to the folder of an entry.
    private func enter(
        _ entry: EntryHeader, _ entriesDigest: [UInt8]
    ) throws(StorageError) -> (directory: FileDescriptor, claimed: ClaimedFileName, name: SafeFileName) {
        guard (1...EntryHeader.maximumDepth).contains(entry.path.count), let claimed = entry.path.last,
            entry.path.reduce(0, { $0 + $1.bytes.count }) <= EntryHeader.maximumPathByteCount
        else { throw StorageError(.rejected, "a path is too long") }
        try quota.checkEntry(received: receivedByteCount) { staged.items.freeBytes }
        if try tree.enterItem(entry.item) { try completed?.beginItem() }
        completed?.beginEntry(digest: entriesDigest)
        let directory = try tree.enterParent(of: entry.path)
        let depth = entry.path.count - 1
        return (
            directory, claimed, SafeFileName(claimed, mayBeHidden: depth > 0, rules: depth > 0 ? staged.nameRules : .windows)
        )
    }

    func begin(_ entry: EntryHeader, at offset: UInt64, entriesDigest: [UInt8]) throws(StorageError) {
        let (directory, claimed, name) = try enter(entry, entriesDigest)
        let depth = entry.path.count - 1
        switch entry.kind {
        case .folder:
            let stored = try tree.createFolder(entry, named: name, in: directory)
            open = .created(CreatedEntry(claimed: claimed, stored: stored, depth: depth))
        case .link(let target):
            guard inbox.limits.allowsLinks else { throw StorageError(.rejected, "this receiver accepts no symbolic links") }
            guard LinkTarget.staysInside(target, depth: entry.path.count) else {
                throw StorageError(.rejected, "the link \(claimed) leads out of what was offered")
            }
            let stored = try tree.createLink(to: target, named: name, in: directory)
            open = .created(CreatedEntry(claimed: claimed, stored: stored, depth: depth))
        case .file where offset > 0:
            open = .file(try resumeFile(entry, claimed, at: offset, named: name, in: directory))
        case .file: try createFile(entry, claimed, named: name, in: directory)
        }
    }

    private func createFile(
        _ entry: EntryHeader, _ claimed: ClaimedFileName, named name: SafeFileName, in directory: FileDescriptor
    ) throws(StorageError) {
        let (descriptor, stored) = try tree.createFile(named: name, in: directory)
        let writer = SparseWriter(descriptor, preallocated: Self.mayPreallocate(descriptor, entry) ? 0 : .max)
        open = .file(OpenFile(header: entry, claimed: claimed, stored: stored, writer: writer))
        if entry.size ?? .max >= Self.checkpointedFileSize { try writeCheckpoint() }
    }

    /// Whether space is preallocated for a file, which keeps a large one unfragmented.
    private static func mayPreallocate(_ descriptor: FileDescriptor, _ entry: EntryHeader) -> Bool {
        entry.size ?? 0 >= checkpointedFileSize && nearshare_is_in_memory(descriptor.rawValue) == 0
    }

    /// Preallocates space for the next bytes of a file, a step ahead of those that were received (Q7).
    private func preallocate(upTo written: UInt64) {
        guard let current = file, written > current.writer.preallocated, let size = current.header.size else { return }
        let start = current.writer.preallocated
        guard let end = quota.preallocationEnd(after: written, of: size, free: staged.items.freeBytes), end > start else {
            return
        }
        // File systems that can't preallocate do without.
        let length = off_t(clamping: end.subtractingClamped(start))
        let isPreallocated = nearshare_preallocate(current.descriptor.rawValue, off_t(clamping: start), length) == 0
        file?.writer.preallocated = isPreallocated ? end : .max
    }

    /// Opens the partial file of an earlier attempt, moving it if the sender has renamed it since: names of unfinished files
    /// are not part of what both ends compare.
    private func resumeFile(
        _ entry: EntryHeader, _ claimed: ClaimedFileName, at offset: UInt64, named name: SafeFileName,
        in directory: FileDescriptor
    ) throws(StorageError) -> OpenFile {
        guard let partial, let descriptor = partial.file, let open = partial.checkpoint.file else {
            throw StorageError(.failed, "there is no partial file to resume")
        }
        let formerDirectory = partial.innermostDirectory
        var stored = open.stored
        let isInPlace = try formerDirectory.status().st_ino == directory.status().st_ino
        if !isInPlace || open.claimed != claimed.bytes {
            stored = try StagedTree.create(name) { (candidate) throws(StorageError) -> String? in
                do throws(SystemCallError) {
                    return try formerDirectory.rename(open.stored, to: candidate, in: directory) ? candidate : nil
                } catch {
                    throw StorageError(error.code, "could not resume \(name)")
                }
            }
        }
        try descriptor.truncate(to: offset)
        try descriptor.seek(to: offset)
        let preallocated = Self.mayPreallocate(descriptor, entry) ? offset : .max
        return OpenFile(
            header: entry, claimed: claimed, stored: stored,
            writer: SparseWriter(descriptor, size: offset, preallocated: preallocated))
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        guard file != nil else { throw StorageError(.failed, "content outside a file") }
        let received = receivedByteCount
        try quota.checkWrite(of: UInt64(bytes.count), received: received) { staged.items.freeBytes }
        preallocate(upTo: (file?.size ?? 0).addingClamped(UInt64(bytes.count)))
        do throws(StorageError) {
            try file?.writer.write(bytes)
        } catch {
            throw error.code == .noSpace ? quota.diskFullError(received: received) : error
        }
    }

    private var receivedByteCount: UInt64 { (completed?.byteCount ?? 0).addingClamped(file?.size ?? 0) }

    func endEntry() throws(StorageError) {
        guard completed != nil else { throw StorageError(.failed, "an entry before the resume point is settled") }
        switch open {
        case .file(var file)?:
            try file.writer.finish()
            tree.setAttributes(of: file.descriptor, from: file.header)
            if syncsEachEntry { try file.descriptor.synchronizeContent() }
            try completed?.completeEntry(name: file.stored, depth: file.header.path.count - 1, byteCount: file.size)
            changedNames.record(file.claimed, storedAs: file.stored)
        case .created(let created)?:
            try completed?.completeEntry(name: created.stored, depth: created.depth, byteCount: created.size)
            changedNames.record(created.claimed, storedAs: created.stored)
        case nil: break
        }
        open = nil
        if checkpoints.isDue { try writeCheckpoint() }
    }

    func enterFolder(_ entry: EntryHeader, entriesDigest: [UInt8]) throws(StorageError) {
        guard completed != nil else { throw StorageError(.failed, "an entry before the resume point is settled") }
        if try tree.enterAgain(entry.path, of: entry.item) { return }
        tree.recordsFolders = true
        try begin(entry, at: 0, entriesDigest: entriesDigest)
        try endEntry()
    }

    func abandonEntry() throws(StorageError) {
        guard let file else { throw StorageError(.failed, "no file was begun") }
        try tree.enterParent(of: file.header.path).unlink(file.stored)
        open = nil
    }

    // MARK: Ends

    func finish() throws(StorageError) -> [DeliveredItem] { try finish(as: offer) }

    func finish(only stored: [EntryHeader]) throws(StorageError) -> [DeliveredItem] {
        let items = Set(stored.map(\.item)).sorted()
        // Before the folders get other names.
        try tree.completeFolders(downTo: 0)
        try staged.keepItems(items)
        return try finish(as: offer.restricted(to: stored, inItems: items))
    }

    private func finish(as offer: Offer) throws(StorageError) -> [DeliveredItem] {
        try tree.completeFolders(downTo: 0)
        guard staged.matches(offer, keepsNewer: inbox.limits.existing == .update) else {
            throw StorageError(.rejected, "the content is not what was offered")
        }
        if !syncsEachEntry || hasCopies { try staged.items.synchronizeFileSystem() }
        try staged.markFinished(
            FinishedTransfer(offer, existing: inbox.limits.existing, mayContainHardLinks: mayContainHardLinks))
        return inbox.deliver(staged)
    }

    func suspend() {
        // Now, and not when the last reference is gone: another attempt of the sender may begin as soon as the end is reported.
        defer { staged.unlock() }
        // Before the resume point is settled, the state of the earlier attempt stays as it is.
        guard completed != nil else { return }
        // Content without a checkpoint is sent again; nothing else is lost.
        do throws(StorageError) {
            if let file {
                // Releases the space that was preallocated beyond the received content.
                try file.descriptor.truncate(to: file.size)
                try file.descriptor.synchronizeContent()
            }
            try writeCheckpoint(isDurable: true)
        } catch {
            try? writeCheckpoint()
        }
        open = nil
    }

    func discard() {
        open = nil
        staged.remove()
    }

    func removeDiscarded() {
        discarded?.remove()
        discarded = nil
    }

    // MARK: Checkpoints

    private func writeCheckpoint(isDurable: Bool = false) throws(StorageError) {
        try completed?.flushNames()
        if isDurable { try checkpoints.writeDurable(checkpoint) } else { try checkpoints.write(checkpoint) }
    }

    private var checkpoint: TransferCheckpoint {
        TransferCheckpoint(
            offerDigest: offerDigest, completeEntries: completed?.count ?? 0, completeBytes: completed?.byteCount ?? 0,
            entriesDigest: completed?.digest ?? [], item: tree.item ?? 0,
            folders: tree.folders.prefix(completeFolderCount).map {
                TransferCheckpoint.OpenFolder(
                    claimed: $0.claimed.bytes, stored: $0.stored, modified: $0.modified, permissions: $0.permissions)
            },
            file: file.map {
                TransferCheckpoint.OpenFile(claimed: $0.claimed.bytes, stored: $0.stored, size: $0.header.size)
            },
            namesByteCount: completed?.names.byteCount ?? 0, changedNames: TransferCheckpoint.ChangedNameList(changedNames))
    }

    /// The number of open folders whose own entries are complete.
    private var completeFolderCount: Int {
        guard case .created(let entry)? = open else { return tree.folders.count }
        return min(entry.depth, tree.folders.count)
    }
}
