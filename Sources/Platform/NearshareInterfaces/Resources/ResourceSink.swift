package import NearshareBase

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
    /// - Parameter number: the number of its entry in the stream; ascending.
    func compare(_ entry: EntryHeader, encodedHeader: [UInt8], number: UInt64) throws(StorageError) -> FilePresence

    /// Compares the file that was found for a candidate with a digest: SHA-256 of its listed header and content
    /// (`docs/PROTOCOL.md`, section 6.1). Reads the file.
    func compareDigest(_ digest: [UInt8], number: UInt64) throws(StorageError) -> FilePresence

    /// Checks limits and free space for what is still to be received. Called after files were compared, so that the sender
    /// learns the result before it sends content; otherwise ``resume(at:)`` checks them.
    func checkLimits() throws(StorageError)

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

    /// Completes the current entry.
    func endEntry() throws(StorageError)

    /// Enters a folder of the current item again, or creates it: for protocols whose files come in any order.
    /// - Parameter entriesDigest: as for ``begin(_:at:entriesDigest:)``.
    func enterFolder(_ entry: EntryHeader, entriesDigest: [UInt8]) throws(StorageError)

    /// Removes the file that was begun last, so that it can be begun again.
    func abandonEntry() throws(StorageError)

    /// Passes over an entry that the sender has withdrawn, and removes what was written of it. What follows cannot be resumed.
    func withdraw(_ entry: EntryHeader) throws(StorageError)

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

    /// Removes unused content of earlier attempts, after the end of this transfer was reported.
    func removeDiscarded()
}

extension ResourceSink {
    /// Appends the bytes to the entry that was begun.
    package func write(_ content: ArraySlice<UInt8>) throws(StorageError) {
        var failure: StorageError?
        content.withUnsafeBytes { bytes in
            do throws(StorageError) { try write(bytes) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    /// False: all content is received.
    package var comparesFiles: Bool { false }

    package func compare(
        _ entry: EntryHeader, encodedHeader: [UInt8], number: UInt64
    ) throws(StorageError) -> FilePresence { .absent }

    package func compareDigest(_ digest: [UInt8], number: UInt64) throws(StorageError) -> FilePresence { .absent }

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

    package func withdraw(_ entry: EntryHeader) throws(StorageError) {
        throw StorageError(.changed, "this destination stores all files or none")
    }

    /// Does nothing: the destination keeps nothing of earlier attempts.
    package func removeDiscarded() {}

    /// Checks nothing: the destination has no limits of its own.
    package func checkLimits() throws(StorageError) {}

    /// Does nothing: the destination reads no content.
    package func cancel() {}

    /// No names: the destination stores none.
    package var changedNames: ChangedNames { ChangedNames() }
}
