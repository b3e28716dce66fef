internal import GRDB
package import NearshareBase
package import NearshareInterfaces
internal import Synchronization

/// Carried messages in a SQLite file with a write-ahead log: what was inserted is there after `kill -9` and after a loss of power.
package final class SQLiteBundleStore: BundleStore {
    private let file: SQLiteFile
    private let quota: BundleStoreQuota
    /// Not written yet: they go with whatever is written next.
    private let forwards = Mutex<[BundleID: Int]>([:])

    /// - Parameters:
    ///   - directory: exists, and is its owner's alone.
    ///   - quota: beyond it nothing is taken.
    package init(directory: String, quota: BundleStoreQuota = BundleStoreQuota()) throws(StorageError) {
        self.quota = quota
        file = try SQLiteFile(path: "\(directory)/carried.sqlite", label: "carried messages", Self.migrator)
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

    package func messages() throws(StorageError) -> [StoredMessage] {
        try file.read { database in
            try Row.fetchAll(database, sql: "SELECT id, copy, depositor, expiry, forwards FROM message ORDER BY number")
                .compactMap { row in
                    let (id, copy, depositor): ([UInt8], [UInt8], [UInt8]?) = (row.bytes(0), row.bytes(1), row.optionalBytes(2))
                    guard let id = BundleID(bytes: id) else { return nil }
                    return StoredMessage(
                        id: id, copy: copy, depositor: depositor.flatMap { EndpointID(bytes: $0) },
                        expiry: WallTime(milliseconds: row[3]), forwards: row[4])
                }
        }
    }

    package func insert(_ message: StoredMessage) throws(StorageError) {
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

    package func copy(of id: BundleID) throws(StorageError) -> [UInt8]? {
        try file.read { database in
            try Row.fetchOne(database, sql: "SELECT copy FROM message WHERE id = ?", arguments: [Blob(id.bytes)])?.bytes(0)
        }
    }

    package func countForward(of id: BundleID) {
        forwards.withLock { $0[id, default: 0] += 1 }
    }

    package func remove(_ ids: [BundleID]) throws(StorageError) {
        try write { database in
            for id in ids { try database.execute(sql: "DELETE FROM message WHERE id = ?", arguments: [Blob(id.bytes)]) }
        }
    }

    package func remember(_ id: BundleID, until expiry: WallTime) throws(StorageError) {
        try write { database in
            try database.execute(
                sql: "INSERT OR REPLACE INTO delivered (id, expiry) VALUES (?, ?)",
                arguments: [Blob(id.bytes), expiry.milliseconds])
        }
    }

    package func delivered() throws(StorageError) -> [(id: BundleID, until: WallTime)] {
        try file.read { database in
            try Row.fetchAll(database, sql: "SELECT id, expiry FROM delivered").compactMap { row in
                BundleID(bytes: row.bytes(0)).map { (id: $0, until: WallTime(milliseconds: row[1])) }
            }
        }
    }

    package func expire(now: WallTime) throws(StorageError) {
        try write { database in
            try database.execute(sql: "DELETE FROM message WHERE expiry <= ?", arguments: [now.milliseconds])
            try database.execute(sql: "DELETE FROM delivered WHERE expiry <= ?", arguments: [now.milliseconds])
        }
    }

    package func removeAll() throws(StorageError) {
        try write { database in
            try database.execute(sql: "DELETE FROM message")
            try database.execute(sql: "DELETE FROM delivered")
        }
        try file.emptyLog()
    }

    private func write<Result>(_ body: @Sendable (Database) throws -> Result) throws(StorageError) -> Result {
        let counts = forwards.withLock { counts in
            defer { counts = [:] }
            return counts
        }
        return try file.write { database in
            for (id, count) in counts {
                try database.execute(
                    sql: "UPDATE message SET forwards = forwards + ? WHERE id = ?", arguments: [count, Blob(id.bytes)])
            }
            return try body(database)
        }
    }
}
