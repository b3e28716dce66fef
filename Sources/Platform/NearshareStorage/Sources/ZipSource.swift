internal import CZlib
package import NearshareBase
package import NearshareInterfaces

/// Files and folders as one ZIP archive (PKWARE's APPNOTE 6.3.10), which is made while it is read: entries are stored without
/// compression, so that its size is known before. Larger numbers than 32 bits use ZIP64. Links are left out.
package struct ZipSource: ResourceSource {
    package let offer: Offer
    private let base: any ResourceSource
    private let name: ClaimedFileName

    /// - Parameters:
    ///   - base: content whose sizes are known.
    ///   - name: of the archive.
    package init(of base: any ResourceSource, named name: ClaimedFileName) throws(StorageError) {
        (self.base, self.name) = (base, name)
        var layout = ZipLayout()
        let reader = try base.makeReader()
        while let header = try reader.nextEntry() {
            let entry = layout.add(header)
            entry?.end(checksum: 0, &layout)
        }
        let item = OfferedItem(
            kind: .file, name: name, size: layout.offset + layout.endByteCount, entryCount: 1,
            mediaType: ClaimedMediaType("application/zip") ?? .unknown)
        offer = Offer(items: [item], itemCount: 1, entryCount: 1, totalSize: item.size)
    }

    package func makeReader() throws(StorageError) -> any ResourceReader {
        ZipReader(try base.makeReader(), name: name, size: offer.totalSize ?? 0)
    }

    package func cancel() { base.cancel() }
}

/// One pass over the archive.
private final class ZipReader: ResourceReader {
    private let base: any ResourceReader
    private let name: ClaimedFileName
    private let size: UInt64
    private var layout = ZipLayout()
    /// Bytes between the contents of files.
    private var pending: ArraySlice<UInt8> = []
    private var file: ZipLayout.Entry?
    private var checksum: UInt = 0
    private var position: UInt64 = 0
    private var isFinished = false

    init(_ base: any ResourceReader, name: ClaimedFileName, size: UInt64) {
        (self.base, self.name, self.size) = (base, name, size)
    }

    func nextEntry() throws(StorageError) -> EntryHeader? {
        guard position == 0, pending.isEmpty, file == nil else { return nil }
        return EntryHeader(item: 0, kind: .file, path: [name], size: size, modified: nil, permissions: nil)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
        guard !buffer.isEmpty else { return 0 }
        while pending.isEmpty {
            if let file {
                let count = try base.read(into: buffer)
                guard count == 0 else {
                    checksum = crc32(checksum, buffer.baseAddress?.assumingMemoryBound(to: UInt8.self), UInt32(count))
                    position += UInt64(count)
                    return count
                }
                pending = file.end(checksum: UInt32(truncatingIfNeeded: checksum), &layout)[...]
                self.file = nil
            } else if let header = try base.nextEntry() {
                file = layout.add(header)
                pending = file?.header[...] ?? []
                checksum = 0
            } else {
                guard !isFinished else { return 0 }
                isFinished = true
                pending = layout.end[...]
                guard position + UInt64(pending.count) == size else {
                    throw StorageError(.changed, "\(name.shown) was changed while it was being sent; send it again")
                }
            }
        }
        let count = min(buffer.count, pending.count)
        buffer.copyBytes(from: pending.prefix(count))
        pending = pending.dropFirst(count)
        position += UInt64(count)
        return count
    }

    /// Reads up to the place: checksums need all content before it.
    func seek(to offset: UInt64) throws(StorageError) {
        guard offset >= position, offset <= size else { throw StorageError(.failed, "an archive cannot seek back") }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 18, alignment: 16)
        defer { buffer.deallocate() }
        while position < offset {
            let requestedCount = Int(min(UInt64(buffer.count), offset - position))
            guard try read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<requestedCount])) > 0 else { return }
        }
    }

    func cancel() { base.cancel() }
}
