package import NearshareBase

/// The content of a transfer: files, folders, standard input or text. It can be read more than once unless it is a stream.
package protocol ResourceSource: Sendable {
    /// The description of the content when the source was made.
    var offer: Offer { get }

    /// The first entries in their listed form, for a receiver that decides; empty where the offer says enough.
    var contents: [EntryHeader] { get }

    /// SHA-256 of the content of a single file, where it is known without reading it once more.
    var contentDigest: [UInt8]? { get }

    /// Starts reading all entries in their fixed order: items as given, the entries of a folder by the bytes of their names.
    func makeReader() throws(StorageError) -> any ResourceReader

    /// Ends reading for this receiver: it has everything, or needs it no longer. Receivers that share a stream go on without it.
    func cancel()
}

extension ResourceSource {
    package var contents: [EntryHeader] { [] }

    package var contentDigest: [UInt8]? { nil }

    package func cancel() {}
}

/// One pass over the entries of a source, used by one thread at a time. Calls block.
package protocol ResourceReader: AnyObject {
    /// Moves to the next entry, skipping unread content of the current one; nil after the last.
    func nextEntry() throws(StorageError) -> EntryHeader?

    /// Reads from the current entry's content. Returns 0 at its end. Never returns more than the size in the header: a file
    /// that has grown is truncated, one that has shrunk throws ``StorageError/Code/changed``.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int

    /// Moves to `offset` bytes from the start of the current entry's content; only in sources of known size.
    func seek(to offset: UInt64) throws(StorageError)

    /// Makes a blocked ``read(into:)`` throw. May be called from any thread and more than once.
    func cancel()

    /// Makes the reader return each entry as it was offered, also one that has vanished, shrunk or become unreadable since:
    /// ``withdrawal`` tells it. Called before anything is read; a reader that cannot do so fails instead.
    func allowWithdrawal()

    /// The reason why the current entry cannot be read: from the beginning, or since ``read(into:)`` has returned 0 before its
    /// end.
    var withdrawal: StorageError? { get }

    /// Sets the action for a failure that does not wait for the next call. It is called from any thread, at most once.
    func onFailure(_ action: @escaping @Sendable (StorageError) -> Void)
}

extension ResourceReader {
    package func allowWithdrawal() {}

    package var withdrawal: StorageError? { nil }

    package func onFailure(_ action: @escaping @Sendable (StorageError) -> Void) {}
}
