internal import CNearshareShims
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// An open file or directory, closed with its last reference. Everything of a peer's is opened relative to one of these,
/// never by a path from the root, so that nobody can put a link where a directory was (P3).
final class FileDescriptor: Sendable {
    let number: Int32

    init(owning number: Int32) {
        self.number = number
    }

    deinit { close(number) }

    // MARK: Opening

    /// A path that the local person has given: links in it are theirs.
    static func openDirectory(path: String) throws(StorageError) -> FileDescriptor {
        try FileDescriptor(nearshare_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0), opening: path)
    }

    static func openForReading(path: String) throws(StorageError) -> FileDescriptor {
        // Opening a FIFO must not wait for a writer, and a terminal must not become ours.
        try FileDescriptor(nearshare_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0), opening: path)
    }

    /// One component below this directory; a link is not followed.
    func openDirectory(_ name: String) throws(StorageError) -> FileDescriptor {
        try FileDescriptor(
            nearshare_openat(number, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0), opening: name)
    }

    func openForReading(_ name: String) throws(StorageError) -> FileDescriptor {
        try FileDescriptor(nearshare_openat(number, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0), opening: name)
    }

    /// An existing regular file with no other name, for writing on.
    func openForWriting(_ name: String) throws(StorageError) -> FileDescriptor {
        let file = try FileDescriptor(
            nearshare_openat(number, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0), opening: name)
        let status = try file.status()
        guard status.st_mode & S_IFMT == S_IFREG, status.st_nlink == 1 else {
            throw StorageError(.refused, "\(shown(name)) is no plain file of ours")
        }
        return file
    }

    /// A new file, or nil when the name is taken.
    func createFile(_ name: String, mode: mode_t = 0o600) throws(StorageError) -> FileDescriptor? {
        let raw = nearshare_openat(number, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode)
        if raw < 0, errno == EEXIST { return nil }
        return try FileDescriptor(raw, opening: name)
    }

    /// - Returns: false when the name is taken.
    func createDirectory(_ name: String) throws(StorageError) -> Bool {
        if mkdirat(number, name, 0o700) == 0 { return true }
        guard errno == EEXIST else { throw StorageError(errno, "can't make the folder \(shown(name))") }
        return false
    }

    /// The directory of this name, made when it isn't there.
    func directory(_ name: String) throws(StorageError) -> FileDescriptor {
        _ = try createDirectory(name)
        return try openDirectory(name)
    }

    private convenience init(_ raw: Int32, opening name: String) throws(StorageError) {
        guard raw >= 0 else { throw StorageError(errno, "can't open \(shown(name))") }
        self.init(owning: raw)
    }

    // MARK: Bytes

    func status() throws(StorageError) -> stat {
        var status = stat()
        guard fstat(number, &status) == 0 else { throw StorageError(errno, "can't look at a file") }
        return status
    }

    /// Returns 0 at the end.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
        while true {
            let count = Glibc.read(number, buffer.baseAddress, buffer.count)
            if count >= 0 { return count }
            if errno != EINTR { throw StorageError(errno, "can't read") }
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        var rest = bytes
        while !rest.isEmpty {
            let count = Glibc.write(number, rest.baseAddress, rest.count)
            if count >= 0 {
                rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
            } else if errno != EINTR {
                throw StorageError(errno, "can't write")
            }
        }
    }

    func write(_ bytes: [UInt8]) throws(StorageError) {
        try bytes.withUnsafeBufferPointer { (raw) throws(StorageError) in try write(UnsafeRawBufferPointer(raw)) }
    }

    /// At most `limit` bytes from where it stands.
    func readAll(limit: Int) throws(StorageError) -> [UInt8] {
        var bytes: [UInt8] = []
        var room = 4096
        while bytes.count < limit {
            var count = 0
            var failure: StorageError?
            bytes += [UInt8](unsafeUninitializedCapacity: min(room, limit - bytes.count)) { buffer, filled in
                do throws(StorageError) {
                    count = try read(into: UnsafeMutableRawBufferPointer(buffer))
                } catch {
                    failure = error
                }
                filled = count
            }
            if let failure { throw failure }
            if count == 0 { break }
            room = min(room * 2, 1 << 20)
        }
        return bytes
    }

    func seek(to offset: UInt64) throws(StorageError) {
        guard let offset = off_t(exactly: offset), lseek(number, offset, SEEK_SET) >= 0 else {
            throw StorageError(.failed, "can't go on inside a file")
        }
    }

    func truncate(to size: UInt64) throws(StorageError) {
        guard ftruncate(number, off_t(clamping: size)) == 0 else { throw StorageError(errno, "can't shorten a file") }
    }

    /// Returns once the content can survive a loss of power.
    func synchronizeContent() throws(StorageError) {
        guard fdatasync(number) == 0 else { throw StorageError(errno, "can't write to the disk") }
    }

    /// The same for a file's or directory's content and everything about it.
    func synchronize() throws(StorageError) {
        guard fsync(number) == 0 else { throw StorageError(errno, "can't write to the disk") }
    }

    /// The same for everything on the file system that this is on.
    func synchronizeFileSystem() throws(StorageError) {
        guard nearshare_sync_filesystem(number) == 0 else { throw StorageError(errno, "can't write to the disk") }
    }

    /// Bytes that are free for us on the file system that this is on; nil when that can't be told.
    var freeBytes: UInt64? {
        var status = statvfs()
        guard fstatvfs(number, &status) == 0 else { return nil }
        let (bytes, overflow) = UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize))
        return overflow ? nil : bytes
    }

    func setModified(_ nanoseconds: Int64) {
        var (seconds, rest) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
        if rest < 0 { (seconds, rest) = (seconds - 1, rest + 1_000_000_000) }
        let time = timespec(tv_sec: Int(seconds), tv_nsec: Int(rest))
        // A time that the file system can't hold is no reason to refuse the content.
        _ = withUnsafePointer(to: (time, time)) {
            $0.withMemoryRebound(to: timespec.self, capacity: 2) { futimens(number, $0) }
        }
    }

    // MARK: Names

    func unlink(_ name: String) {
        unlinkat(number, name, 0)
    }

    /// Everything below the name, which is ours; links are removed, not followed.
    func removeTree(_ name: String) {
        name.withCString { removeTree(raw: $0) }
    }

    private func removeTree(raw name: UnsafePointer<CChar>) {
        // Linux says EISDIR, POSIX would have it EPERM.
        guard unlinkat(number, name, 0) != 0, errno == EISDIR || errno == EPERM,
            let directory = try? openDirectory(raw: name, shownAs: { String(cString: name) })
        else { return }
        if let names = try? DirectoryListing(of: directory) {
            for index in 0..<names.count { names.withCName(at: index) { directory.removeTree(raw: $0) } }
        }
        unlinkat(number, name, AT_REMOVEDIR)
    }

    func exists(_ name: String) -> Bool {
        var status = stat()
        return fstatat(number, name, &status, AT_SYMLINK_NOFOLLOW) == 0
    }

    /// Of the entry itself where it is a link; nil when there is none.
    func status(of name: String) throws(StorageError) -> stat? {
        var status = stat()
        if fstatat(number, name, &status, AT_SYMLINK_NOFOLLOW) == 0 { return status }
        guard errno == ENOENT else { throw StorageError(errno, "can't look at \(shown(name))") }
        return nil
    }

    /// Gives `name` the name `newName` in `directory` unless that one is taken.
    /// - Returns: false when it is taken.
    func rename(_ name: String, to newName: String, in directory: FileDescriptor) throws(Failure) -> Bool {
        if nearshare_rename_without_replacing(number, name, directory.number, newName) == 0 { return true }
        switch errno {
        case EEXIST: return false
        case EINVAL, ENOSYS: return try renameByClaiming(name, to: newName, in: directory)
        default: throw Failure(code: errno)
        }
    }

    /// An errno that decides what is done next, before it becomes a sentence.
    struct Failure: Error {
        let code: Int32
    }

    /// For file systems that can't rename without replacing (NFS, some in user space): a file gets a second name and loses
    /// its first; a folder takes the place of an empty one that we have just made.
    private func renameByClaiming(_ name: String, to newName: String, in directory: FileDescriptor) throws(Failure) -> Bool {
        if linkat(number, name, directory.number, newName, 0) == 0 {
            unlinkat(number, name, 0)
            return true
        }
        let reason = errno
        if reason == EEXIST { return false }
        guard (try? openDirectory(name)) != nil else { throw Failure(code: reason) }
        guard mkdirat(directory.number, newName, 0o700) == 0 else {
            if errno == EEXIST { return false }
            throw Failure(code: errno)
        }
        guard renameat(number, name, directory.number, newName) == 0 else {
            let code = errno
            // Refused by the kernel if somebody has put something into it meanwhile.
            unlinkat(directory.number, newName, AT_REMOVEDIR)
            if code == ENOTEMPTY || code == EEXIST { return false }
            throw Failure(code: code)
        }
        return true
    }

    /// The names in this directory in the order of their bytes, without `.` and `..`.
    func names() throws(StorageError) -> [String] {
        let names = try DirectoryListing(of: self)
        return (0..<names.count).map { names.name(at: $0) }
    }
}

