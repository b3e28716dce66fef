internal import Glibc

/// Where a C library that is handed functions instead of a file is reading.
final class FileCursor {
    let file: NoteFile
    private(set) var offset: UInt64 = 0
    /// Bytes that may still be read.
    private var budget: Int

    init(_ file: NoteFile, budget: Int = .max) {
        self.file = file
        self.budget = budget
    }

    /// As a library gives it back to its functions.
    static func from(_ raw: UnsafeMutableRawPointer?) -> FileCursor {
        Unmanaged<FileCursor>.fromOpaque(raw!).takeUnretainedValue()
    }

    var raw: UnsafeMutableRawPointer { Unmanaged.passUnretained(self).toOpaque() }

    func liftBudget() {
        budget = .max
    }

    /// - Returns: how many bytes were read, 0 at the end; nil when that failed, or is more than may be read.
    func read(into buffer: UnsafeMutableRawPointer, count: Int) -> Int? {
        guard budget >= count else { return nil }
        if budget != .max { budget -= count }
        let bytes = UnsafeMutableRawBufferPointer(start: buffer, count: count)
        guard let read = try? file.read(into: bytes, at: offset) else { return nil }
        offset += UInt64(read)
        return read
    }

    /// - Parameter whence: as of lseek(2).
    /// - Returns: the offset from the beginning; nil for one that can't be.
    func seek(_ offset: Int64, _ whence: Int32) -> Int64? {
        let base: Int64 =
            switch whence {
            case SEEK_CUR: Int64(clamping: self.offset)
            case SEEK_END: Int64(clamping: file.size)
            default: 0
            }
        let (target, overflow) = base.addingReportingOverflow(offset)
        guard !overflow, target >= 0 else { return nil }
        self.offset = UInt64(target)
        return target
    }
}
