internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// One pass over the files of a source. Its content must equal the offer, which is all that the receiver has accepted.
final class FileReader: ResourceReader {
    private let source: FileSource
    private var nextItem = 0
    /// The current folder's item and its enumerator.
    private var folder: (item: FileSource.Item, enumerator: FolderEnumerator)?
    private var header: EntryHeader?
    /// The current entry's content.
    private var content: Content?
    /// Content of the current folder up to here.
    private var folderSize: UInt64 = 0
    private var folderEntryCount: UInt64 = 0
    private let cancellation = Cancellation()
    /// The offered entries that were not returned yet; nil where an entry that is lost is a failure.
    private var offered: OfferedEntries.Iterator?
    /// The offered entries that were not found yet, where a lost one is a failure; nil where they are not known.
    private var awaited: OfferedEntries.Iterator?
    /// An entry that is in the source, and comes after the current one.
    private var next: (header: EntryHeader, file: FileDescriptor?)?
    private(set) var withdrawal: StorageError?

    /// The content of the current file, as far as it was read.
    private struct Content {
        let file: FileDescriptor
        /// The file when it was opened.
        let version: FileVersion
        let modified: Int64
        var position: UInt64 = 0
        /// The place where ``checksum`` begins.
        var start: UInt64 = 0
        var checksum = ContentChecksum()

        init(_ file: FileDescriptor) throws(StorageError) {
            self.file = file
            let status = try file.status()
            (version, modified) = (FileVersion(status), status.modifiedNanoseconds)
        }
    }

    private static let sequentialSize: UInt64 = 1 << 20

    init(_ source: FileSource) {
        self.source = source
        if source.entries.isComplete { awaited = source.entries.makeIterator() }
    }

    func allowWithdrawal() {
        // A transfer without its only entry is a failure, after which the part that was sent can be resumed.
        if source.entries.isComplete, source.offer.entryCount > 1 { (offered, awaited) = (source.entries.makeIterator(), nil) }
    }

    func nextEntry() throws(StorageError) -> EntryHeader? {
        try cancellation.check()
        content = nil
        guard offered != nil else {
            guard let (header, file) = try findEntry() else { return nil }
            return try beginEntry(header, file)
        }
        return try nextOfferedEntry()
    }

    /// Moves to the next offered entry. What has been added to the source since is not sent.
    private func nextOfferedEntry() throws(StorageError) -> EntryHeader? {
        withdrawal = nil
        guard let expected = offered?.next() else { return nil }
        while true {
            if next == nil { next = try findReadableEntry() }
            guard let (header, file) = next, !expected.precedes(header) else { return withdraw(expected) }
            next = nil
            // The time of a folder changes with its entries; that of the offer lets a later attempt resume.
            if header.matches(expected) { return try beginEntry(header.kind == .folder ? expected : header, file) }
            if header.hasGrown(since: expected, offered?.sample, file) { return try beginEntry(expected, file) }
            if !header.precedes(expected) { return withdraw(expected) }
        }
    }

    private func withdraw(_ header: EntryHeader) -> EntryHeader {
        self.header = header
        let path = header.path.map(\.shown).joined(separator: "/")
        withdrawal = StorageError(.changed, "\(path) was changed, moved or removed, or can no longer be read; send it again")
        return header
    }

    /// Skips entries that cannot be read. Other failures, such as those of the machine, may be over when it is sent again.
    private func findReadableEntry() throws(StorageError) -> (EntryHeader, FileDescriptor?)? {
        while true {
            try cancellation.check()
            do throws(StorageError) {
                return try findEntry()
            } catch {
                switch error.code {
                case .notFound, .noPermission, .changed, .rejected: continue
                case .noSpace, .overLimit, .outputClosed, .unsuitable, .failed: throw error
                }
            }
        }
    }

