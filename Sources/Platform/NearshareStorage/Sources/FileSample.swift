internal import Glibc

/// The inode of a file that is offered, and its first and last bytes. A file that only grows keeps them; one that is replaced has
/// another inode, and one that is rewritten has, nearly always, other bytes where the offered ones ended (A10).
struct FileSample: Sendable, Hashable {
    let inode: UInt64
    let bytes: [UInt8]

    /// Limit on the bytes of each end.
    private static let endByteCount: UInt64 = 64

    init(inode: UInt64, bytes: [UInt8]) {
        (self.inode, self.bytes) = (inode, bytes)
    }

    /// Reads a file without moving its position.
    /// - Parameter size: the offered size; the file may be larger.
    /// - Returns: nil for a file that is shorter, or cannot be read.
    init?(of file: FileDescriptor, size: UInt64) {
        let count = min(size, Self.endByteCount)
        guard let status = try? file.status(), let first = Self.read(count, at: 0, of: file),
            let last = Self.read(count, at: size - count, of: file)
        else { return nil }
        self.init(inode: UInt64(status.st_ino), bytes: first + last)
    }

    private static func read(_ count: UInt64, at offset: UInt64, of file: FileDescriptor) -> [UInt8]? {
        let count = Int(count)
        guard count > 0 else { return [] }
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            filled = max(0, pread(file.rawValue, buffer.baseAddress, count, Int(clamping: offset)))
        }
        return bytes.count == count ? bytes : nil
    }
}
