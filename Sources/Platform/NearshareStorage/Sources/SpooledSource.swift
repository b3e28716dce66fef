internal import Glibc
package import NearshareBase
internal import NearshareCrypto
package import NearshareInterfaces

/// A stream that was read to its end into a file without a name, for receivers that need to know the size beforehand. The file is
/// gone with this process, however that ends.
package final class SpooledSource: ResourceSource {
    /// Limit on the bytes of the stream: a user who sends more has the disk space to save it as a named file.
    package static let maximumByteCount: UInt64 = 4 << 30
    private static let bufferByteCount = 1 << 18
    /// Interval between looks at the free space.
    private static let checkInterval: UInt64 = 16 << 20

    package let offer: Offer
    package let contentDigest: [UInt8]?
    private let file: FileDescriptor
    private let header: EntryHeader

    /// Reads the stream, which may take long.
    /// - Parameters:
    ///   - reader: of a single file; its `cancel()` makes this throw.
    ///   - directory: the path of the directory whose file system holds the file.
    ///   - onProgress: called with the number of bytes read so far.
    /// - Throws: ``StorageError/Code/overLimit`` for a longer stream, ``StorageError/Code/noSpace`` for a full disk.
    package init(
        _ reader: any ResourceReader, in directory: String, limit: UInt64 = SpooledSource.maximumByteCount,
        onProgress: (UInt64) -> Void = { _ in }
    ) throws(StorageError) {
        guard var header = try reader.nextEntry() else { throw StorageError(.failed, "there is nothing to send") }
        let folder = try FileDescriptor.openDirectory(path: directory)
        file = try Self.makeUnnamedFile(in: folder)
        var count: UInt64 = 0
        var uncheckedCount: UInt64 = 0
        var hasher = SHA256Hasher()
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.bufferByteCount, alignment: 64)
        defer { buffer.deallocate() }
        while true {
            let readCount = try reader.read(into: buffer)
            guard readCount > 0 else { break }
            guard UInt64(readCount) <= limit - count else {
                throw StorageError(.overLimit, "there are more than \(limit.formattedByteCount)")
            }
            uncheckedCount += UInt64(readCount)
            if uncheckedCount >= Self.checkInterval {
                uncheckedCount = 0
                if InboxLimits().usable(of: folder.freeBytes) == 0 { throw StorageError(.noSpace, "the disk is full") }
            }
            let content = UnsafeRawBufferPointer(rebasing: buffer[..<readCount])
            try file.write(content)
            hasher.update(content)
            count += UInt64(readCount)
            onProgress(count)
        }
        header.size = count
        (self.header, contentDigest) = (header, hasher.finalize())
        let item = OfferedItem(
            kind: .file, name: header.path[0], size: count, entryCount: 1, mediaType: .unknown)
        offer = Offer(items: [item], itemCount: 1, entryCount: 1, totalSize: count)
    }

    private static func makeUnnamedFile(in folder: FileDescriptor) throws(StorageError) -> FileDescriptor {
        var generator = SystemRandomNumberGenerator()
        for _ in 1...100 {
            let name = ".stdin-\(String(generator.next(), radix: 16))"
            guard let file = try folder.createFile(name) else { continue }
            folder.unlink(name)
            return file
        }
        throw StorageError(.failed, "could not create a temporary file")
    }

    package func makeReader() throws(StorageError) -> any ResourceReader { Reader(file, header) }

    private final class Reader: ResourceReader {
        private let file: FileDescriptor
        private let header: EntryHeader
        private var position: UInt64 = 0
        private var hasStarted = false

        init(_ file: FileDescriptor, _ header: EntryHeader) {
            (self.file, self.header) = (file, header)
        }

        func nextEntry() throws(StorageError) -> EntryHeader? {
            guard !hasStarted else { return nil }
            hasStarted = true
            return header
        }

        func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
            while true {
                let count = pread(file.rawValue, buffer.baseAddress, buffer.count, off_t(position))
                if count < 0, errno == EINTR { continue }
                guard count >= 0 else { throw StorageError(errno, "could not read the temporary file") }
                position += UInt64(count)
                return count
            }
        }

        func seek(to offset: UInt64) throws(StorageError) { position = min(offset, header.size ?? 0) }

        func cancel() {}
    }
}
