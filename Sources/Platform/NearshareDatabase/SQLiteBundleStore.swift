internal import GRDB
package import NearshareBase
package import NearshareInterfaces
internal import Synchronization

/// Bundles in a SQLite file with a write-ahead log.
package final class SQLiteBundleStore: BundleStore {
    private let file: SQLiteFile
    private let quota: BundleStoreQuota
    /// Forwards that are not written yet; the next write includes them.
    private let forwardCounts = Mutex<[BundleID: Int]>([:])

    /// - Parameters:
    ///   - directory: exists, and belongs to the user alone.
    ///   - quota: bundles that exceed it are rejected.
    package init(directory: String, quota: BundleStoreQuota = BundleStoreQuota()) throws(StorageError) {
        self.quota = quota
        file = try SQLiteFile(path: "\(directory)/carried.sqlite", label: "bundles", Self.migrator)
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
        migrator.registerMigration("2") { database in
            try database.execute(sql: "ALTER TABLE message ADD COLUMN host INTEGER")
        }
        migrator.registerMigration("3") { database in
            try database.execute(
                sql: """
                    DROP INDEX messageByDepositor;
                    ALTER TABLE message RENAME COLUMN depositor TO previousNode;
                    CREATE INDEX messageByPreviousNode ON message (previousNode, size);
                    """)
        }
        return migrator
    }

    package func bundles() throws(StorageError) -> [PersistedBundle] {
        try file.read { database in
            try Row.fetchAll(
                database, sql: "SELECT id, copy, previousNode, expiry, forwards, host FROM message ORDER BY number"
            )
            .compactMap { row in
                guard let id = BundleID(bytes: row.bytes(0)) else { return nil }
                let host: Int64? = row[5]
                return PersistedBundle(
                    id: id, copy: row.bytes(1),
                    previousNode: row.optionalBytes(2).flatMap { EndpointID(bytes: $0) },
                    host: host.map { UInt64(bitPattern: $0) },
                    expiry: WallTime(milliseconds: row[3]), forwardCount: row[4])
            }
        }
    }

    package func apply(_ changes: [BundleStoreChange]) throws(StorageError) -> [BundleID] {
        guard !changes.isEmpty else { return [] }
        return try write { [quota] database in
            var rejected: [BundleID] = []
            for change in changes {
                switch change {
                case .insert(let bundle):
                    if try !Self.insert(bundle, within: quota, database) { rejected.append(bundle.id) }
                case .remove(let id):
                    try database.execute(sql: "DELETE FROM message WHERE id = ?", arguments: [Blob(id.bytes)])
                case .recordDelivery(let id, let expiry):
                    try database.execute(
                        sql: "INSERT OR REPLACE INTO delivered (id, expiry) VALUES (?, ?)",
                        arguments: [Blob(id.bytes), expiry.milliseconds])
                }
            }
            let hasDeliveries = changes.contains { if case .recordDelivery = $0 { true } else { false } }
            if hasDeliveries { try Self.removeSurplusDeliveries(database) }
            return rejected
        }
    }

    /// Removes the records of deliveries that expire first, where there are more than the limit: any sender can cause them (B6). An
    /// eighth at once, because the table is read as a whole.
    private static func removeSurplusDeliveries(_ database: Database) throws {
        let count = try Int.fetchOne(database, sql: "SELECT count(*) FROM delivered") ?? 0
        guard count > maximumDeliveryCount else { return }
        try database.execute(
            sql: "DELETE FROM delivered WHERE id IN (SELECT id FROM delivered ORDER BY expiry LIMIT ?)",
            arguments: [count - maximumDeliveryCount * 7 / 8])
    }

    /// The most that a router remembers after a restart, where no bundles are stored.
    private static let maximumDeliveryCount = 8_192

    /// - Returns: false when the bundle exceeds the quota.
    private static func insert(
        _ bundle: PersistedBundle, within quota: BundleStoreQuota, _ database: Database
    ) throws -> Bool {
        let previousNode = bundle.previousNode.map { Blob($0.bytes) }
        let used = try Row.fetchOne(
            database,
            sql: "SELECT ifnull(sum(size), 0), ifnull(sum(size) FILTER (WHERE previousNode IS ?), 0) FROM message",
            arguments: [previousNode])
        let (total, share): (Int, Int) = used.map { ($0[0], $0[1]) } ?? (0, 0)
        guard total + bundle.copy.count <= quota.byteCount, share + bundle.copy.count <= quota.byteCountPerPreviousNode
        else { return false }
        try database.execute(
            sql: """
                INSERT OR IGNORE INTO message (id, copy, size, previousNode, expiry, forwards, host)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                Blob(bundle.id.bytes), Blob(bundle.copy), bundle.copy.count, previousNode, bundle.expiry.milliseconds,
                bundle.forwardCount, bundle.host.map { Int64(bitPattern: $0) },
            ])
        return true
    }

    package func copy(of id: BundleID) throws(StorageError) -> [UInt8]? {
        try file.read { database in
            try Row.fetchOne(database, sql: "SELECT copy FROM message WHERE id = ?", arguments: [Blob(id.bytes)])?.bytes(0)
        }
    }

    package func contains(_ id: BundleID) throws(StorageError) -> Bool {
        try file.read { database in
            try Bool.fetchOne(
                database, sql: "SELECT EXISTS (SELECT 1 FROM message WHERE id = ?)", arguments: [Blob(id.bytes)]) ?? false
        }
    }

    package func recordForward(of id: BundleID) {
        forwardCounts.withLock { $0[id, default: 0] += 1 }
    }

    package func deliveries() throws(StorageError) -> [(id: BundleID, expiry: WallTime)] {
        try file.read { database in
            try Row.fetchAll(database, sql: "SELECT id, expiry FROM delivered").compactMap { row in
                BundleID(bytes: row.bytes(0)).map { (id: $0, expiry: WallTime(milliseconds: row[1])) }
            }
        }
    }

    package func removeExpired(now: WallTime) throws(StorageError) {
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
        try file.truncateLog()
    }

    /// Writes in one transaction, with the forwards that were counted since the last one.
    private func write<Result>(_ body: @Sendable (Database) throws -> Result) throws(StorageError) -> Result {
        let counts = forwardCounts.withLock { counts in
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
