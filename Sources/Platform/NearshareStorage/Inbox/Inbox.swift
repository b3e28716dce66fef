package import NearshareBase
package import NearshareInterfaces

/// The directory that received items are delivered to. It may be unmounted, read-only or full at any time; accepted items then
/// wait in the spool, where there is one.
public final class Inbox: Sendable {
    package let limits: InboxLimits
    private let filesystem: InboxFilesystem
    /// nil where the state directory does not outlive the node: what arrives is staged in the inbox alone.
    private let spool: StagingArea?
    /// nil where nothing is examined.
    private let detector: MediaTypeDetector?
    /// Delivers what waits in the spool when this process cannot write to the inbox itself.
    private let launcher: (any WorkerLauncher)?
    /// The path of the spool; nil for none.
    package let spoolPath: String?

    static let stagingName = ".nearshare"
    /// libmagic takes a millisecond for each item; further items have no detected type.
    private static let maximumExaminedItems = Offer.maximumDescribedItems

    /// - Parameters:
    ///   - path: created if necessary, for its owner alone (P12).
    ///   - home: the user's home directory, below which missing folders above the inbox are created too; nil for none.
    ///   - spoolPath: in the state directory, created if necessary; nil to refuse transfers while the inbox cannot be used.
    ///   - launcher: of workers; nil for a process that keeps its rights.
    package convenience init(
        path: String, home: String? = nil, spoolPath: String?, limits: InboxLimits = InboxLimits(),
        detector: MediaTypeDetector = MediaTypeDetector(), launcher: (any WorkerLauncher)? = nil
    ) throws(StorageError) {
        guard !path.isEmpty else { throw StorageError(.notFound, "the inbox needs a path") }
        try LocalPath.check(path)
        try self.init(
            filesystem: InboxFilesystem(path: try AbsolutePath.absolute(path), home: home), spoolPath: spoolPath,
            limits: limits,
            detector: detector, launcher: launcher)
    }

    private init(
        filesystem: InboxFilesystem, spoolPath: String?, limits: InboxLimits, detector: MediaTypeDetector?,
        launcher: (any WorkerLauncher)?
    ) throws(StorageError) {
        self.filesystem = filesystem
        self.spoolPath = spoolPath
        self.limits = limits
        self.detector = detector
        self.launcher = launcher
        spool = if let spoolPath { try StagingArea(path: spoolPath) } else { nil }
    }

    /// The absolute path; may contain symbolic links of the user's.
    package var path: String { filesystem.path }

    /// Creates the directory if it is missing.
    /// - Throws: when it cannot be used.
    package func prepare() throws(StorageError) {
        _ = try filesystem.open()
    }

    /// Checks that the directory can be used, or created, without creating it.
    /// - Returns: whether it exists.
    package func check() throws(StorageError) -> Bool { try filesystem.check() }

    /// Free space for a transfer, in bytes; nil when it is not known.
    package var freeSpace: UInt64? {
        limits.usable(of: ((try? filesystem.open(creating: false)) ?? spool?.directory)?.freeBytes)
    }

    /// Removes partial transfers that were not resumed within ``InboxLimits/partialLifetime``.
    package func removeStaleTransfers(now: WallTime) {
        for area in stagingAreas() { area.removeStaleTransfers(olderThan: limits.partialLifetime, now: now) }
    }

    /// The disk space that a peer's unfinished transfers take until they are resumed or removed, in bytes (Q7).
    /// - Parameter resumeKeys: of transfers that do not count, because they run or are about to.
    package func partialByteCount(of sender: Fingerprint, except resumeKeys: [[UInt8]]) -> UInt64 {
        stagingAreas().reduce(0) { $0.addingClamped($1.partialByteCount(of: sender, except: resumeKeys)) }
    }

    /// The bytes of content of an offer that an earlier, interrupted transfer of all of it has stored.
    /// - Parameter listed: the list of the first entries of the offer.
    package func receivedByteCount(
        of offer: Offer, listed: [EntryHeader], from sender: Fingerprint, resumeKey: [UInt8]
    ) -> UInt64 {
        receivedByteCount(
            in: Self.partialName(of: sender, resumeKey: resumeKey),
            offerDigest: OfferDigest.of(offer, listed: listed, selection: nil))
    }

    /// The name under which an unfinished transfer is kept.
    package static func partialName(of sender: Fingerprint, resumeKey: [UInt8]) -> String {
        StagingArea.name(of: sender, resumeKey)
    }

    /// The bytes of content that the unfinished transfer of a name has stored; 0 for none.
    package func receivedByteCount(ofPartial name: String) -> UInt64 { receivedByteCount(in: name, offerDigest: nil) }

