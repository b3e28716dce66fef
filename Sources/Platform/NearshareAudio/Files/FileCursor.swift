internal import Glibc

/// The reading position of a C library that reads a file through callbacks.
final class FileCursor {
    let file: NoteFile
    private(set) var offset: UInt64 = 0
    /// Limit on the bytes that may still be read.
    private var budget: Int

    init(_ file: NoteFile, budget: Int = .max) {
        self.file = file
        self.budget = budget
    }

    /// The cursor behind the context pointer of a callback.
    static func from(_ context: UnsafeMutableRawPointer?) -> FileCursor {
        guard let context else { preconditionFailure("a callback without a context") }
        return Unmanaged<FileCursor>.fromOpaque(context).takeUnretainedValue()
    }

    /// The context pointer for callbacks.
    var context: UnsafeMutableRawPointer { Unmanaged.passUnretained(self).toOpaque() }

    func removeBudget() {
        budget = .max
    }

    /// - Returns: the number of bytes read, 0 at the end; nil on failure or beyond the budget.
    func read(into buffer: UnsafeMutableRawPointer, count: Int) -> Int? {
        guard budget >= count else { return nil }
        if budget != .max { budget -= count }
        let bytes = UnsafeMutableRawBufferPointer(start: buffer, count: count)
        guard let read = try? file.read(into: bytes, at: offset) else { return nil }
        offset += UInt64(read)
        return read
    }

    /// - Parameter whence: see lseek(2).
    /// - Returns: the new offset; nil for an invalid one.
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
