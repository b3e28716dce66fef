/// The entries of a content stream by kind, and those among them that the sender has withdrawn, for both ends.
package struct EntryTally: Sendable, Hashable {
    private var entryCount: UInt64 = 0
    private var fileCount: UInt64 = 0
    private var withdrawnCount: UInt64 = 0
    private var withdrawnFileCount: UInt64 = 0
    private var withdrawnByteCount: UInt64 = 0
    private var fileNames: [ClaimedFileName] = []
    private var folderNames: [ClaimedFileName] = []

    /// - Parameter keptCount: the entries that an earlier attempt has stored, whose kinds are not known: they count as files.
    package init(keptCount: UInt64 = 0) {
        (entryCount, fileCount) = (keptCount, keptCount)
    }

    /// Counts an entry.
    package mutating func record(_ header: EntryHeader) {
        entryCount = entryCount.addingClamped(1)
        if header.kind != .folder { fileCount = fileCount.addingClamped(1) }
    }

    /// Counts an entry that was recorded as withdrawn.
    package mutating func recordWithdrawal(of header: EntryHeader) {
        withdrawnCount = withdrawnCount.addingClamped(1)
        withdrawnByteCount = withdrawnByteCount.addingClamped(header.size ?? 0)
        guard let name = header.path.last else { return }
        if header.kind == .folder {
            if folderNames.count < MissingFiles.maximumListedCount { folderNames.append(name) }
        } else {
            withdrawnFileCount = withdrawnFileCount.addingClamped(1)
            if fileNames.count < MissingFiles.maximumListedCount { fileNames.append(name) }
        }
    }

    /// Whether entries were withdrawn, and no file remains.
    package var isAllWithdrawn: Bool {
        withdrawnCount > 0 && (withdrawnCount == entryCount || withdrawnFileCount > 0 && withdrawnFileCount == fileCount)
    }

    /// The withdrawn files and links, or folders where only folders were withdrawn; nil where nothing was, or nothing remains.
    package var missing: MissingFiles? {
        var missing =
            withdrawnFileCount > 0
            ? MissingFiles(count: withdrawnFileCount, of: fileCount, listed: fileNames)
            : MissingFiles(count: withdrawnCount, of: entryCount, listed: folderNames)
        missing?.contentByteCount = withdrawnByteCount
        return missing
    }
}
