internal import CNearshareShims
internal import FoundationEssentials
internal import Glibc
public import NearshareEdges
public import NearshareSecurity

/// The directory with keys and what is remembered: 0700, its files 0600, each replaced as a whole or not at all.
public final class StateDirectory: Sendable {
    public let path: String
    private let directory: Descriptor

    private static let keyFileName = "identity.key"
    private static let maximumFileByteCount = 16 << 20

    /// Makes it, and what is missing on the way to it, for its owner alone.
    public init(path: String) throws(StorageError) {
        self.path = path
        try Self.makeDirectories(path)
        directory = try Descriptor.openDirectory(path: path)
        let owner = try directory.status().st_uid
        guard owner == geteuid() || geteuid() == 0 else {
            throw StorageError(
                .noPermission, "\(shown(path)) belongs to somebody else; set XDG_STATE_HOME to a place of your own")
        }
        fchmod(directory.number, 0o700)
    }

    public var spoolPath: String { "\(path)/spool" }

    // MARK: Key

    /// Whether a key has been made already.
    public var hasIdentity: Bool { faccessat(directory.number, Self.keyFileName, F_OK, 0) == 0 }

    /// The key, made from the kernel's randomness at the first time (K10).
    public func identity() throws(StorageError) -> LocalIdentity {
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

    // MARK: Small files

    /// What is in a file of JSON; nil when there is none.
    public func read<Value: Decodable>(_ type: Value.Type, from name: String) throws(StorageError) -> Value? {
        guard let bytes = try readFile(name) else { return nil }
        do {
            return try JSONDecoder().decode(type, from: Data(bytes))
        } catch {
            throw StorageError(.failed, "\(shown(path))/\(name) is damaged; move it away to start with a new one")
        }
    }

    /// Reads, changes and replaces a file of JSON, while no other process does.
    public func change<Value: Codable, Result>(
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

    func readFile(_ name: String) throws(StorageError) -> [UInt8]? {
        guard faccessat(directory.number, name, F_OK, 0) == 0 else { return nil }
        return try directory.openForReading(name).readAll(limit: Self.maximumFileByteCount)
    }

    /// Appends a line. When the file has grown to twice `limit` bytes, its last `limit` bytes stay, from a whole line on.
    func append(_ line: [UInt8], to name: String, rotatedAt limit: Int) throws(StorageError) {
        try withLock { () throws(StorageError) in
            let raw = nearshare_openat(
                directory.number, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
            guard raw >= 0 else { throw StorageError(errno, "can't write \(shown(path))/\(name)") }
            let file = Descriptor(taking: raw)
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

    func openForLocking(_ name: String) throws(StorageError) -> Descriptor {
        let raw = nearshare_openat(directory.number, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard raw >= 0 else { throw StorageError(errno, "can't lock \(shown(path))") }
        return Descriptor(taking: raw)
    }

    private func withLock<Result>(_ body: () throws(StorageError) -> Result) throws(StorageError) -> Result {
        let lock = try openForLocking("lock")
        while flock(lock.number, LOCK_EX) != 0 {
            guard errno == EINTR else { throw StorageError(errno, "can't lock \(shown(path))") }
        }
        // Said, not left to closing: a child that is just being started may hold a copy of the descriptor.
        defer { flock(lock.number, LOCK_UN) }
        return try body()
    }

    /// For its owner alone; what is there already stays as it is.
    public static func makeDirectories(_ path: String) throws(StorageError) {
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
