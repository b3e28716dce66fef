internal import CNearshareShims
internal import FoundationEssentials
internal import GRDB
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// A SQLite file with a write-ahead log, accessible to its owner only. Its errors have messages for users.
final class SQLiteFile: Sendable {
    private let queue: DatabaseQueue
    private let path: String

    /// - Parameter migrator: creates and changes the tables.
    init(path: String, label: String, _ migrator: DatabaseMigrator) throws(StorageError) {
        self.path = path
        // SQLite gives the log and the index the permissions of the file.
        try Self.makeFile(path)
        var configuration = Configuration()
        configuration.label = label
        // Another process of this user may be writing.
        configuration.busyMode = .timeout(5)
        configuration.prepareDatabase { database in
            try database.execute(sql: "PRAGMA journal_mode = WAL")
            try database.execute(sql: "PRAGMA synchronous = FULL")
            // The log is written back to the file every 256 KiB, and a longer one, after many changes at once, is cut off: both
            // files together stay near the size of the content.
            try database.execute(sql: "PRAGMA wal_autocheckpoint = 64")
            try database.execute(sql: "PRAGMA journal_size_limit = 524288")
            // A confined process cannot create temporary files.
            try database.execute(sql: "PRAGMA temp_store = MEMORY")
            // Overwrites deleted content with zeros.
            try database.execute(sql: "PRAGMA secure_delete = ON")
        }
        queue = try Self.shielded(path) {
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            guard try !queue.read(migrator.hasBeenSuperseded) else {
                throw StorageError(.failed, "\(path) was written by a later version of nearshare; update nearshare")
            }
            do {
                try migrator.migrate(queue)
            } catch {
                // Another process may have created the same tables at the same time.
                guard try queue.read(migrator.hasCompletedMigrations) else { throw error }
            }
            return queue
        }
    }

    func read<Result>(_ body: @Sendable (Database) throws -> Result) throws(StorageError) -> Result {
        try Self.shielded(path) { try queue.read(body) }
    }

    func write<Result>(_ body: @Sendable (Database) throws -> Result) throws(StorageError) -> Result {
        try Self.shielded(path) { try queue.write(body) }
    }

    /// Empties the log, which keeps deleted content until it is overwritten.
    func truncateLog() throws(StorageError) {
        try Self.shielded(path) { _ = try queue.writeWithoutTransaction { try $0.checkpoint(.truncate) } }
    }

    private static func shielded<Result>(_ path: String, _ body: () throws -> Result) throws(StorageError) -> Result {
        do {
            return try body()
        } catch let error as StorageError {
            throw error
        } catch let error as DatabaseError {
            switch error.resultCode {
            case .SQLITE_FULL: throw StorageError(.noSpace, "the disk is full, so messages cannot be stored; free some space")
            case .SQLITE_IOERR where isDiskFull(path):
                throw StorageError(.noSpace, "the disk is full, so messages cannot be stored; free some space")
            case .SQLITE_CORRUPT, .SQLITE_NOTADB:
                throw StorageError(.failed, "\(path) is damaged; move it away to start with an empty one")
            case .SQLITE_CANTOPEN, .SQLITE_PERM, .SQLITE_READONLY, .SQLITE_AUTH:
                throw StorageError(.noPermission, "\(path) cannot be opened; make sure that you own it")
            case .SQLITE_BUSY, .SQLITE_LOCKED:
                throw StorageError(.failed, "\(path) is in use by another program; stop that program")
            default: throw StorageError(.failed, "\(path) cannot be used: \(error.message ?? "unknown error")")
            }
        } catch {
            throw StorageError(.failed, "\(path) cannot be used: \(error)")
        }
    }

    /// SQLite reports an I/O error where there is no room for its shared memory.
    private static func isDiskFull(_ path: String) -> Bool {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return false }
        return UInt64(status.f_bavail) * UInt64(status.f_frsize) < 1 << 20
    }

    /// Creates the file with mode 0600; does not follow symbolic links.
    private static func makeFile(_ path: String) throws(StorageError) {
        let file = nearshare_openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw StorageError(.noPermission, "\(path) cannot be created; make its directory writable") }
        defer { close(file) }
        // An existing file may have been readable for others.
        fchmod(file, 0o600)
    }
}

/// Bytes as a SQLite value.
struct Blob: DatabaseValueConvertible {
    let bytes: [UInt8]

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    var databaseValue: DatabaseValue { Data(bytes).databaseValue }

    static func fromDatabaseValue(_ value: DatabaseValue) -> Blob? {
        Data.fromDatabaseValue(value).map { Blob(Array($0)) }
    }
}

extension Row {
    func bytes(_ column: Int) -> [UInt8] { optionalBytes(column) ?? [] }

    func optionalBytes(_ column: Int) -> [UInt8]? {
        guard let data: Data = self[column] else { return nil }
        return Array(data)
    }
}
