/// The files of a transfer that both ends have compared before its content was sent (`docs/PROTOCOL.md`, section 6.1).
package struct ComparedFiles: Sendable, Hashable {
    /// All compared files.
    package var fileCount: UInt64
    /// The files among them that the receiver had already.
    package var presentCount: UInt64
    /// The files of which the receiver keeps a newer one.
    package var newerCount: UInt64
    /// The content of the files that were not sent, in bytes; known to the sender at the end.
    package var unsentByteCount: UInt64 = 0

    /// Counts files. The counts are not checked.
    package init(fileCount: UInt64, presentCount: UInt64, newerCount: UInt64) {
        self.fileCount = fileCount
        self.presentCount = presentCount
        self.newerCount = newerCount
    }

    /// The files that had to be sent.
    package var sentCount: UInt64 { fileCount.subtractingClamped(presentCount).subtractingClamped(newerCount) }
}
