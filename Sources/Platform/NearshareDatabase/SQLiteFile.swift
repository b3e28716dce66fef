internal import CNearshareShims
internal import FoundationEssentials
internal import GRDB
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// A SQLite file with a write-ahead log, its owner's alone, whose errors are told in sentences for people.
final class SQLiteFile: Sendable {
    private let queue: DatabaseQueue
    private let path: String

    /// - Parameter migrator: makes and changes its tables.
    init(path: String, label: String, _ migrator: DatabaseMigrator) throws(StorageError) {
        self.path = path
        // SQLite gives the log and the index the permissions of the file.
        try Self.makeFile(path)
        var configuration = Configuration()
        configuration.label = label
        // Another process of this person may be writing.
        configuration.busyMode = .timeout(5)
        configuration.prepareDatabase { database in
            try database.execute(sql: "PRAGMA journal_mode = WAL")
            try database.execute(sql: "PRAGMA synchronous = FULL")
            // What was removed leaves nothing behind to be read.
            try database.execute(sql: "PRAGMA secure_delete = ON")
        }
        queue = try Self.shielded(path) {
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            do {
                try migrator.migrate(queue)
            } catch {
                // Another process may have made the same tables at the same moment.
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

    /// The log keeps what was removed from the file itself until it is written over: this empties it.
    func truncateLog() throws(StorageError) {
        try Self.shielded(path) { _ = try queue.writeWithoutTransaction { try $0.checkpoint(.truncate) } }
    }

    private static func shielded<Result>(_ path: String, _ body: () throws -> Result) throws(StorageError) -> Result {
        do {
            return try body()
        } catch let error as DatabaseError {
            switch error.resultCode {
            case .SQLITE_FULL: throw StorageError(.noSpace, "no room on the disk for messages; make some")
            case .SQLITE_CORRUPT, .SQLITE_NOTADB:
                throw StorageError(.failed, "\(path) is damaged; move it away to start with a new one")
            case .SQLITE_CANTOPEN, .SQLITE_PERM, .SQLITE_READONLY, .SQLITE_AUTH:
                throw StorageError(.noPermission, "\(path) can't be opened; make it a file of yours")
            case .SQLITE_BUSY, .SQLITE_LOCKED:
                throw StorageError(.failed, "\(path) is in use by another program for long; end that one")
            default: throw StorageError(.failed, "\(path) can't be used: \(error.message ?? "no reason given")")
            }
        } catch {
            throw StorageError(.failed, "\(path) can't be used: \(error)")
        }
    }

    /// For its owner alone (0600); no link is followed.
    private static func makeFile(_ path: String) throws(StorageError) {
        let file = nearshare_openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw StorageError(.noPermission, "\(path) can't be made; make its directory writable") }
        defer { close(file) }
        // An earlier one may have been given to others.
        fchmod(file, 0o600)
    }
}

/// Bytes as SQLite takes them.
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