/// The names in one directory in the order of their bytes, without `.` and `..`, in one block of memory: a folder of a
/// million files is held in some ten megabytes.
struct DirectoryListing {
    /// What readdir(3) says of an entry, which saves a look at each.
    enum Kind: UInt8 {
        case unknown, file, folder, link, other
    }

    /// Kind, name, NUL, one after the other.
    private var bytes: [UInt8] = []
    private var starts: [UInt32] = []

    var count: Int { starts.count }

    /// Memory that the names take.
    var byteCount: Int { bytes.count + starts.count * MemoryLayout<UInt32>.size }

    init(of directory: FileDescriptor) throws(StorageError) {
        let copy = nearshare_openat(directory.number, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
        guard copy >= 0 else { throw StorageError(errno, "can't list a folder") }
        guard let stream = fdopendir(copy) else {
            let code = errno
            close(copy)
            throw StorageError(code, "can't list a folder")
        }
        defer { closedir(stream) }
        errno = 0
        while let entry = readdir(stream) {
            withUnsafeBytes(of: &entry.pointee.d_name) { raw in
                // The kernel ends it with NUL well inside the field.
                let length = strlen(raw.baseAddress!.assumingMemoryBound(to: CChar.self))
                let name = raw[..<length]
                if name.elementsEqual([46]) || name.elementsEqual([46, 46]) { return }
                starts.append(UInt32(bytes.count))
                bytes.append(Self.kind(entry.pointee.d_type).rawValue)
                bytes.append(contentsOf: name)
                bytes.append(0)
            }
            guard bytes.count < Int(UInt32.max) - 512 else { throw StorageError(.overLimit, "too many files in one folder") }
            errno = 0
        }
        guard errno == 0 else { throw StorageError(errno, "can't list a folder") }
        bytes.withUnsafeBytes { raw in
            // strcmp compares bytes as unsigned, and stops at the NUL that is in none of them.
            starts.sort { strcmp(Self.text(raw, $0), Self.text(raw, $1)) < 0 }
        }
    }

    func kind(at index: Int) -> Kind { Kind(rawValue: bytes[Int(starts[index])]) ?? .unknown }

    func rawName(at index: Int) -> ArraySlice<UInt8> {
        let start = Int(starts[index]) + 1
        return bytes[start..<(bytes[start...].firstIndex(of: 0) ?? bytes.endIndex)]
    }

    func name(at index: Int) -> String { String(decoding: rawName(at: index), as: UTF8.self) }

    func withCName<Result, Failure: Error>(
        at index: Int, _ body: (UnsafePointer<CChar>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try bytes.withUnsafeBufferPointer { (buffer) throws(Failure) in
            try body(Self.text(UnsafeRawBufferPointer(buffer), starts[index]))
        }
    }

    private static func text(_ raw: UnsafeRawBufferPointer, _ start: UInt32) -> UnsafePointer<CChar> {
        (raw.baseAddress! + Int(start) + 1).assumingMemoryBound(to: CChar.self)
    }

    private static func kind(_ type: UInt8) -> Kind {
        switch Int(type) {
        case Int(DT_REG): .file
        case Int(DT_DIR): .folder
        case Int(DT_LNK): .link
        case Int(DT_UNKNOWN): .unknown
        default: .other
        }
    }
}

/// A local path or name, fit to be shown.
func shown(_ path: String) -> String { TerminalText.escaped(path, columns: 4096) }

extension StorageError {
    /// From errno, with a sentence that says what was being done.
    init(_ code: Int32, _ what: String) {
        let reason = String(cString: strerror(code)).lowercased()
        switch code {
        case ENOENT, ENOTDIR: self.init(.notFound, "\(what): \(reason)")
        case EACCES, EPERM, EROFS: self.init(.noPermission, "\(what): \(reason)")
        case ENOSPC, EDQUOT, EFBIG: self.init(.noSpace, "\(what): the disk is full; make room and try again")
        case ELOOP, EMLINK: self.init(.refused, "\(what): there is a symbolic link in the way")
        default: self.init(.failed, "\(what): \(reason)")
        }
    }
}

extension FileDescriptor {
    /// As ``openForReading(_:)`` for a name that need not be UTF-8.
    func openForReading(raw name: UnsafePointer<CChar>, shownAs path: () -> String) throws(StorageError) -> FileDescriptor {
        let raw = nearshare_openat(number, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0)
        guard raw >= 0 else { throw StorageError(errno, "can't read \(path())") }
        return FileDescriptor(owning: raw)
    }

    func openDirectory(raw name: UnsafePointer<CChar>, shownAs path: () -> String) throws(StorageError) -> FileDescriptor {
        let raw = nearshare_openat(number, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0)
        guard raw >= 0 else { throw StorageError(errno, "can't read the folder \(path())") }
        return FileDescriptor(owning: raw)
    }
}

/// Which file it is, and when something was last written to it: the same for two looks at a file that nobody has changed between
/// them, as long as it was open all the time.
struct FileVersion: Hashable {
    private let number: ino_t
    private let size: Int
    private let changedSeconds: Int
    private let changedNanoseconds: Int

    init(_ status: stat) {
        number = status.st_ino
        size = status.st_size
        // The time that nobody can set.
        changedSeconds = status.st_ctim.tv_sec
        changedNanoseconds = status.st_ctim.tv_nsec
    }
}

extension stat {
    var modifiedNanoseconds: Int64 {
        let (seconds, overflow) = Int64(st_mtim.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
        // Some file systems hold years that nanoseconds can't count.
        return overflow ? 0 : seconds &+ Int64(st_mtim.tv_nsec)
    }

    var isFolder: Bool { st_mode & S_IFMT == S_IFDIR }
    var isFile: Bool { st_mode & S_IFMT == S_IFREG }
}
