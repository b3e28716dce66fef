internal import CNearshareShims
internal import FoundationEssentials
internal import GRDB
internal import Glibc
public import NearshareBase
public import NearshareEdges
internal import Synchronization

/// Carried messages in a SQLite file with a write-ahead log: what was inserted is there after `kill -9` and after a loss of power.
public final class SQLiteCarriedStore: CarriedStore {
    private let queue: DatabaseQueue
    private let path: String
    private let quota: CarriedStoreQuota
    /// Not written yet: they go with whatever is written next.
    private let forwards = Mutex<[CarriedID: Int]>([:])

    /// - Parameters:
    ///   - directory: exists, and is its owner's alone.
    ///   - quota: beyond it nothing is taken.
    public init(directory: String, quota: CarriedStoreQuota = CarriedStoreQuota()) throws(StorageError) {
        path = "\(directory)/carried.sqlite"
        self.quota = quota
        let path = path
        // SQLite gives the log and the index the permissions of the file.
        try Self.makeFile(path)
        var configuration = Configuration()
        configuration.label = "carried messages"
        // Another process of this person may be writing.
        configuration.busyMode = .timeout(5)
        configuration.prepareDatabase { database in
            try database.execute(sql: "PRAGMA journal_mode = WAL")
            try database.execute(sql: "PRAGMA synchronous = FULL")
            // A message that was delivered or has expired leaves nothing behind to be read.
            try database.execute(sql: "PRAGMA secure_delete = ON")
        }
        queue = try Self.shielded(path) {
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            try Self.migrator.migrate(queue)
            return queue
        }
    }

    private static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { database in
            try database.execute(
                sql: """
                    CREATE TABLE message (
                        number INTEGER PRIMARY KEY,
                        id BLOB NOT NULL UNIQUE,
                        copy BLOB NOT NULL,
                        size INTEGER NOT NULL,
                        depositor BLOB,
                        expiry INTEGER NOT NULL,
                        forwards INTEGER NOT NULL
                    ) STRICT;
                    CREATE INDEX messageByDepositor ON message (depositor, size);
                    CREATE INDEX messageByExpiry ON message (expiry);
                    CREATE TABLE delivered (id BLOB NOT NULL PRIMARY KEY, expiry INTEGER NOT NULL) STRICT, WITHOUT ROWID;
                    """)
        }
        return migrator
    }

    // MARK: The contract

    public func messages() throws(StorageError) -> [StoredMessage] {
        try read { database in
            try Row.fetchAll(database, sql: "SELECT id, copy, depositor, expiry, forwards FROM message ORDER BY number")
                .compactMap { row in
                    let (id, copy, depositor): ([UInt8], [UInt8], [UInt8]?) = (row.bytes(0), row.bytes(1), row.optionalBytes(2))
                    guard let id = CarriedID(bytes: id) else { return nil }
                    return StoredMessage(
                        id: id, copy: copy, depositor: depositor.flatMap { CarriedAddress(bytes: $0) },
                        expiry: WallTime(milliseconds: row[3]), forwards: row[4])
                }
        }
    }

    public func insert(_ message: StoredMessage) throws(StorageError) {
        let isStored = try write { [quota] database in
            let depositor = message.depositor.map { Blob($0.bytes) }
            let total: Int = try Int.fetchOne(database, sql: "SELECT ifnull(sum(size), 0) FROM message") ?? 0
            let share: Int =
                try Int.fetchOne(
                    database, sql: "SELECT ifnull(sum(size), 0) FROM message WHERE depositor IS ?", arguments: [depositor]) ?? 0
            guard total + message.copy.count <= quota.byteCount, share + message.copy.count <= quota.byteCountPerDepositor
            else { return false }
            try database.execute(
                sql: """
                    INSERT OR IGNORE INTO message (id, copy, size, depositor, expiry, forwards) VALUES (?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    Blob(message.id.bytes), Blob(message.copy), message.copy.count, depositor, message.expiry.milliseconds,
                    message.forwards,
                ])
            return true
        }
        guard isStored else { throw .carriedStoreFull }
    }

    public func copy(of id: CarriedID) throws(StorageError) -> [UInt8]? {
        try read { database in
            try Row.fetchOne(database, sql: "SELECT copy FROM message WHERE id = ?", arguments: [Blob(id.bytes)])?.bytes(0)
        }
    }

    public func countForward(of id: CarriedID) {
        forwards.withLock { $0[id, default: 0] += 1 }
    }

    public func remove(_ ids: [CarriedID]) throws(StorageError) {
        try write { database in
            for id in ids { try database.execute(sql: "DELETE FROM message WHERE id = ?", arguments: [Blob(id.bytes)]) }
        }
    }

    public func remember(_ id: CarriedID, until expiry: WallTime) throws(StorageError) {
        try write { database in
            try database.execute(
                sql: "INSERT OR REPLACE INTO delivered (id, expiry) VALUES (?, ?)",
                arguments: [Blob(id.bytes), expiry.milliseconds])
        }
    }

    public func delivered() throws(StorageError) -> [(id: CarriedID, until: WallTime)] {
        try read { database in
            try Row.fetchAll(database, sql: "SELECT id, expiry FROM delivered").compactMap { row in
                CarriedID(bytes: row.bytes(0)).map { (id: $0, until: WallTime(milliseconds: row[1])) }
            }
        }
    }

    public func expire(now: WallTime) throws(StorageError) {
        try write { database in
            try database.execute(sql: "DELETE FROM message WHERE expiry <= ?", arguments: [now.milliseconds])
            try database.execute(sql: "DELETE FROM delivered WHERE expiry <= ?", arguments: [now.milliseconds])
        }
    }

    public func removeAll() throws(StorageError) {
        try write { database in
            try database.execute(sql: "DELETE FROM message")
            try database.execute(sql: "DELETE FROM delivered")
        }
    }

    // MARK: Errors

    private func read<Result>(_ body: @Sendable (Database) throws -> Result) throws(StorageError) -> Result {
        try Self.shielded(path) { try queue.read(body) }
    }

    private func write<Result>(_ body: @Sendable (Database) throws -> Result) throws(StorageError) -> Result {
        let counts = forwards.withLock { counts in
            defer { counts = [:] }
            return counts
        }
        return try Self.shielded(path) {
            try queue.write { database in
                for (id, count) in counts {
                    try database.execute(
                        sql: "UPDATE message SET forwards = forwards + ? WHERE id = ?", arguments: [count, Blob(id.bytes)])
                }
                return try body(database)
            }
        }
    }

    private static func shielded<Result>(_ path: String, _ body: () throws -> Result) throws(StorageError) -> Result {
        do {
            return try body()
        } catch let error as DatabaseError {
            switch error.resultCode {
            case .SQLITE_FULL: throw StorageError(.noSpace, "no room on the disk for carried messages; make some")
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
private struct Blob: DatabaseValueConvertible {
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
    fileprivate func bytes(_ column: Int) -> [UInt8] { optionalBytes(column) ?? [] }

    fileprivate func optionalBytes(_ column: Int) -> [UInt8]? {
        guard let data: Data = self[column] else { return nil }
        return Array(data)
    }
}
