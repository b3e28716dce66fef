/// Limits on received content, and the requests of senders that are granted.
package struct InboxLimits: Sendable, Hashable {
    /// Limit on the bytes of one transfer; nil for no limit but the free space.
    package var maximumSize: UInt64?
    /// Limit on the files, folders and links of one transfer (R13).
    package var maximumEntries: UInt64 = 1_000_000
    /// Bytes that stay free on the disk: a full disk breaks other programs, too (R8).
    package var minimumFreeByteCount: UInt64 = 64 << 20
    /// Whether symbolic links that stay inside their folder are created; otherwise a transfer that contains one is rejected.
    package var allowsLinks = true
    /// Whether harmless permission bits of the sender's are set; otherwise all files are 0600 and all folders 0700.
    package var keepsPermissions = true
    /// Whether the sender's executable bits of files are among them.
    package var keepsExecutable = false
    /// The treatment of items whose names are in use.
    package var existing = ExistingFilePolicy.keepBoth
    /// A partial transfer that is not resumed within this time is removed.
    package var partialLifetime = Duration.seconds(7 * 86_400)

    package init() {}

    /// Free bytes that a transfer may use; nil when the free space is not known.
    func usable(of free: UInt64?) -> UInt64? {
        free.map { $0 > minimumFreeByteCount ? $0 - minimumFreeByteCount : 0 }
    }
}
