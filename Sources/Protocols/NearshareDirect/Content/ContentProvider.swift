package import NearshareBase

/// The source of a transfer's content: a traversal of entries, with reads within the current one.
package protocol ContentProvider<Failure> {
    /// The error of the source.
    associatedtype Failure: Error

    /// Advances to the next entry; nil after the last.
    mutating func nextEntry() throws(Failure) -> EntryHeader?
    /// Reads from the current entry, at most its header's size in total.
    /// - Returns: The number of bytes read; 0 at the end of the entry, never before the size in its header, unless it is then
    ///   withdrawn.
    mutating func read(into buffer: UnsafeMutableRawBufferPointer) throws(Failure) -> Int
    /// Seeks within the current file.
    mutating func seek(to offset: UInt64) throws(Failure)
    /// Whether the current entry cannot be read as its header says: from the beginning, or since ``read(into:)`` has returned 0
    /// before its end.
    var isWithdrawn: Bool { get }
}

extension ContentProvider {
    /// False: an entry that cannot be read is a failure.
    package var isWithdrawn: Bool { false }
}
