internal import NearshareBase
internal import NearshareInterfaces

/// Writes one accepted transfer into its staging directory and hands it to the inbox when it is complete. Used by one thread at
/// a time.
final class IncomingTransferSink: ResourceSink {
    private let offer: Offer
    private let staged: StagedTransfer
    private let inbox: Inbox
    private let cancellation: Cancellation
    private var quota: TransferQuota
    private var present: InboxMatches
    /// The state that an earlier attempt has left.
    private var partial: PartialTransfer?
    private var journal: EntryJournal
    private var tree: StagedTree
    /// The entry that was begun and not ended.
    private var open: OpenEntry?
    /// Content of earlier attempts that cannot be used.
    private var discarded: StagedTransfer?
    /// Whether the sender has withdrawn entries.
    private var hasWithdrawnEntries = false
    /// Bytes of withdrawn entries in each described item.
    private var withdrawnByteCounts: [UInt32: UInt64] = [:]
    /// Whether each file and folder is synchronised by itself.
    private let syncsEachEntry: Bool

    /// Limit on the entries of a transfer that are synchronised one by one. Beyond it the whole file system is synchronised, which
    /// waits for other programs' writes too: minutes on a busy machine.
    private static let maximumIndividuallySyncedEntryCount = 16

    init(
        offer: Offer, listed: [EntryHeader], selection: EntrySelection?, staged: StagedTransfer,
        comparison: InboxComparison?, inbox: Inbox,
        cancellation: Cancellation, reserveQuota: @escaping @Sendable (UInt64) throws(StorageError) -> Void,
        clock: @escaping @Sendable () -> MonotonicInstant
    ) throws(StorageError) {
        (self.offer, self.staged, self.inbox, self.cancellation) = (offer, staged, inbox, cancellation)
        present = InboxMatches(comparison)
        quota = try TransferQuota(offer: offer, limits: inbox.limits, reserve: reserveQuota)
        // Files that the inbox has do not count, and are known later.
        if !present.isCompared { try quota.checkSize() }
        journal = EntryJournal(
            of: OfferDigest.of(offer, listed: listed, selection: selection), in: staged, clock: clock)
        tree = StagedTree(staged, limits: inbox.limits)
        syncsEachEntry = offer.entryCount <= Self.maximumIndividuallySyncedEntryCount
        tree.synchronizesFolders = syncsEachEntry
    }

    var changedNames: ChangedNames { journal.changedNames.adding(placedNames) }
    /// The names that got a number when the items were placed.
    private var placedNames = ChangedNames()

    /// The file that is being received; nil for none.
    private var file: OpenEntry.File? {
        get { if case .file(let file)? = open { file } else { nil } }
        set { open = newValue.map { .file($0) } }
    }

    // MARK: Resuming

    func resumePoint() throws(StorageError) -> ResumePoint {
        // Where the size is not known, the sender cannot say how much it skips.
        partial = offer.totalSize == nil ? nil : PartialTransfer(in: staged, of: journal.offerDigest)
        try partial?.findPoint(cancellation)
        return partial?.point ?? .start
    }

    func checkLimits() throws(StorageError) {
        if let shared = present.shared { quota.recordPresent(shared) }
        try quota.admit(beyond: try partial?.storedByteCount() ?? 0, free: staged.items.freeBytes)
    }

    func cancel() { cancellation.cancel() }

    func resume(at point: ResumePoint) throws(StorageError) {
        if !quota.isAdmitted { try checkLimits() }
        guard point != .start, let partial else {
            self.partial = nil
            discarded = try staged.clear()
            return try journal.start()
        }
        if inbox.limits.existing != .keepBoth { present.recordEarlierLinks() }
        try tree.resume(from: partial)
        journal.resume(from: partial)
        try partial.removeUnfinished(from: staged, keepsFile: point.partialSize > 0)
    }

    // MARK: Files that the inbox has

    var comparesFiles: Bool { present.isCompared }

    func compare(_ entry: EntryHeader, encodedHeader: [UInt8], number: UInt64) throws(StorageError) -> FilePresence {
        // Entries that an earlier attempt has stored are not received again anyway.
        guard number >= partial?.storedEntryCount ?? 0 else { return .absent }
        return try present.compare(entry, encodedHeader: encodedHeader, number: number)
    }

    func compareDigest(_ digest: [UInt8], number: UInt64) throws(StorageError) -> FilePresence {
        try present.compareDigest(digest, number: number)
    }

