internal import CNearshareShims
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// An open file or directory, closed with its last reference. Received files are opened relative to a directory's descriptor,
/// never by an absolute path, so that replacing a directory by a symbolic link has no effect (P3).
final class FileDescriptor: Sendable {
    let rawValue: Int32

    init(owning rawValue: Int32) {
        self.rawValue = rawValue
    }

    deinit { close(rawValue) }

    // MARK: Opening

    /// Opens a path that the local user has given; symbolic links are followed.
    static func openDirectory(path: String) throws(StorageError) -> FileDescriptor {
        let shownPath = LocalPath(path)
        return try opened(nearshare_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0), shownPath)
    }

    static func openForReading(path: String) throws(StorageError) -> FileDescriptor {
        try openForReading(LocalPath(path))
    }

    static func openForReading(_ path: LocalPath) throws(StorageError) -> FileDescriptor {
        // Opening a FIFO must not wait for a writer, and a terminal must not become the controlling one.
        let raw = path.withCString { nearshare_open($0, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0) }
        return try opened(raw, path)
    }

    /// The reason of a failure is about the target of a symbolic link, which the error names.
    private static func opened(_ raw: Int32, _ path: LocalPath) throws(StorageError) -> FileDescriptor {
        guard raw < 0 else { return FileDescriptor(owning: raw) }
        let code = errno
        let link = path.linkTarget.map { ", a symbolic link to \($0.shown)" } ?? ""
        throw StorageError(code, "could not open \(path.shown)\(link)")
    }

    /// Opens one component below this directory; a symbolic link is not followed.
    func openDirectory(_ name: String) throws(StorageError) -> FileDescriptor {
        try FileDescriptor(
            nearshare_openat(rawValue, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0), opening: name)
    }

    /// - Parameter path: shown in an error; nil for the name.
    func openForReading(_ name: String, shownAs path: String? = nil) throws(StorageError) -> FileDescriptor {
        try FileDescriptor(
            nearshare_openat(rawValue, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0), opening: path ?? name)
    }

    /// Opens an existing regular file without further hard links for writing.
    func openForWriting(_ name: String) throws(StorageError) -> FileDescriptor {
        let file = try FileDescriptor(
            nearshare_openat(rawValue, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0), opening: name)
        let status = try file.status()
        guard status.st_mode & S_IFMT == S_IFREG, status.st_nlink == 1 else {
            throw StorageError(.rejected, "\(shown(name)) is not a regular file")
        }
        return file
    }

    /// Creates a file.
    /// - Returns: nil when the name is in use.
    func createFile(_ name: String, mode: mode_t = 0o600) throws(StorageError) -> FileDescriptor? {
        let raw = nearshare_openat(rawValue, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode)
        if raw < 0, errno == EEXIST { return nil }
        return try FileDescriptor(raw, opening: name)
    }

    /// Creates a directory with mode 0700.
    /// - Returns: false when the name is in use.
    func createDirectory(_ name: String) throws(StorageError) -> Bool {
        if mkdirat(rawValue, name, 0o700) == 0 { return true }
        guard errno == EEXIST else { throw StorageError(errno, "could not create the folder \(shown(name))") }
        return false
    }

    /// Opens a directory, creating it if necessary.
    func openOrCreateDirectory(_ name: String) throws(StorageError) -> FileDescriptor {
        _ = try createDirectory(name)
        return try openDirectory(name)
    }

    private convenience init(_ raw: Int32, opening name: String) throws(StorageError) {
        guard raw >= 0 else { throw StorageError(errno, "could not open \(shown(name))") }
        self.init(owning: raw)
    }

    // MARK: Content

    func status() throws(StorageError) -> stat {
        var status = stat()
        guard fstat(rawValue, &status) == 0 else { throw StorageError(errno, "could not read a file's attributes") }
        return status
    }

    /// Whether the kernel makes the content when it is read, as below /proc and /sys: the size in the attributes says nothing.
    var isGeneratedByKernel: Bool {
        // PROC_SUPER_MAGIC and SYSFS_MAGIC of linux/magic.h.
        [0x9fa0, 0x6265_6572].contains(nearshare_filesystem_type(rawValue))
    }

    /// Returns 0 at the end of the file.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
        while true {
            let count = Glibc.read(rawValue, buffer.baseAddress, buffer.count)
            if count >= 0 { return count }
            if errno != EINTR { throw StorageError(errno, "could not read") }
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        do throws(SystemCallError) {
            try DescriptorIO.writeAll(bytes, to: rawValue)
        } catch {
            throw StorageError(error.code, "could not write")
        }
    }

    func write(_ bytes: [UInt8]) throws(StorageError) {
        try bytes.withUnsafeBufferPointer { (raw) throws(StorageError) in try write(UnsafeRawBufferPointer(raw)) }
    }

    /// Reads from the present position to the end of the file, or `limit` bytes.
    func read(upTo limit: Int) throws(StorageError) -> [UInt8] {
        var bytes: [UInt8] = []
        var chunkSize = 4096
        while bytes.count < limit {
            var count = 0
            var failure: StorageError?
            bytes += [UInt8](unsafeUninitializedCapacity: min(chunkSize, limit - bytes.count)) { buffer, filled in
                do throws(StorageError) {
                    count = try read(into: UnsafeMutableRawBufferPointer(buffer))
                } catch {
                    failure = error
                }
                filled = count
            }
            if let failure { throw failure }
            if count == 0 { break }
            chunkSize = min(chunkSize * 2, 1 << 20)
        }
        return bytes
    }

    func seek(to offset: UInt64) throws(StorageError) {
        guard let offset = off_t(exactly: offset), lseek(rawValue, offset, SEEK_SET) >= 0 else {
            throw StorageError(.failed, "could not seek in a file")
        }
    }

    func truncate(to size: UInt64) throws(StorageError) {
        guard ftruncate(rawValue, off_t(clamping: size)) == 0 else { throw StorageError(errno, "could not shorten a file") }
    }

    /// Makes the content durable: it survives a loss of power.
    func synchronizeContent() throws(StorageError) {
        guard fdatasync(rawValue) == 0 else { throw StorageError(errno, "could not write to the disk") }
    }

    /// Makes content and metadata of a file or directory durable.
    func synchronize() throws(StorageError) {
        guard fsync(rawValue) == 0 else { throw StorageError(errno, "could not write to the disk") }
    }

    /// Makes everything on this descriptor's file system durable.
    func synchronizeFileSystem() throws(StorageError) {
        guard nearshare_sync_filesystem(rawValue) == 0 else { throw StorageError(errno, "could not write to the disk") }
    }

    /// Free bytes on this descriptor's file system; nil when they are not known.
    var freeBytes: UInt64? {
        var status = statvfs()
        guard fstatvfs(rawValue, &status) == 0 else { return nil }
        let (bytes, overflow) = UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize))
        return overflow ? nil : bytes
    }

    /// The names that this descriptor's file system can hold.
    var nameRules: FileNameRules {
        FileNameRules(filesystemType: UInt32(exactly: nearshare_filesystem_type(rawValue)))
    }

    /// Sets the modification time.
    /// - Parameter nanoseconds: since 1970; a time in the future becomes the present one, as it would win against every later
    ///   version of the file (`--update`).
    func setModified(_ nanoseconds: Int64) {
        let nanoseconds = min(nanoseconds, SystemClock.wallNanoseconds())
        var (seconds, rest) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
        if rest < 0 { (seconds, rest) = (seconds - 1, rest + 1_000_000_000) }
        let time = timespec(tv_sec: Int(seconds), tv_nsec: Int(rest))
        // A time that the file system cannot represent is no reason to refuse the content.
        _ = withUnsafePointer(to: (time, time)) {
            $0.withMemoryRebound(to: timespec.self, capacity: 2) { futimens(rawValue, $0) }
        }
    }

    // MARK: Entries

    func unlink(_ name: String) {
        unlinkat(rawValue, name, 0)
    }

    /// Removes a file or a whole directory; symbolic links are removed, not followed.
    func removeTree(_ name: String) {
        var cursor = DirectoryCursor(self)
        name.withCString { name in try? Self.removeTree(name, at: &cursor) }
    }

    /// - Throws: when the cursor cannot go back up, so that nothing more may be removed.
    private static func removeTree(_ name: UnsafePointer<CChar>, at cursor: inout DirectoryCursor) throws(StorageError) {
        // Linux returns EISDIR, POSIX specifies EPERM.
        guard unlinkat(cursor.directory.rawValue, name, 0) != 0, errno == EISDIR || errno == EPERM,
            (try? cursor.descend(into: name)) != nil
        else { return }
        if let names = try? DirectoryListing(of: cursor.directory) {
            for index in 0..<names.count {
                try names.withCName(at: index) { (child) throws(StorageError) in try removeTree(child, at: &cursor) }
            }
        }
        try cursor.ascend()
        unlinkat(cursor.directory.rawValue, name, AT_REMOVEDIR)
    }

    func exists(_ name: String) -> Bool {
        var status = stat()
        return fstatat(rawValue, name, &status, AT_SYMLINK_NOFOLLOW) == 0
    }

    /// The attributes of an entry, of the link itself where it is one; nil when there is none.
    func status(of name: String) throws(StorageError) -> stat? {
        var status = stat()
        if fstatat(rawValue, name, &status, AT_SYMLINK_NOFOLLOW) == 0 { return status }
        guard errno == ENOENT else { throw StorageError(errno, "could not read the attributes of \(shown(name))") }
        return nil
    }

    /// Moves `name` to `newName` in `directory` without replacing anything.
    /// - Returns: false when `newName` is in use.
    func rename(_ name: String, to newName: String, in directory: FileDescriptor) throws(SystemCallError) -> Bool {
        if nearshare_rename_without_replacing(rawValue, name, directory.rawValue, newName) == 0 { return true }
        switch errno {
        case EEXIST: return false
        case EINVAL, ENOSYS: return try renameByClaiming(name, to: newName, in: directory)
        default: throw SystemCallError(code: errno)
        }
    }

    /// Fallback for file systems without RENAME_NOREPLACE (NFS, some FUSE file systems): a file is linked to the new name and
    /// unlinked from the old one; a folder replaces an empty one that was just created.
    private func renameByClaiming(_ name: String, to newName: String, in directory: FileDescriptor) throws(SystemCallError)
        -> Bool
    {
        if linkat(rawValue, name, directory.rawValue, newName, 0) == 0 {
            unlinkat(rawValue, name, 0)
            return true
        }
        let reason = errno
        if reason == EEXIST { return false }
        guard (try? openDirectory(name)) != nil else { throw SystemCallError(code: reason) }
        guard mkdirat(directory.rawValue, newName, 0o700) == 0 else {
            if errno == EEXIST { return false }
            throw SystemCallError(code: errno)
        }
        guard renameat(rawValue, name, directory.rawValue, newName) == 0 else {
            let code = errno
            // The kernel refuses this if another process has created something in it.
            unlinkat(directory.rawValue, newName, AT_REMOVEDIR)
            if code == ENOTEMPTY || code == EEXIST { return false }
            throw SystemCallError(code: code)
        }
        return true
    }

    /// The names in this directory in the order of their bytes, without `.` and `..`.
    func names() throws(StorageError) -> [String] {
        let names = try DirectoryListing(of: self)
        return (0..<names.count).map { names.name(at: $0) }
    }
}

