internal import CNearshareAudio
internal import CNearshareShims
internal import Glibc
internal import NearshareBase
package import NearshareInterfaces

/// An open file, read and written at explicit offsets. Closed when it is released.
package final class NoteFile: Sendable {
    let descriptor: Int32
    /// For error messages.
    package let path: String
    /// The size of a file that does not change and that may not be asked for it.
    private let fixedSize: UInt64?

    private init(descriptor: Int32, path: String, fixedSize: UInt64? = nil) {
        self.descriptor = descriptor
        self.path = path
        self.fixedSize = fixedSize
    }

    /// A file that was passed to this worker, which has no right to ask for its size later on.
    convenience init(passed descriptor: Int32) {
        let file = NoteFile(descriptor: dup(descriptor), path: "")
        self.init(descriptor: descriptor, path: "", fixedSize: file.size)
    }

    deinit { close(descriptor) }

    /// Creates a file.
    /// - Returns: nil when the path exists.
    package static func create(_ path: String) throws(AudioError) -> NoteFile? {
        let descriptor = nearshare_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o644)
        guard descriptor >= 0 else {
            if errno == EEXIST { return nil }
            throw AudioError(errno, "could not write \(shown(path))")
        }
        return NoteFile(descriptor: descriptor, path: path)
    }

    /// Opens an existing file. Symbolic links are followed: the user has named it.
    package static func open(_ path: String) throws(AudioError) -> NoteFile {
        // O_NONBLOCK: opening a FIFO must not wait for a writer.
        let descriptor = nearshare_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0)
        guard descriptor >= 0 else { throw AudioError(errno, "could not read \(shown(path))") }
        let file = NoteFile(descriptor: descriptor, path: path)
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw AudioError(errno, "could not read \(shown(path))") }
        guard status.st_mode & S_IFMT == S_IFREG else { throw AudioError(.damaged, "\(shown(path)) is not a file") }
        return file
    }

    /// Creates a temporary file without a name, which disappears when it is released.
    static func temporary() throws(AudioError) -> NoteFile {
        let folder = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        let descriptor = nearshare_temporary_file(folder)
        guard descriptor >= 0 else { throw AudioError(errno, "could not write to \(shown(folder))") }
        return NoteFile(descriptor: descriptor, path: folder)
    }

    /// In bytes.
    package var size: UInt64 {
        if let fixedSize { return fixedSize }
        var status = stat()
        return fstat(descriptor, &status) == 0 ? UInt64(max(0, status.st_size)) : 0
    }

    /// Fills the buffer from an offset of the file.
    /// - Returns: the number of bytes, fewer than requested at the end of the file.
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(AudioError) -> Int {
        do throws(SystemCallError) {
            return try DescriptorIO.read(into: buffer, from: descriptor, at: offset)
        } catch {
            throw AudioError(error.code, "could not read \(shown(path))")
        }
    }

    func read(_ count: Int, at offset: UInt64) throws(AudioError) -> [UInt8] {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, count), alignment: 16)
        defer { buffer.deallocate() }
        let filled = try read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]), at: offset)
        return Array(buffer[..<filled])
    }

    /// Writes all bytes at an offset of the file.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(AudioError) {
        do throws(SystemCallError) {
            try DescriptorIO.writeAll(bytes, to: descriptor, at: offset)
        } catch {
            throw AudioError(error.code, "could not write \(shown(path))")
        }
    }

    func write(_ bytes: [UInt8], at offset: UInt64) throws(AudioError) {
        try bytes.withUnsafeBufferPointer { (bytes) throws(AudioError) in
            try write(UnsafeRawBufferPointer(bytes), at: offset)
        }
    }

    func truncate(to size: UInt64) throws(AudioError) {
        guard ftruncate(descriptor, off_t(size)) == 0 else { throw AudioError(errno, "could not shorten \(shown(path))") }
    }

    func synchronize() throws(AudioError) {
        guard fdatasync(descriptor) == 0 else { throw AudioError(errno, "could not write \(shown(path))") }
    }
}

/// A local path, escaped for a terminal.
func shown(_ path: String) -> String { TerminalText.path(path) }

extension AudioError {
    /// An error from errno.
    /// - Parameter what: the failed operation.
    init(_ number: Int32, _ what: String) {
        switch number {
        case ENOSPC, EDQUOT, EFBIG: self.init(.noSpace, "\(what): the disk is full")
        default: self.init(.failed, "\(what): \(String(cString: strerror(number)).lowercased())")
        }
    }
}