    func keepPresent(_ entry: EntryHeader, number: UInt64, entriesDigest: [UInt8]) throws(StorageError) {
        let (directory, claimed, name) = try enter(entry, entriesDigest)
        let (stored, isShared) = try present.stage(entry, number: number, named: name, in: directory)
        if isShared { quota.recordUnsent(entry.size ?? 0) }
        open = .created(
            OpenEntry.Created(claimed: claimed, stored: stored, depth: entry.path.count - 1, size: entry.size ?? 0))
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
        if try tree.enterItem(entry.item) { try journal.beginItem() }
        journal.beginEntry(digest: entriesDigest)
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
            open = .created(OpenEntry.Created(claimed: claimed, stored: stored, depth: depth))
        case .link(let target):
            guard inbox.limits.allowsLinks else { throw StorageError(.rejected, "this receiver accepts no symbolic links") }
            guard LinkTarget.staysInside(target, depth: entry.path.count) else {
                throw StorageError(.rejected, "the link \(claimed) leads out of what was offered")
            }
            let safe = LinkTarget.safe(target, rules: staged.nameRules)
            let stored = try tree.createLink(to: safe, named: name, in: directory)
            open = .created(OpenEntry.Created(claimed: claimed, stored: stored, depth: depth))
        case .file where offset > 0:
            guard let partial else { throw StorageError(.failed, "there is no partial file to resume") }
            open = .file(try partial.openFile(entry, claimed, at: offset, named: name, in: directory))
        case .file:
            let (descriptor, stored) = try tree.createFile(named: name, in: directory)
            let file = OpenEntry.File(entry, claimed, storedAs: stored, descriptor)
            open = .file(file)
            if file.isCheckpointed { try journal.writeCheckpoint(tree, open) }
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        guard file != nil else { throw StorageError(.failed, "content outside a file") }
        let received = receivedByteCount
        try quota.checkWrite(of: UInt64(bytes.count), received: received) { staged.items.freeBytes }
        do throws(StorageError) {
            try file?.write(bytes, within: quota) { staged.items.freeBytes }
        } catch {
            throw error.code == .noSpace ? quota.diskFullError(received: received) : error
        }
    }

    private var receivedByteCount: UInt64 { journal.byteCount.addingClamped(file?.size ?? 0) }

    func endEntry() throws(StorageError) {
        guard journal.isOpen else { throw StorageError(.failed, "an entry before the resume point is settled") }
        switch open {
        case .file(var file)?:
            try file.finish()
            tree.setAttributes(of: file.descriptor, from: file.header)
            if syncsEachEntry { try file.descriptor.synchronizeContent() }
            try journal.completeEntry(
                file.claimed, storedAs: file.stored, depth: file.header.path.count - 1, byteCount: file.size)
        case .created(let created)?:
            try journal.completeEntry(
                created.claimed, storedAs: created.stored, depth: created.depth, byteCount: created.size)
        case nil: break
        }
        open = nil
        if journal.isCheckpointDue { try journal.writeCheckpoint(tree, open) }
    }

    func enterFolder(_ entry: EntryHeader, entriesDigest: [UInt8]) throws(StorageError) {
        guard journal.isOpen else { throw StorageError(.failed, "an entry before the resume point is settled") }
        if try tree.enterAgain(entry.path, of: entry.item) { return }
        tree.recordsFolders = true
        try begin(entry, at: 0, entriesDigest: entriesDigest)
        try endEntry()
    }

    func withdraw(_ entry: EntryHeader) throws(StorageError) {
        guard journal.isOpen else { throw StorageError(.failed, "an entry before the resume point is settled") }
        if file != nil { try abandonEntry() }
        hasWithdrawnEntries = true
        if entry.item < UInt32(offer.items.count) {
            withdrawnByteCounts[entry.item, default: 0] = withdrawnByteCounts[entry.item, default: 0]
                .addingClamped(entry.size ?? 0)
        }
        // The sender may have the entry again by the next attempt.
        try journal.fixCheckpoint(tree)
    }

    func abandonEntry() throws(StorageError) {
        guard let file else { throw StorageError(.failed, "no file was begun") }
        try tree.enterParent(of: file.header.path).unlink(file.stored)
        open = nil
    }

    // MARK: Ends

    func finish() throws(StorageError) -> [DeliveredItem] {
        guard hasWithdrawnEntries else { return try finish(as: offer) }
        // Before the folders get other names.
        try tree.completeFolders(downTo: 0)
        var items: [UInt32] = []
        staged.forEachItem { number, _, _ in if items.last != number { items.append(number) } }
        try staged.keepItems(items)
        return try finish(as: offer.withdrawing(withdrawnByteCounts, keepingItems: items))
    }

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
            // Not the sender's fault.
            if staged.isRemoved { throw StorageError(.failed, "\(shown(staged.area.path)) was removed during the transfer") }
            throw StorageError(.rejected, "the content is not what was offered")
        }
        if !syncsEachEntry || present.hasCopies { try staged.items.synchronizeFileSystem() }
        try staged.markFinished(
            FinishedTransfer(offer, existing: inbox.limits.existing, mayContainHardLinks: present.mayContainHardLinks))
        let delivered = inbox.deliver(staged)
        placedNames = delivered.reduce(ChangedNames()) { $0.adding($1.changedNames) }
        return delivered
    }

    func suspend() {
        // Now, and not when the last reference is gone: another attempt of the sender may begin as soon as the end is reported.
        defer { staged.unlock() }
        // Before the resume point is settled, the state of the earlier attempt stays as it is.
        guard journal.isOpen else { return }
        // Content without a checkpoint is sent again; nothing else is lost.
        do throws(StorageError) {
            try file?.synchronize()
            try journal.writeCheckpoint(tree, open, isDurable: true)
        } catch {
            try? journal.writeCheckpoint(tree, open)
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
}
