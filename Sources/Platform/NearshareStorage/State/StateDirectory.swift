internal import CNearshareShims
internal import FoundationEssentials
internal import Glibc
internal import NearshareBase
package import NearshareCrypto
package import NearshareInterfaces
internal import Synchronization

/// The directory of the identity key and all stored state: mode 0700, its files 0600, each replaced atomically.
///
/// Every open instance holds a shared lock on the directory, so that ``destroy()`` fails while another process uses it.
package final class StateDirectory: Sendable {
    package let path: String
    private let directory: FileDescriptor

    private static let keyFileName = "identity.key"
    /// The key file's name while the directory is being destroyed.
    private static let destroyedKeyFileName = "identity.destroyed"
    /// Locked by a running node.
    static let nodeLockName = "node.lock"
    /// Locked by the process whose nodes take part in sessions.
    static let sessionLockName = "sessions.lock"
    /// Locked by the process that shows notifications.
    static let notificationLockName = "notify.lock"
    /// The folder of the directories of applications with identities of their own.
    package static let applicationsName = "applications"
    /// The user's decisions about peers.
    static let trustFileName = "trust.json"
    /// The keys that peers have announced, and that the user has imported.
    static let contactFileName = "contacts.json"
    private static let lockName = "lock"
    private static let maximumFileByteCount = 16 << 20

    /// The state directories that this process has opened.
    private static let used = Mutex<Set<FileIdentity>>([])

    /// Whether a directory is one that this process has opened as a state directory. Nothing in it is ever sent.
    static func isUsed(_ directory: FileIdentity) -> Bool { used.withLock { $0.contains(directory) } }

    /// Creates the directory and its missing parents for their owner alone. Completes an interrupted ``destroy()``.
    package init(path: String) throws(StorageError) {
        self.path = path
        try Self.makeDirectories(path)
        directory = try FileDescriptor.openDirectory(path: path)
        let status = try directory.status()
        Self.used.withLock { _ = $0.insert(FileIdentity(status)) }
        let owner = status.st_uid
        guard owner == geteuid() || geteuid() == 0 else {
            throw StorageError(
                .noPermission, "\(shown(path)) belongs to another user; set XDG_STATE_HOME to a directory of your own")
        }
        fchmod(directory.rawValue, 0o700)
        try lockShared()
        if directory.exists(Self.destroyedKeyFileName) {
            // A process was killed while it destroyed the directory.
            try lockDirectory(LOCK_EX)
            if directory.exists(Self.destroyedKeyFileName) { try removeEverything() }
            try lockShared()
        }
    }

    /// An open directory, which has the exclusive lock.
    init(path: String, directory: FileDescriptor) {
        self.path = path
        self.directory = directory
    }

    package var spoolPath: String { "\(path)/spool" }

    // MARK: Key

    /// Whether the identity key exists.
    package var hasIdentity: Bool { faccessat(directory.rawValue, Self.keyFileName, F_OK, 0) == 0 }

    /// The identity key, created from the kernel's randomness by the first call (K10).
    package func identity() throws(StorageError) -> LocalIdentity {
        try withLock { () throws(StorageError) in
            if let bytes = try readKey(Self.keyFileName) { return try Self.decode(bytes, path: "\(path)/\(Self.keyFileName)") }
            // Uses getrandom(2).
            var generator = SystemRandomNumberGenerator()
            var seed = (0..<LocalIdentity.seedByteCount).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
            defer { explicit_bzero(&seed, seed.count) }
            let identity = LocalIdentity(seed: seed)
            try replace(Self.keyFileName, with: identity.encoded)
            return identity
        }
    }

    /// The content of another file with a private key, which the first call makes.
    package func key(_ name: String, make: () throws(StorageError) -> [UInt8]) throws(StorageError) -> [UInt8] {
        try withLock { () throws(StorageError) in
            if let bytes = try readKey(name) { return bytes }
            let bytes = try make()
            try replace(name, with: bytes)
            return bytes
        }
    }

    /// Whether another file with a private key exists.
    package func hasKey(_ name: String) -> Bool { faccessat(directory.rawValue, name, F_OK, 0) == 0 }

    private static let maximumKeyByteCount = 16_384

    private func readKey(_ name: String) throws(StorageError) -> [UInt8]? {
        guard faccessat(directory.rawValue, name, F_OK, 0) == 0 else { return nil }
        let file = try directory.openForReading(name, shownAs: "\(path)/\(name)")
        let status = try file.status()
        guard status.isFile, status.st_uid == geteuid() || geteuid() == 0 else {
            throw StorageError(.noPermission, "\(shown(path))/\(name) does not belong to you; move it away")
        }
        guard status.st_mode & 0o077 == 0 else {
            throw StorageError(
                .noPermission,
                "\(shown(path))/\(name) can be read by others, so the key may be known; "
                    + "chmod 600 it if you are sure that it is not, otherwise remove it")
        }
        return try file.read(upTo: Self.maximumKeyByteCount)
    }

    private static func decode(_ bytes: [UInt8], path: String) throws(StorageError) -> LocalIdentity {
        do {
            return try LocalIdentity(decoding: bytes)
        } catch {
            throw StorageError(.failed, "\(shown(path)) cannot be used: \(error)")
        }
    }

    // MARK: Destroying

    /// Whether nothing is stored.
    package var isEmpty: Bool {
        get throws(StorageError) {
            let locks: Set = [Self.lockName, Self.nodeLockName, Self.sessionLockName, Self.notificationLockName]
            return try directory.names().allSatisfy(locks.contains)
        }
    }

    /// Throws if ``destroy()`` would fail because another process uses the directory.
    package func checkUnused() throws(StorageError) {
        try lockExclusively()
        try lockShared()
    }

    /// Removes the key and all other files; the empty directory stays. The key is removed first, and its bytes are overwritten
    /// as far as the file system allows (docs/THREATS.md). If the process is killed meanwhile, the directory has no key, and
    /// the next process that opens it removes the rest.
    /// - Throws: ``StorageError`` without any change while another process has the directory open; without the key if another
    ///   file cannot be removed.
    package func destroy() throws(StorageError) {
        try lockExclusively()
        if directory.exists(Self.keyFileName) {
            guard renameat(directory.rawValue, Self.keyFileName, directory.rawValue, Self.destroyedKeyFileName) == 0 else {
                throw StorageError(errno, "could not remove \(shown(path))/\(Self.keyFileName)")
            }
        } else {
            _ = try directory.createFile(Self.destroyedKeyFileName)
        }
        try directory.synchronize()
        try removeEverything()
        try lockShared()
    }

    /// Removes all files while the directory is locked; the renamed key is removed last.
    private func removeEverything() throws(StorageError) {
        overwriteKey()
        for name in try directory.names() where name != Self.destroyedKeyFileName { directory.removeTree(name) }
        if let left = try directory.names().first(where: { $0 != Self.destroyedKeyFileName }) {
            throw StorageError(
                .noPermission, "the key is gone, but \(shown(path))/\(shown(left)) cannot be removed; remove it by hand")
        }
        // All other files are durably removed before the mark.
        try directory.synchronize()
        directory.removeTree(Self.destroyedKeyFileName)
        try directory.synchronize()
    }

    /// Overwrites the key in place. File systems may write elsewhere; anything but a regular file of the user's contains no key.
    private func overwriteKey() {
        guard let file = try? directory.openForWriting(Self.destroyedKeyFileName), let size = try? file.status().st_size,
            size <= Self.maximumFileByteCount
        else { return }
        try? file.write([UInt8](repeating: 0, count: Int(size)))
        try? file.synchronize()
    }

    /// Acquires the exclusive lock.
    /// - Throws: naming the process that uses the directory.
    private func lockExclusively() throws(StorageError) {
        if let nodeLock = try? directory.openForReading(Self.nodeLockName) {
            guard flock(nodeLock.rawValue, LOCK_EX | LOCK_NB) == 0 else {
                let process = (try? nodeProcessID()).flatMap { $0 > 0 ? " (process \($0))" : nil } ?? ""
                throw StorageError(
                    .failed,
                    "a node is running with this key\(process); stop it with `nearshare mesh stop`, or with Ctrl-C where it runs"
                )
            }
            flock(nodeLock.rawValue, LOCK_UN)
        }
        try checkApplicationsUnused()
        guard flock(directory.rawValue, LOCK_EX | LOCK_NB) != 0 else { return }
        let code = errno
        // The failed upgrade has released the shared lock.
        try lockShared()
        guard code == EWOULDBLOCK else { throw StorageError(code, "could not lock \(shown(path))") }
        throw StorageError(
            .failed,
            "another nearshare process uses this key; stop `nearshare receive` first, with Ctrl-C or "
                + "`systemctl --user stop nearshare`")
    }

    /// - Throws: naming an application whose identity a program uses.
    private func checkApplicationsUnused() throws(StorageError) {
        guard let applications = try? directory.openDirectory(Self.applicationsName) else { return }
        for name in try applications.names() {
            guard let one = try? applications.openDirectory(name) else { continue }
            guard flock(one.rawValue, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK else {
                throw StorageError(
                    .failed,
                    "a program uses the identity of the application \(shown(name)), which would be destroyed too; end it first")
            }
        }
    }

    private func lockShared() throws(StorageError) { try lockDirectory(LOCK_SH) }

    private func lockDirectory(_ kind: Int32) throws(StorageError) {
        while flock(directory.rawValue, kind) != 0 {
            // Some file systems have no locks: there the directory can be used but not destroyed.
            if errno == ENOLCK || errno == EOPNOTSUPP, kind == LOCK_SH { return }
            guard errno == EINTR else { throw StorageError(errno, "could not lock \(shown(path))") }
        }
    }

    // MARK: Small files

    /// Decodes a JSON file; nil when it does not exist.
    package func read<Value: Decodable>(_ type: Value.Type, from name: String) throws(StorageError) -> Value? {
        guard let file = try openFile(name) else { return nil }
        return try decode(type, from: file, called: name)
    }

    /// Decodes an open JSON file.
    /// - Parameter file: at its beginning.
    func decode<Value: Decodable>(
        _ type: Value.Type, from file: FileDescriptor, called name: String
    ) throws(StorageError) -> Value {
        let bytes = try file.read(upTo: Self.maximumFileByteCount)
        do {
            return try JSONDecoder().decode(type, from: Data(bytes))
        } catch {
            guard (try? JSONDecoder().decode(StructuredValue.self, from: Data(bytes))) != nil else {
                throw StorageError(
                    .failed,
                    "\(shown(path))/\(name) is damaged; put a backup of it back, or move it away to start with a new one"
                        + Self.loss(of: name))
            }
            throw StorageError(
                .failed,
                "\(shown(path))/\(name) has content that this version of nearshare does not know, perhaps of a later "
                    + "version; update nearshare, or move the file away to start with a new one\(Self.loss(of: name))")
        }
    }

    /// The end of a sentence about a new file: what the user loses with the old one.
    private static func loss(of name: String) -> String {
        name == trustFileName ? ", without your friends, verified keys, given names and blocks" : ""
    }

    /// Reads, changes and replaces a JSON file under a lock of all processes.
    package func update<Value: Codable, Result>(
        _ name: String, startingWith empty: Value, _ body: (inout Value) -> Result
    ) throws(StorageError) -> Result {
        try withLock { () throws(StorageError) in
            var value = try read(Value.self, from: name) ?? empty
            let result = body(&value)
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .prettyPrinted]
            guard let bytes = try? encoder.encode(value) else {
                throw StorageError(.failed, "could not write \(shown(path))/\(name)")
            }
            try replace(name, with: Array(bytes))
            return result
        }
    }

    /// Opens a file; nil when it does not exist.
    func openFile(_ name: String) throws(StorageError) -> FileDescriptor? {
        guard directory.exists(name) else { return nil }
        return try directory.openForReading(name, shownAs: "\(path)/\(name)")
    }

    /// The version of a file; nil when it does not exist.
    func version(of name: String) throws(StorageError) -> FileVersion? {
        try directory.status(of: name).map(FileVersion.init)
    }

    func readFile(_ name: String) throws(StorageError) -> [UInt8]? {
        try openFile(name)?.read(upTo: Self.maximumFileByteCount)
    }

    /// Appends a line. A file of more than twice `limit` bytes is reduced to the lines that `select` keeps.
    /// - Parameter select: receives the lines, the oldest first, and returns those to keep, in order.
    func append(
        _ line: [UInt8], to name: String, retaining limit: Int, select: ([ArraySlice<UInt8>]) -> [ArraySlice<UInt8>]
    ) throws(StorageError) {
        try withLock { () throws(StorageError) in
            let raw = nearshare_openat(
                directory.rawValue, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
            guard raw >= 0 else { throw StorageError(errno, "could not write \(shown(path))/\(name)") }
            let file = FileDescriptor(owning: raw)
            try file.write(line + [UInt8(ascii: "\n")])
            guard try file.status().st_size > 2 * limit, let whole = try readFile(name) else { return }
            let kept = select(whole.split(separator: UInt8(ascii: "\n")))
            try replace(name, with: Array(kept.map { $0 + [UInt8(ascii: "\n")] }.joined()))
        }
    }

    /// Replaces the lines of a file by those that `change` returns. No effect on a missing file.
    func updateLines(of name: String, change: ([ArraySlice<UInt8>]) -> [ArraySlice<UInt8>]) throws(StorageError) {
        try withLock { () throws(StorageError) in
            guard let whole = try readFile(name) else { return }
            let lines = whole.split(separator: UInt8(ascii: "\n"))
            let kept = change(lines)
            guard kept != lines else { return }
            try replace(name, with: Array(kept.map { $0 + [UInt8(ascii: "\n")] }.joined()))
        }
    }

    /// Replaces a file atomically: a reader sees either the old content or the new one.
    private func replace(_ name: String, with bytes: [UInt8]) throws(StorageError) {
        let temporaryName = "\(name).new"
        directory.unlink(temporaryName)
        guard let file = try directory.createFile(temporaryName) else {
            throw StorageError(.failed, "could not write \(shown(path))/\(temporaryName)")
        }
        try file.write(bytes)
        guard fsync(file.rawValue) == 0, renameat(directory.rawValue, temporaryName, directory.rawValue, name) == 0 else {
            throw StorageError(errno, "could not write \(shown(path))/\(name)")
        }
        fsync(directory.rawValue)
    }

    /// Opens a file for flock(2), creating it if necessary.
    func openForLocking(_ name: String) throws(StorageError) -> FileDescriptor {
        let raw = nearshare_openat(directory.rawValue, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard raw >= 0 else { throw StorageError(errno, "could not lock \(shown(path))") }
        return FileDescriptor(owning: raw)
    }

    private func withLock<Result>(_ body: () throws(StorageError) -> Result) throws(StorageError) -> Result {
        let lock = try openForLocking(Self.lockName)
        while flock(lock.rawValue, LOCK_EX) != 0 {
            guard errno == EINTR else { throw StorageError(errno, "could not lock \(shown(path))") }
        }
        // Unlocks explicitly: a child process that is being started may share the descriptor.
        defer { flock(lock.rawValue, LOCK_UN) }
        return try body()
    }

    /// Creates the missing directories of a path for their owner alone.
    package static func makeDirectories(_ path: String) throws(StorageError) {
        try LocalPath.check(path)
        var current = path.hasPrefix("/") ? "" : "."
        for part in path.pathComponents {
            current += "/" + part
            if mkdir(current, 0o700) == 0 {
                // The umask may have removed bits.
                chmod(current, 0o700)
            } else if errno != EEXIST {
                throw StorageError(errno, "could not create \(shown(current))")
            }
        }
    }
}
