internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// One pass over the files of a source. Its content must equal the offer, which is all that the receiver has accepted.
final class FileReader: ResourceReader {
    private let source: FileSource
    private var nextItem = 0
    /// The present folder's item and its enumerator.
    private var folder: (item: FileSource.Item, enumerator: FolderEnumerator)?
    private var file: FileDescriptor?
    private var header: EntryHeader?
    private var position: UInt64 = 0
    /// Content of the present folder up to here.
    private var folderSize: UInt64 = 0
    private var folderEntryCount: UInt64 = 0
    private let cancellation = Cancellation()

    private static let sequentialSize: UInt64 = 1 << 20

    init(_ source: FileSource) {
        self.source = source
    }

    func nextEntry() throws(StorageError) -> EntryHeader? {
        try cancellation.check()
        file = nil
        while true {
            if let (item, enumerator) = folder {
                if let (header, file) = try enumerator.next(opening: true) {
                    try count(header, in: item)
                    return beginEntry(header, file)
                }
                folder = nil
                guard folderSize == item.size, folderEntryCount == item.entryCount else { throw changed(item) }
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
            guard status.isFile, UInt64(clamping: status.st_size) == item.size else { throw changed(item) }
            return beginEntry(EntryHeader(item: number, file: status, path: [item.name], source.options), opened)
        }
    }

    private func count(_ header: EntryHeader, in item: FileSource.Item) throws(StorageError) {
        folderEntryCount += 1
        folderSize += header.size ?? 0
        guard folderSize <= item.size, folderEntryCount <= item.entryCount else { throw changed(item) }
    }

    private func beginEntry(_ header: EntryHeader, _ file: FileDescriptor?) -> EntryHeader {
        self.header = header
        self.file = file
        position = 0
        if let file, header.size ?? 0 >= Self.sequentialSize { posix_fadvise(file.rawValue, 0, 0, POSIX_FADV_SEQUENTIAL) }
        return header
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
        guard let file, let header, let size = header.size, position < size else { return 0 }
        try cancellation.check()
        let room = Int(min(UInt64(buffer.count), size - position))
        let count = try file.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<room]))
        guard count > 0 || room == 0 else { throw changed(header) }
        position += UInt64(count)
        if position == size {
            // Bytes from before and after a change would make up a file that never existed (A10). A file that has only grown is
            // unchanged up to the offered size.
            let status = try file.status()
            guard status.modifiedNanoseconds == header.modified || UInt64(clamping: status.st_size) > size else {
                throw changed(header)
            }
        }
        return count
    }

    func seek(to offset: UInt64) throws(StorageError) {
        try file?.seek(to: offset)
        position = offset
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