    private func receivedByteCount(in name: String, offerDigest: [UInt8]?) -> UInt64 {
        stagingAreas().map { $0.receivedByteCount(in: name, offerDigest: offerDigest) }.max() ?? 0
    }

    /// Opens the destination of an accepted transfer.
    /// - Parameters:
    ///   - offer: what was accepted; of a part, the part as an offer of its own.
    ///   - listed: the list of its first entries, by which the user may have decided.
    ///   - selection: the accepted part; nil for the whole offer.
    ///   - sender: authenticated by its link.
    ///   - resumeKey: 32 bytes that the sender uses for all attempts at this transfer.
    ///   - mayCompare: whether the sender may learn which files of the item at a path are there already.
    ///   - reserveQuota: called when the disk space is known that the transfer takes, in bytes, before content; refuses it by throwing.
    package func makeSink(
        for offer: Offer, listed: [EntryHeader] = [], selection: EntrySelection? = nil, from sender: Fingerprint,
        resumeKey: [UInt8],
        mayCompare: (String) -> Bool = { _ in false },
        reserveQuota: @escaping @Sendable (UInt64) throws(StorageError) -> Void = { _ throws(StorageError) in },
        clock: @escaping @Sendable () -> MonotonicInstant
    ) throws(StorageError) -> any ResourceSink {
        let staged = try stagingArea().open(sender: sender, resumeKey: resumeKey)
        let cancellation = Cancellation()
        let comparison = (try? filesystem.open(creating: false)).flatMap { directory in
            InboxComparison(
                offer, in: directory, policy: limits.existing, rules: staged.nameRules, cancellation: cancellation,
                mayCompare: { mayCompare("\(path)/\($0)") })
        }
        return try IncomingTransferSink(
            offer: offer, listed: listed, selection: selection, staged: staged, comparison: comparison, inbox: self,
            cancellation: cancellation, reserveQuota: reserveQuota, clock: clock)
    }

    /// Whether files of an offer may be here already, so that less than all of it is received.
    /// - Parameter mayCompare: as for ``makeSink(for:listed:selection:from:resumeKey:mayCompare:reserveQuota:clock:)``.
    package func comparesFiles(of offer: Offer, mayCompare: (String) -> Bool) -> Bool {
        guard let directory = try? filesystem.open(creating: false) else { return false }
        return InboxComparison(
            offer, in: directory, policy: limits.existing, rules: directory.nameRules,
            mayCompare: { mayCompare("\(path)/\($0)") }) != nil
    }

    /// Moves items that wait in the spool into the inbox, as far as it accepts them.
    /// - Returns: the items that were moved.
    package func deliverPending() -> [DeliveredItem] {
        if let launcher, (try? filesystem.open()) == nil {
            return pendingPaths.isEmpty ? [] : PendingDelivery.run(by: launcher)
        }
        return deliverPendingInProcess()
    }

    func deliverPendingInProcess() -> [DeliveredItem] {
        var delivered: [DeliveredItem] = []
        for area in stagingAreas() { area.forEachFinished { delivered += deliver($0).filter(\.isInInbox) } }
        return delivered
    }

    /// The job ``WorkerJob/deliverPending``: the user may have replaced the inbox, or mounted its disk, after this process gave
    /// up its right to write elsewhere. The worker moves items from the spool to the path of this inbox, and nothing else.
    package var deliveryRoutine: WorkerRoutine {
        WorkerRoutine(isConfined: false) { [filesystem, spoolPath, limits] socket, _ in
            {
                // The types were detected when the items were received.
                let inbox = try? Inbox(
                    filesystem: filesystem, spoolPath: spoolPath, limits: limits, detector: nil, launcher: nil)
                guard let inbox else { return }
                PendingDelivery.answer(inbox.deliverPendingInProcess(), on: socket)
            }
        }
    }

    /// The paths of received items that wait for the inbox.
    package var pendingPaths: [String] {
        var paths: [String] = []
        for area in stagingAreas() {
            area.forEachFinished { staged in
                staged.forEachItem { number, name, _ in paths.append(staged.path(ofItem: number, named: name)) }
            }
        }
        return paths
    }

    /// The received items that wait for the inbox, with their sizes, which takes longer than ``pendingPaths`` for large folders.
    package var pendingItems: [PendingItem] {
        let inbox = try? filesystem.open(creating: false)
        let free = limits.usable(of: inbox?.freeBytes)
        var items: [PendingItem] = []
        for area in stagingAreas() {
            // Within the folder of the inbox nothing is copied.
            let space = area === spool ? free : nil
            area.forEachFinished { staged in
                staged.forEachItem { number, name, itemDirectory in
                    let size = FileTree.byteCount(of: name, in: itemDirectory)
                    items.append(
                        PendingItem(
                            path: staged.path(ofItem: number, named: name), byteCount: size,
                            insufficientSpace: space.flatMap { size > $0 ? $0 : nil }))
                }
            }
        }
        return items
    }

