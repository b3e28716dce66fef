internal import CNearshareShims
internal import FoundationEssentials
internal import Glibc
package import NearshareCrypto
package import NearshareInterfaces

/// The directory with keys and what is remembered: 0700, its files 0600, each replaced as a whole or not at all.
///
/// Whoever has one open holds a shared lock on the directory itself, so that ``destroy()`` takes nothing away from under a process
/// that still works with it.
package final class StateDirectory: Sendable {
    package let path: String
    private let directory: FileDescriptor

    private static let keyFileName = "identity.key"
    /// The key's name from the moment on at which everything is to go.
    private static let destroyedKeyFileName = "identity.destroyed"
    /// Held by a node for as long as it runs.
    static let nodeLockName = "node.lock"
    private static let lockName = "lock"
    private static let maximumFileByteCount = 16 << 20

    /// Makes it, and what is missing on the way to it, for its owner alone.
    package init(path: String) throws(StorageError) {
        self.path = path
        try Self.makeDirectories(path)
        directory = try FileDescriptor.openDirectory(path: path)
        let owner = try directory.status().st_uid
        guard owner == geteuid() || geteuid() == 0 else {
            throw StorageError(
                .noPermission, "\(shown(path)) belongs to somebody else; set XDG_STATE_HOME to a place of your own")
        }
        fchmod(directory.number, 0o700)
        try share()
        if directory.exists(Self.destroyedKeyFileName) {
            // Somebody was killed in the middle of destroying it.
            try lockDirectory(LOCK_EX)
            if directory.exists(Self.destroyedKeyFileName) { try removeEverything() }
            try share()
        }
    }

    package var spoolPath: String { "\(path)/spool" }

    // MARK: Key

    /// Whether a key has been made already.
    package var hasIdentity: Bool { faccessat(directory.number, Self.keyFileName, F_OK, 0) == 0 }

    /// The key, made from the kernel's randomness at the first time (K10).
    package func identity() throws(StorageError) -> LocalIdentity {
        try withLock { () throws(StorageError) in
            if let bytes = try readKey() { return try Self.decode(bytes, path: "\(path)/\(Self.keyFileName)") }
            var seed = [UInt8](repeating: 0, count: LocalIdentity.seedByteCount)
            defer { explicit_bzero(&seed, seed.count) }
            guard nearshare_random(&seed, seed.count) == 0 else {
                throw StorageError(errno, "the kernel gives no random bytes")
            }
            let identity = LocalIdentity(seed: seed)
            try replace(Self.keyFileName, with: identity.encoded)
            return identity
        }
    }

    private func readKey() throws(StorageError) -> [UInt8]? {
        guard hasIdentity else { return nil }
        let file = try directory.openForReading(Self.keyFileName)
        let status = try file.status()
        guard status.isFile, status.st_uid == geteuid() || geteuid() == 0 else {
            throw StorageError(.noPermission, "\(shown(path))/\(Self.keyFileName) is no file of yours; move it away")
        }
        guard status.st_mode & 0o077 == 0 else {
            throw StorageError(
                .noPermission,
                "\(shown(path))/\(Self.keyFileName) can be read by others, so the key may be known; "
                    + "chmod 600 it if you are sure that nobody has, else remove it")
        }
        return try file.readAll(limit: 4096)
    }

    private static func decode(_ bytes: [UInt8], path: String) throws(StorageError) -> LocalIdentity {
        do {
            return try LocalIdentity(decoding: bytes)
        } catch {
            throw StorageError(.failed, "\(shown(path)) can't be used: \(error)")
        }
    }

    // MARK: The end of it

    /// Whether anything is remembered here.
    package var isEmpty: Bool {
        get throws(StorageError) { try directory.names().allSatisfy { $0 == Self.lockName || $0 == Self.nodeLockName } }
    }

    /// Throws where ``destroy()`` would, because somebody else works with what is here.
    package func checkUnused() throws(StorageError) {
        try claim()
        try share()
    }

    /// Removes the key and everything that is remembered, whatever it is called; the empty directory stays. The key goes first,
    /// and its bytes are overwritten, for what that is worth (docs/THREATS.md). Whoever is killed in the middle leaves a
    /// directory without a key, which the next one to open it empties before anything else.
    /// - Throws: ``StorageError`` with nothing touched while another process has the directory open, and with the key gone where
    ///   something can't be removed.
    package func destroy() throws(StorageError) {
        try claim()
        if directory.exists(Self.keyFileName) {
            guard renameat(directory.number, Self.keyFileName, directory.number, Self.destroyedKeyFileName) == 0 else {
                throw StorageError(errno, "can't remove \(shown(path))/\(Self.keyFileName)")
            }
        } else {
            _ = try directory.createFile(Self.destroyedKeyFileName)
        }
        try directory.synchronize()
        try removeEverything()
        try share()
    }

    /// With the directory locked, and the key under its other name, which goes last.
    private func removeEverything() throws(StorageError) {
        overwriteKey()
        for name in try directory.names() where name != Self.destroyedKeyFileName { directory.removeTree(name) }
        if let left = try directory.names().first(where: { $0 != Self.destroyedKeyFileName }) {
            throw StorageError(
                .noPermission, "the key is gone, but \(shown(path))/\(shown(left)) can't be removed; remove it by hand")
        }
        // What is remembered is gone for good before the mark that says so is.
        try directory.synchronize()
        directory.removeTree(Self.destroyedKeyFileName)
        try directory.synchronize()
    }

    /// As far as that can be done from here: a file system may write elsewhere. What is no plain file of ours holds no key.
    private func overwriteKey() {
        guard let file = try? directory.openForWriting(Self.destroyedKeyFileName), let size = try? file.status().st_size,
            size <= Self.maximumFileByteCount
        else { return }
        try? file.write([UInt8](repeating: 0, count: Int(size)))
        try? file.synchronize()
    }

    /// Keeps everybody else out, or says who is in.
    private func claim() throws(StorageError) {
        if let nodeLock = try? directory.openForReading(Self.nodeLockName) {
            guard flock(nodeLock.number, LOCK_EX | LOCK_NB) == 0 else {
                throw StorageError(.failed, "a node is running with this key; `nearshare mesh stop` ends it")
            }
            flock(nodeLock.number, LOCK_UN)
        }
        guard flock(directory.number, LOCK_EX | LOCK_NB) != 0 else { return }
        let code = errno
        // Asking for more has cost what was held.
        try share()
        guard code == EWOULDBLOCK else { throw StorageError(code, "can't lock \(shown(path))") }
        throw StorageError(
            .failed,
            "another nearshare is at work with this key; end `nearshare receive` first, by Ctrl-C or "
                + "`systemctl --user stop nearshare`")
    }

    private func share() throws(StorageError) { try lockDirectory(LOCK_SH) }

    private func lockDirectory(_ kind: Int32) throws(StorageError) {
        while flock(directory.number, kind) != 0 {
            // Some file systems know no locks; there the last one to come must not be the one who destroys.
            if errno == ENOLCK || errno == EOPNOTSUPP, kind == LOCK_SH { return }
            guard errno == EINTR else { throw StorageError(errno, "can't lock \(shown(path))") }
        }
    }

    // MARK: Small files

    /// What is in a file of JSON; nil when there is none.
    package func read<Value: Decodable>(_ type: Value.Type, from name: String) throws(StorageError) -> Value? {
        guard let file = try openFile(name) else { return nil }
        return try decode(type, from: file, called: name)
    }

    /// - Parameter file: open, at its beginning.
    func decode<Value: Decodable>(
        _ type: Value.Type, from file: FileDescriptor, called name: String
    ) throws(StorageError) -> Value {
        let bytes = try file.readAll(limit: Self.maximumFileByteCount)
        do {
            return try JSONDecoder().decode(type, from: Data(bytes))
        } catch {
            throw StorageError(.failed, "\(shown(path))/\(name) is damaged; move it away to start with a new one")
        }
    }

    /// Reads, changes and replaces a file of JSON, while no other process does.
    package func update<Value: Codable, Result>(
        _ name: String, startingWith empty: Value, _ body: (inout Value) -> Result
    ) throws(StorageError) -> Result {
        try withLock { () throws(StorageError) in
            var value = try read(Value.self, from: name) ?? empty
            let result = body(&value)
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .prettyPrinted]
            guard let bytes = try? encoder.encode(value) else {
                throw StorageError(.failed, "can't write \(shown(path))/\(name)")
            }
            try replace(name, with: Array(bytes))
            return result
        }
    }

    /// nil when there is none.
    func openFile(_ name: String) throws(StorageError) -> FileDescriptor? {
        guard directory.exists(name) else { return nil }
        return try directory.openForReading(name)
    }

    /// nil when there is no such file.
    func version(of name: String) throws(StorageError) -> FileVersion? {
        try directory.status(of: name).map(FileVersion.init)
    }

    func readFile(_ name: String) throws(StorageError) -> [UInt8]? {
        try openFile(name)?.readAll(limit: Self.maximumFileByteCount)
    }

    /// Appends a line. When the file has grown to twice `limit` bytes, its last `limit` bytes stay, from a whole line on.
    func append(_ line: [UInt8], to name: String, rotatedAt limit: Int) throws(StorageError) {
        try withLock { () throws(StorageError) in
            let raw = nearshare_openat(
                directory.number, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
            guard raw >= 0 else { throw StorageError(errno, "can't write \(shown(path))/\(name)") }
            let file = FileDescriptor(owning: raw)
            try file.write(line + [UInt8(ascii: "\n")])
            guard try file.status().st_size > 2 * limit, let whole = try readFile(name) else { return }
            let tail = whole.suffix(limit)
            let start = tail.firstIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? tail.startIndex
            try replace(name, with: Array(tail[start...]))
        }
    }

    /// Written aside, made durable, then renamed: a reader sees the old file or the new one.
    private func replace(_ name: String, with bytes: [UInt8]) throws(StorageError) {
        let aside = "\(name).new"
        directory.unlink(aside)
        guard let file = try directory.createFile(aside) else {
            throw StorageError(.failed, "can't write \(shown(path))/\(aside)")
        }
        try file.write(bytes)
        guard fsync(file.number) == 0, renameat(directory.number, aside, directory.number, name) == 0 else {
            throw StorageError(errno, "can't write \(shown(path))/\(name)")
        }
        fsync(directory.number)
    }

    func openForLocking(_ name: String) throws(StorageError) -> FileDescriptor {
        let raw = nearshare_openat(directory.number, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard raw >= 0 else { throw StorageError(errno, "can't lock \(shown(path))") }
        return FileDescriptor(owning: raw)
    }

    private func withLock<Result>(_ body: () throws(StorageError) -> Result) throws(StorageError) -> Result {
        let lock = try openForLocking(Self.lockName)
        while flock(lock.number, LOCK_EX) != 0 {
            guard errno == EINTR else { throw StorageError(errno, "can't lock \(shown(path))") }
        }
        // Said, not left to closing: a child that is just being started may hold a copy of the descriptor.
        defer { flock(lock.number, LOCK_UN) }
        return try body()
    }

    /// For its owner alone; what is there already stays as it is.
    package static func makeDirectories(_ path: String) throws(StorageError) {
        var made = path.hasPrefix("/") ? "" : "."
        for part in path.split(separator: "/") {
            made += "/" + part
            if mkdir(made, 0o700) == 0 {
                // Whatever the umask has left of it.
                chmod(made, 0o700)
            } else if errno != EEXIST {
                throw StorageError(errno, "can't make \(shown(made))")
            }
        }
    }
}
