internal import NearshareInterfaces

/// The complete entries of an incoming transfer: their number, size, hash chain and names.
struct CompletedEntries {
    private(set) var count: UInt64 = 0
    /// Content of the complete entries, in bytes.
    private(set) var byteCount: UInt64 = 0
    /// The hash chain over their headers; empty before the first.
    private(set) var digest: [UInt8] = []
    private(set) var names: CompletedNames
    /// The hash chain up to and including the current entry.
    private var currentDigest: [UInt8] = []

    init(names: CompletedNames) {
        self.names = names
    }

    init(resuming partial: PartialTransfer) {
        count = partial.checkpoint.completeEntries
        byteCount = partial.checkpoint.completeBytes
        digest = partial.checkpoint.entriesDigest
        currentDigest = digest
        names = partial.names
    }

    mutating func beginItem() throws(StorageError) {
        try names.appendItem()
    }

    mutating func beginEntry(digest: [UInt8]) {
        currentDigest = digest
    }

    /// - Parameters:
    ///   - name: the stored name of the current entry.
    ///   - depth: its depth below the item's directory.
    ///   - byteCount: its content, in bytes.
    mutating func completeEntry(name: String, depth: Int, byteCount: UInt64) throws(StorageError) {
        try names.append(name, depth: depth)
        self.byteCount += byteCount
        count += 1
        digest = currentDigest
    }

    mutating func flushNames() throws(StorageError) {
        try names.flush()
    }
}
