internal import CNearshareShims
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// Appends content to a file, and leaves holes for blocks of zeros, so that sparse files stay sparse.
struct SparseWriter {
    let file: FileDescriptor
    /// The end of the content, a hole included.
    private(set) var size: UInt64
    /// The end of the space that is preallocated on the disk; the largest number where none is to be preallocated.
    var preallocated: UInt64
    private var endsInHole = false

    /// The block of most file systems: shorter zeros save no space.
    private static let blockByteCount = 4096

    /// - Parameter size: the file's size, which is also its position.
    init(_ file: FileDescriptor, size: UInt64 = 0, preallocated: UInt64 = .max) {
        self.file = file
        self.size = size
        self.preallocated = preallocated
    }

    mutating func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        var dataStart = 0
        var index = 0
        while index < bytes.count {
            let end = min(index + Self.blockByteCount, bytes.count)
            let continuesHole = endsInHole && dataStart == index
            if end - index == Self.blockByteCount || continuesHole, Self.isZero(bytes[index..<end]) {
                try writeData(bytes[dataStart..<index])
                skip(end - index)
                dataStart = end
            }
            index = end
        }
        try writeData(bytes[dataStart...])
    }

    /// Gives the file its size when it ends in a hole.
    mutating func finish() throws(StorageError) {
        if endsInHole { try file.truncate(to: size) }
    }

    private mutating func writeData(_ bytes: Slice<UnsafeRawBufferPointer>) throws(StorageError) {
        guard !bytes.isEmpty else { return }
        if endsInHole { try file.seek(to: size) }
        endsInHole = false
        try file.write(UnsafeRawBufferPointer(rebasing: bytes))
        size = size.addingClamped(UInt64(bytes.count))
    }

    private mutating func skip(_ count: Int) {
        if size < preallocated, preallocated != .max {
            // A file with holes is not preallocated any further. File systems that cannot release space keep it.
            _ = nearshare_release(file.rawValue, off_t(clamping: size), off_t(clamping: preallocated.subtractingClamped(size)))
        }
        preallocated = .max
        endsInHole = true
        size = size.addingClamped(UInt64(count))
    }

    private static func isZero(_ bytes: Slice<UnsafeRawBufferPointer>) -> Bool {
        let block = UnsafeRawBufferPointer(rebasing: bytes)
        guard let start = block.baseAddress, block.first == 0 else { return block.isEmpty }
        // Each byte equals the one before, and the first is zero.
        return memcmp(start, start + 1, block.count - 1) == 0
    }
}
