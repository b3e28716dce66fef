package import NearshareBase

/// A received item that has its final name, or waits in the spool for the inbox.
public struct DeliveredItem: Sendable, Hashable {
    package var item: UInt32
    package var kind: OfferedItem.Kind
    /// The name that the sender gave it.
    package var claimedName: ClaimedFileName
    /// The present path.
    public var path: String
    /// False while the item waits in the spool because the inbox is not available.
    package var isInInbox: Bool
    /// The path in the spool, for an item that has waited there.
    package var stagedPath: String?
    /// The content in bytes.
    public var size: UInt64
    /// Whether everything was in the inbox already, so that nothing has changed.
    package var isPresent = false
    /// Whether it was merged into an item of the inbox, or has replaced one: not all of it was received.
    package var isMerged = false
    /// Files of the inbox that received ones have replaced.
    package var replacedCount: UInt64 = 0
    /// Files of the inbox that stay because they are not older than the received ones.
    package var newerCount: UInt64 = 0
    /// The media type that libmagic detects in the content; nil for folders.
    public var detectedType: String?
    /// A warning that name, claimed type and content disagree; nil when they agree.
    public var typeWarning: String?

    package init(
        item: UInt32, kind: OfferedItem.Kind, claimedName: ClaimedFileName, path: String, isInInbox: Bool, size: UInt64,
        detectedType: String?, typeWarning: String?, stagedPath: String? = nil
    ) {
        self.item = item
        self.kind = kind
        self.claimedName = claimedName
        self.path = path
        self.isInInbox = isInInbox
        self.stagedPath = stagedPath
        self.size = size
        self.detectedType = detectedType
        self.typeWarning = typeWarning
    }
}

/// The destination of one accepted transfer, used by one thread at a time. Calls block.
///
/// No final name exists before ``finish()``. The caller has checked the order of calls (begin, write…, end) but not names,
/// sizes and link targets: they are still claims.
package protocol ResourceSink: AnyObject {
    /// The point up to which an earlier attempt was received; ``ResumePoint/start`` when there was none. Reads the partial
    /// content, which may take long.
    func resumePoint() throws(StorageError) -> ResumePoint

    /// Whether files of the offer may be present already, so that they are compared before they are sent. Read after
    /// ``resumePoint()``.
    var comparesFiles: Bool { get }

    /// Looks for a file with the name and size of a listed one.
    /// - Parameter number: of its entry in the stream; ascending.
    func compare(_ entry: EntryHeader, encodedHeader: [UInt8], number: UInt64) throws(StorageError) -> FilePresence

    /// Compares the file that was found for a candidate with a digest: SHA-256 of its listed header and content
    /// (`docs/PROTOCOL.md`, section 6.1). Reads the file.
    func decide(number: UInt64, digest: [UInt8]) throws(StorageError) -> FilePresence

    /// Checks limits and free space for what is still to be received. Called after files were compared, so that the sender
    /// learns the result before it sends content; ``resume(at:)`` makes up for it otherwise.
    func checkSpace() throws(StorageError)

    /// Makes a call that reads much content throw, and later ones. May be called from any thread and more than once.
    func cancel()

    /// Continues at the point that the sender has accepted. Content beyond it is removed.
    func resume(at point: ResumePoint) throws(StorageError)

    /// Starts an entry, whose content follows from `offset`.
    /// - Parameter entriesDigest: the hash chain over all headers including this one, stored for resuming.
    func begin(_ entry: EntryHeader, at offset: UInt64, entriesDigest: [UInt8]) throws(StorageError)

    func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError)

    /// Starts an entry whose content is that of the file that was found for it; ``endEntry()`` follows.
    func keepPresent(_ entry: EntryHeader, number: UInt64, entriesDigest: [UInt8]) throws(StorageError)

    /// Completes the present entry.
    func endEntry() throws(StorageError)

    /// Enters a folder of the present item again, or creates it: for protocols whose files come in any order.
    /// - Parameter entriesDigest: as for ``begin(_:at:entriesDigest:)``.
    func enterFolder(_ entry: EntryHeader, entriesDigest: [UInt8]) throws(StorageError)

    /// Removes the file that was begun last, so that it can be begun again.
    func abandonEntry() throws(StorageError)

    /// The names of complete entries that were stored under other ones.
    var changedNames: ChangedNames { get }

    /// Completes the transfer: makes its entries durable and gives them their final names.
    func finish() throws(StorageError) -> [DeliveredItem]

    /// Completes the transfer with some of the offered files alone, for protocols in which one file can fail: the others are
    /// delivered, and an item without any of them is left out.
    /// - Parameter stored: the complete files, at least one.
    func finish(only stored: [EntryHeader]) throws(StorageError) -> [DeliveredItem]

    /// Stops the transfer so that it can be resumed later; makes the received content durable.
    func suspend()

    /// Removes the received content of this transfer.
    func discard()

    /// Removes content of earlier attempts that was of no use, after the end of this transfer was reported.
    func removeDiscarded()
}

extension ResourceSink {
    /// False: everything is received.
    package var comparesFiles: Bool { false }

    package func compare(
        _ entry: EntryHeader, encodedHeader: [UInt8], number: UInt64
    ) throws(StorageError) -> FilePresence { .absent }

    package func decide(number: UInt64, digest: [UInt8]) throws(StorageError) -> FilePresence { .absent }

    package func keepPresent(_ entry: EntryHeader, number: UInt64, entriesDigest: [UInt8]) throws(StorageError) {
        throw StorageError(.failed, "no file of this destination is compared")
    }

    /// Creates the folder.
    package func enterFolder(_ entry: EntryHeader, entriesDigest: [UInt8]) throws(StorageError) {
        try begin(entry, at: 0, entriesDigest: entriesDigest)
        try endEntry()
    }

    package func finish(only stored: [EntryHeader]) throws(StorageError) -> [DeliveredItem] {
        throw StorageError(.failed, "this destination stores all files or none")
    }

    package func abandonEntry() throws(StorageError) {
        throw StorageError(.failed, "what was written cannot be removed")
    }

    /// Does nothing: the destination keeps nothing of earlier attempts.
    package func removeDiscarded() {}

    /// Nothing: the destination has no limits of its own.
    package func checkSpace() throws(StorageError) {}

    /// Does nothing: the destination reads no content.
    package func cancel() {}

    /// None: a destination without names.
    package var changedNames: ChangedNames { ChangedNames() }
}
