internal import NearshareBase
internal import NearshareInterfaces

/// The files of an incoming transfer that the inbox has already, and that are taken from there.
struct InboxMatches {
    /// nil when nothing is compared.
    private var comparison: InboxComparison?
    /// Whether the content of a staged file was copied from the inbox.
    private(set) var hasCopies = false
    /// Whether staged files may be hard links to files of the inbox.
    private(set) var mayContainHardLinks = false

    init(_ comparison: InboxComparison?) { self.comparison = comparison }

    /// Whether files are compared with those of the inbox.
    var isCompared: Bool { comparison != nil }

    /// The files that need no space in all, as far as they are known; nil when nothing is compared.
    var shared: (count: UInt64, byteCount: UInt64)? { comparison?.shared }

    /// Records that an earlier attempt may have linked files of the inbox.
    mutating func recordEarlierLinks() { mayContainHardLinks = true }

    mutating func compare(
        _ entry: EntryHeader, encodedHeader: [UInt8], number: UInt64
    ) throws(StorageError) -> FilePresence {
        try comparison?.compare(entry, encodedHeader: encodedHeader, number: number) ?? .absent
    }

    mutating func compareDigest(_ digest: [UInt8], number: UInt64) throws(StorageError) -> FilePresence {
        try comparison?.decide(number: number, digest: digest) ?? .absent
    }

    /// Puts the present file of an entry into the staging area.
    /// - Returns: the stored name, and whether the file needs no space because it is linked.
    mutating func stage(
        _ entry: EntryHeader, number: UInt64, named name: SafeFileName, in directory: FileDescriptor
    ) throws(StorageError) -> (stored: String, isShared: Bool) {
        let stored = try StagedTree.create(name) { (candidate) throws(StorageError) -> String? in
            guard let isHardLink = try comparison?.stage(entry, number: number, as: candidate, in: directory) else {
                return nil
            }
            if isHardLink { mayContainHardLinks = true } else { hasCopies = true }
            return candidate
        }
        return (stored, comparison?.isShared(entry, number: number) == true)
    }
}
