internal import CNearshareAudio
internal import CNearshareShims
internal import Glibc
internal import NearshareBase
package import NearshareInterfaces

/// An open file with a note, and the reading and writing at places of it that notes need. Closed when nobody holds it.
package final class NoteFile: Sendable {
    let descriptor: Int32
    /// For people.
    package let path: String

    private init(descriptor: Int32, path: String) {
        self.descriptor = descriptor
        self.path = path
    }

    deinit { close(descriptor) }

    /// A new file; nothing that is there is replaced.
    /// - Returns: nil when something of that name is there.
    package static func create(_ path: String) throws(AudioError) -> NoteFile? {
        let descriptor = nearshare_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o644)
        guard descriptor >= 0 else {
            if errno == EEXIST { return nil }
            throw AudioError(errno, "can't write \(shown(path))")
        }
        return NoteFile(descriptor: descriptor, path: path)
    }

    /// A file that is there. Links are followed: the person has named it.
    package static func open(_ path: String) throws(AudioError) -> NoteFile {
        // O_NONBLOCK: a pipe without a writer must not hang the tool.
        let descriptor = nearshare_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0)
        guard descriptor >= 0 else { throw AudioError(errno, "can't read \(shown(path))") }
        let file = NoteFile(descriptor: descriptor, path: path)
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw AudioError(errno, "can't read \(shown(path))") }
        guard status.st_mode & S_IFMT == S_IFREG else { throw AudioError(.damaged, "\(shown(path)) is not a file") }
        return file
    }

    /// A file without a name, for what can't be read at places as it comes; it vanishes with the last who holds it.
    static func temporary() throws(AudioError) -> NoteFile {
        let folder = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        let descriptor = nearshare_temporary_file(folder)
        guard descriptor >= 0 else { throw AudioError(errno, "can't write to \(shown(folder))") }
        return NoteFile(descriptor: descriptor, path: folder)
    }

    package var size: UInt64 {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? UInt64(max(0, status.st_size)) : 0
    }

    /// Reads at a place of the file.
    /// - Returns: fewer than asked for at the end of the file, and 0 beyond it.
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(AudioError) -> Int {
        var filled = 0
        while filled < buffer.count {
            let count = pread(descriptor, buffer.baseAddress! + filled, buffer.count - filled, off_t(offset) + off_t(filled))
            if count == 0 { break }
            if count > 0 {
                filled += count
            } else if errno != EINTR {
                throw AudioError(errno, "can't read \(shown(path))")
            }
        }
        return filled
    }

    func read(_ count: Int, at offset: UInt64) throws(AudioError) -> [UInt8] {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, count), alignment: 16)
        defer { buffer.deallocate() }
        let filled = try read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]), at: offset)
        return Array(buffer[..<filled])
    }

    /// Writes at a place of the file, all of it.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(AudioError) {
        var written = 0
        while written < bytes.count {
            let count = pwrite(descriptor, bytes.baseAddress! + written, bytes.count - written, off_t(offset) + off_t(written))
            if count > 0 {
                written += count
            } else if errno != EINTR {
                throw AudioError(errno, "can't write \(shown(path))")
            }
        }
    }

    func write(_ bytes: [UInt8], at offset: UInt64) throws(AudioError) {
        try bytes.withUnsafeBufferPointer { (bytes) throws(AudioError) in
            try write(UnsafeRawBufferPointer(bytes), at: offset)
        }
    }

    func cut(at size: UInt64) throws(AudioError) {
        guard ftruncate(descriptor, off_t(size)) == 0 else { throw AudioError(errno, "can't shorten \(shown(path))") }
    }

    func synchronize() throws(AudioError) {
        guard fdatasync(descriptor) == 0 else { throw AudioError(errno, "can't write \(shown(path))") }
    }
}

/// A local path, fit to be shown.
func shown(_ path: String) -> String { TerminalText.escaped(path, columns: 4096) }

extension AudioError {
    /// From errno, with words that say what was being done.
    init(_ number: Int32, _ what: String) {
        switch number {
        case ENOSPC, EDQUOT, EFBIG: self.init(.noSpace, "\(what): the disk is full")
        default: self.init(.failed, "\(what): \(String(cString: strerror(number)).lowercased())")
        }
    }
}