extension FileDescriptor {
    /// ``openForReading(_:)`` for a name that may not be UTF-8.
    /// - Parameter path: the path for error messages.
    func openForReading(raw name: UnsafePointer<CChar>, shownAs path: () -> String) throws(StorageError) -> FileDescriptor {
        let raw = nearshare_openat(rawValue, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0)
        guard raw >= 0 else { throw StorageError(errno, "could not read \(path())") }
        return FileDescriptor(owning: raw)
    }

    func openDirectory(raw name: UnsafePointer<CChar>, shownAs path: () -> String) throws(StorageError) -> FileDescriptor {
        let raw = nearshare_openat(rawValue, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0)
        guard raw >= 0 else { throw StorageError(errno, "could not read the folder \(path())") }
        return FileDescriptor(owning: raw)
    }
}

/// A local path or name, escaped for a terminal.
func shown(_ path: String) -> String { TerminalText.path(path) }

extension StorageError {
    /// An error from errno.
    /// - Parameter what: the failed operation.
    init(_ code: Int32, _ what: String) {
        let reason = String(cString: strerror(code)).lowercased()
        switch code {
        case ENOENT, ENOTDIR: self.init(.notFound, "\(what): \(reason)")
        case EACCES, EPERM, EROFS: self.init(.noPermission, "\(what): \(reason)")
        case ENOSPC, EDQUOT, EFBIG: self.init(.noSpace, "\(what): the disk is full; free some space and try again")
        case ELOOP, EMLINK: self.init(.rejected, "\(what): symbolic links are not followed")
        default: self.init(.failed, "\(what): \(reason)")
        }
    }
}