    /// Moves to the next entry of the source.
    private func findEntry() throws(StorageError) -> (EntryHeader, FileDescriptor?)? {
        while true {
            if let (item, enumerator) = folder {
                if let (found, file) = try enumerator.next(opening: true) {
                    let header = asOffered(found, file)
                    try count(header, in: item)
                    return (header, file)
                }
                folder = nil
                guard offered != nil || folderSize == item.size && folderEntryCount == item.entryCount else {
                    throw changed(item)
                }
            }
            guard nextItem < source.items.count else { return nil }
            let item = source.items[nextItem]
            let number = UInt32(nextItem)
            nextItem += 1
            let opened = try FileDescriptor.openForReading(item.path)
            let status = try opened.status()
            if status.isFolder {
                let enumerator = FolderEnumerator(
                    opened, name: item.name, item: number, options: source.options, shownPath: item.path.text)
                folder = (item, enumerator)
                (folderSize, folderEntryCount) = (0, 0)
                continue
            }
            guard status.isFile else { throw changed(item) }
            let header = asOffered(EntryHeader(item: number, file: status, path: [item.name], source.options), opened)
            // Where lost entries are withdrawn, the caller compares.
            guard offered != nil || header.size == item.size else { throw changed(item) }
            return (header, opened)
        }
    }

    /// The header with which an entry that was found is sent: the offered one for a file that has only grown.
    private func asOffered(_ header: EntryHeader, _ file: FileDescriptor?) -> EntryHeader {
        guard let expected = awaited?.next() else { return header }
        return header.hasGrown(since: expected, awaited?.sample, file) ? expected : header
    }

    private func count(_ header: EntryHeader, in item: FileSource.Item) throws(StorageError) {
        folderEntryCount += 1
        folderSize += header.size ?? 0
        guard offered == nil else { return }
        guard folderSize <= item.size, folderEntryCount <= item.entryCount else { throw changed(item) }
    }

    private func beginEntry(_ header: EntryHeader, _ file: FileDescriptor?) throws(StorageError) -> EntryHeader {
        self.header = header
        guard let file else { return header }
        content = try Content(file)
        if header.size ?? 0 >= Self.sequentialSize { posix_fadvise(file.rawValue, 0, 0, POSIX_FADV_SEQUENTIAL) }
        return header
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
        guard let content, let header, let size = header.size, content.position < size, withdrawal == nil else { return 0 }
        try cancellation.check()
        do throws(StorageError) {
            return try read(content, of: header, size, into: buffer)
        } catch {
            guard offered != nil else { throw error }
            try cancellation.check()
            withdrawal = error
            return 0
        }
    }

    private func read(
        _ content: Content, of header: EntryHeader, _ size: UInt64, into buffer: UnsafeMutableRawBufferPointer
    ) throws(StorageError) -> Int {
        let requestedCount = Int(min(UInt64(buffer.count), size - content.position))
        let count = try content.file.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<requestedCount]))
        guard count > 0 || requestedCount == 0 else { throw changed(header) }
        self.content?.position += UInt64(count)
        self.content?.checksum.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        if content.position + UInt64(count) == size { try checkEnd(of: header) }
        return count
    }

    /// Checks that the content is one that the file has had: bytes from before and after a change would make up a file that never
    /// existed (A10). A file whose attributes have changed is read a second time: where both passes are equal, it has only
    /// grown, or its attributes alone have changed.
    private func checkEnd(of header: EntryHeader) throws(StorageError) {
        guard let content, let size = header.size else { return }
        let status = try content.file.status()
        guard FileVersion(status) != content.version || status.modifiedNanoseconds != content.modified else { return }
        guard UInt64(clamping: status.st_size) >= size else { throw changed(header) }
        var again = ContentChecksum()
        var position = content.start
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 64)
        defer { buffer.deallocate() }
        try content.file.seek(to: position)
        while position < size {
            try cancellation.check()
            let requestedCount = Int(min(UInt64(buffer.count), size - position))
            let count = try content.file.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<requestedCount]))
            guard count > 0 else { throw changed(header) }
            again.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            position += UInt64(count)
        }
        guard again == content.checksum else { throw changed(header) }
    }

    func seek(to offset: UInt64) throws(StorageError) {
        guard let content else { return }
        try content.file.seek(to: offset)
        // A partial file is hashed up to the place where it is resumed.
        guard offset != content.position else { return }
        self.content?.position = offset
        self.content?.start = offset
        self.content?.checksum = ContentChecksum()
    }

    /// A file that is hashed can be large.
    func cancel() { cancellation.cancel() }

    private func changed(_ header: EntryHeader) -> StorageError {
        StorageError(.changed, "\(header.path.last?.shown ?? "a file") was changed while it was being sent; send it again")
    }

    private func changed(_ item: FileSource.Item) -> StorageError {
        StorageError(.changed, "\(item.path.shown) was changed after it was offered; send it again")
    }
}
