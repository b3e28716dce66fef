package import NearshareBase

/// Why something could not be read from where it comes from or written to where it goes. The text is for people.
public struct StorageError: Error, Sendable, CustomStringConvertible {
    package enum Code: Sendable, Hashable {
        case notFound
        case noPermission
        /// The disk is full or a quota is used up. `missing` in the text, where it is known.
        case noSpace
        /// Beyond a limit that the person has set.
        case overLimit
        /// The source is no longer what was offered.
        case changed
        /// What a peer sent can't be stored as it asks.
        case refused
        case failed
    }

    package let code: Code
    public let description: String

    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}

/// Where content comes from: files, folders, standard input, text. It can be walked more than once unless it is a stream.
package protocol ResourceSource: Sendable {
    /// What it amounts to, as it was found when the source was made.
    var offer: Offer { get }

    /// Starts a walk over all entries in their fixed order: items as given, inside a folder by the bytes of the names.
    func makeReader() throws(StorageError) -> any ResourceReader
}

/// One walk over a source, by one thread at a time. Calls block.
package protocol ResourceReader: AnyObject {
    /// Goes on to the next entry, leaving what was not read of the present one; nil after the last.
    func nextEntry() throws(StorageError) -> EntryHeader?

    /// Reads on in the present entry's content. Returns 0 at its end. Never gives more than the header's size:
    /// a file that has grown is cut there, one that has shrunk throws ``StorageError/Code/changed``.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int

    /// Moves to `offset` bytes from the start of the present entry's content; only in sources of known size.
    func seek(to offset: UInt64) throws(StorageError)

    /// Makes a blocked ``read(into:)`` return by throwing. From any thread, also more than once.
    func cancel()
}

/// Something that has arrived and has its final name, or waits in the spool for the inbox to come back.
public struct DeliveredItem: Sendable, Hashable {
    package var item: UInt32
    package var kind: OfferedItem.Kind
    /// As the sender called it.
    package var claimedName: ClaimedFileName
    /// Where it is now, for people and programs on this machine.
    public var path: String
    /// False while it waits in the spool because the inbox is unavailable.
    package var isInInbox: Bool
    /// Where it was before it came into the inbox: its path as long as it waited for that.
    package var stagedPath: String?
    public var size: UInt64
    /// What libmagic says of the content; nil for folders.
    public var detectedType: String?
    /// Why name, claim and content do not agree; nil when they do.
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

/// Where one accepted transfer goes, by one thread at a time. Calls block.
///
/// Nothing appears under a final name before ``finish()``. The protocol's order (begin, write…, end) has been checked by
/// the caller; names, sizes and links have not: they are still claims.
package protocol ResourceSink: AnyObject {
    /// What is there of an earlier try; ``ResumePoint/start`` when nothing is. May take long: it reads what is there.
    func resumePoint() throws(StorageError) -> ResumePoint

    /// The sender's answer to ``resumePoint()``: it goes on from here. What was kept beyond is dropped.
    func resume(at point: ResumePoint) throws(StorageError)

    /// The content of `entry` follows, from `offset`.
    /// - Parameter entriesDigest: the chain over all headers up to and including this one, kept for resuming.
    func begin(_ entry: EntryHeader, at offset: UInt64, entriesDigest: [UInt8]) throws(StorageError)

    func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError)

    /// The present entry is complete.
    func endEntry() throws(StorageError)

    /// All entries are complete: makes them durable and gives them their final names.
    func finish() throws(StorageError) -> [DeliveredItem]

    /// The transfer stops here and may be resumed later: makes durable what has arrived.
    func suspend()

    /// Removes what has arrived, and only that.
    func discard()
}