    // MARK: Staging

    /// The staging area from which a transfer can be renamed into the inbox: the spool if it is on the inbox's device,
    /// otherwise a hidden folder of the inbox.
    /// - Throws: when the inbox cannot be used, and there is no spool.
    private func stagingArea() throws(StorageError) -> StagingArea {
        do throws(StorageError) {
            let inbox = try filesystem.open()
            let device = try inbox.status().st_dev
            if let spool, spool.device == device { return spool }
            let area = try StagingArea(named: Self.stagingName, in: inbox, parentPath: path, creating: true)
            if let area { return area }
        } catch {
            if spool == nil { throw error }
        }
        guard let spool else { throw StorageError(.failed, "could not create a folder in the inbox \(shown(path))") }
        return spool
    }

    private func stagingAreas() -> [StagingArea] {
        guard let inbox = try? filesystem.open(creating: false),
            let area = try? StagingArea(named: Self.stagingName, in: inbox, parentPath: path, creating: false)
        else { return [spool].compactMap(\.self) }
        return [spool, area].compactMap(\.self)
    }

    // MARK: Delivering

    /// Gives every item of a finished transfer its final name. Items that the inbox does not accept stay in the staging area.
    func deliver(_ staged: StagedTransfer) -> [DeliveredItem] {
        let record = staged.finishedTransfer
        let described = record?.items ?? []
        let recorded = record?.existing ?? .keepBoth
        // Files are replaced only by the receiver whose user has said so, and not by a later one that finds the item in the spool.
        let policy = recorded.mergesFolders && recorded != limits.existing ? .skipIdentical : recorded
        var directory = try? InboxDirectory(filesystem.open(), path: path, limits: limits)
        var delivered: [DeliveredItem] = []
        var isComplete = true
        defer { detector?.purgeCache() }
        staged.forEachItem { number, name, itemDirectory in
            let claim = Int(number) < described.count ? described[Int(number)] : nil
            guard let claimedName = claim.flatMap({ ClaimedFileName(bytes: $0.claimedName) }) ?? ClaimedFileName(name) else {
                isComplete = false
                return
            }
            let facts = examine(name, in: itemDirectory, number: number, claim: claim)
            let placement = directory?.place(
                // The sender of a text, or of standard input without a name, names no file that the user knows (P15).
                name, from: itemDirectory, facts.kind == .text || claim?.isUnnamedStream == true ? .keepBoth : policy,
                mayContainHardLinks: record?.mayContainHardLinks ?? false)
            let stagedPath = staged.path(ofItem: number, named: name)
            var item = DeliveredItem(
                item: number, kind: facts.kind, claimedName: claimedName,
                path: placement.map { "\(path)/\($0.name)" } ?? stagedPath, isInInbox: placement != nil, size: facts.size,
                detectedType: facts.type, typeWarning: facts.warning, stagedPath: placement == nil ? nil : stagedPath)
            if let placement {
                (item.isPresent, item.isMerged) = (placement.isPresent, placement.isMerged)
                (item.replacedCount, item.newerCount) = (placement.replacedCount, placement.newerCount)
                (item.changedNames, item.isMergeable) = (placement.changedNames, placement.isMergeable)
            }
            delivered.append(item)
        }
        // Until the new names are durable, a loss of power could remove them: the staged transfer stays as well.
        let isDurable =
            policy.mergesFolders
            ? (try? directory?.descriptor.synchronizeFileSystem()) != nil : (try? directory?.descriptor.synchronize()) != nil
        if isComplete, delivered.allSatisfy(\.isInInbox), isDurable || delivered.isEmpty {
            staged.remove()
        } else {
            try? staged.makeMarkDurable()
        }
        return delivered
    }

    private func examine(
        _ name: String, in itemDirectory: FileDescriptor, number: UInt32, claim: FinishedTransfer.Item?
    ) -> (kind: OfferedItem.Kind, size: UInt64, type: String?, warning: String?) {
        let kind = claim.flatMap { OfferedItem.Kind(rawValue: $0.kind) }
        guard let file = try? itemDirectory.openForReading(name), let status = try? file.status() else {
            return (kind ?? .file, 0, nil, nil)
        }
        if status.isFolder { return (.folder, claim?.size ?? FileTree.contentByteCount(of: file), nil, nil) }
        let type = number < Self.maximumExaminedItems ? detector?.type(of: file) : nil
        return (
            kind ?? .file, UInt64(status.st_size), type,
            ContentTypeCheck.warning(name: name, claimed: claim?.claimedType, detected: type)
        )
    }
}
