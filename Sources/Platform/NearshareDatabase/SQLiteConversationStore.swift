internal import GRDB
package import NearshareBase
package import NearshareInterfaces

/// Limits on stored conversations; beyond them the oldest messages are removed (M6).
package struct ConversationLimits: Sendable, Hashable {
    /// Received bundles, half of them for friends.
    package var arrivals = 10_000
    /// Lines in one conversation; in the public room, of the user.
    package var lines = 50_000
    /// Bytes of the lines that others have sent to the public room, half of them for friends.
    package var roomBytes = 16 << 20
    /// Bytes that each author in the public room keeps while others have more. More than the longest line: a line that has just
    /// arrived stays.
    var roomBytesPerAuthor: Int { max(roomBytes / 256, 1 << 16) }
    /// Conversations with peers that are no friends, in which the user has not written. Any peer can start one.
    package var untrustedConversations = 256
    /// Bytes of the lines in these conversations together.
    package var untrustedBytes = 16 << 20
    /// Incomplete texts of one sender.
    package var incompleteTexts = 16
    /// Fragments of incomplete texts of all senders, half of them for friends.
    package var fragments = 4_096

    package init() {}
}

/// Conversations and received messages in a SQLite file. Written messages survive a killed process.
package final class SQLiteConversationStore: ConversationStore {
    private let file: SQLiteFile

    private let limits: ConversationLimits

    /// - Parameter directory: exists, and belongs to the user alone.
    package init(directory: String, limits: ConversationLimits = ConversationLimits()) throws(StorageError) {
        self.limits = limits
        file = try SQLiteFile(path: "\(directory)/conversations.sqlite", label: "conversations", Self.migrator)
    }

    private static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { database in
            try database.execute(
                sql: """
                    CREATE TABLE line (
                        number INTEGER PRIMARY KEY AUTOINCREMENT,
                        conversation TEXT NOT NULL,
                        id TEXT NOT NULL,
                        author BLOB,
                        authorName TEXT,
                        text TEXT NOT NULL,
                        time INTEGER NOT NULL,
                        mark INTEGER NOT NULL,
                        -- Authors choose the ids: one that takes the id of another hides no line of that author.
                        UNIQUE (conversation, author, id)
                    ) STRICT;
                    CREATE INDEX lineByConversation ON line (conversation, number);
                    CREATE UNIQUE INDEX ownLine ON line (id) WHERE author IS NULL;
                    CREATE INDEX unread ON line (conversation, mark) WHERE author IS NOT NULL;
                    CREATE TABLE part (
                        id TEXT NOT NULL PRIMARY KEY,
                        line INTEGER NOT NULL REFERENCES line (number) ON DELETE CASCADE,
                        isCarried INTEGER NOT NULL,
                        mark INTEGER NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX partByLine ON part (line);
                    CREATE TABLE piece (
                        sender BLOB NOT NULL,
                        textID TEXT NOT NULL,
                        place INTEGER NOT NULL,
                        count INTEGER NOT NULL,
                        text TEXT NOT NULL,
                        time INTEGER NOT NULL,
                        PRIMARY KEY (sender, textID, place)
                    ) STRICT, WITHOUT ROWID;
                    CREATE TABLE arrival (
                        number INTEGER PRIMARY KEY AUTOINCREMENT,
                        id BLOB NOT NULL UNIQUE,
                        sender BLOB,
                        signer BLOB NOT NULL,
                        content BLOB NOT NULL,
                        isForEverybody INTEGER NOT NULL,
                        created INTEGER NOT NULL,
                        received INTEGER NOT NULL,
                        hops INTEGER NOT NULL
                    ) STRICT;
                    """)
        }
        // The size of each conversation, kept by triggers, so that no line is read to find those to remove.
        migrator.registerMigration("2") { database in
            try database.execute(
                sql: """
                    CREATE TABLE usage (
                        conversation TEXT NOT NULL PRIMARY KEY,
                        bytes INTEGER NOT NULL,
                        ownLines INTEGER NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    INSERT INTO usage
                        SELECT conversation, sum(iif(author IS NULL, 0, length(CAST(text AS BLOB)) + 256)), sum(author IS NULL)
                        FROM line GROUP BY conversation;
                    CREATE TRIGGER lineAdded AFTER INSERT ON line BEGIN
                        INSERT INTO usage VALUES (
                            new.conversation, iif(new.author IS NULL, 0, length(CAST(new.text AS BLOB)) + 256), new.author IS NULL)
                        ON CONFLICT (conversation) DO UPDATE
                            SET bytes = bytes + excluded.bytes, ownLines = ownLines + excluded.ownLines;
                    END;
                    CREATE TRIGGER lineRemoved AFTER DELETE ON line BEGIN
                        UPDATE usage SET bytes = bytes - iif(old.author IS NULL, 0, length(CAST(old.text AS BLOB)) + 256),
                            ownLines = ownLines - (old.author IS NULL)
                        WHERE conversation = old.conversation;
                        DELETE FROM usage WHERE conversation = old.conversation
                            AND NOT EXISTS (SELECT 1 FROM line WHERE conversation = old.conversation);
                    END;
                    """)
        }
        // Keys cost nothing: friends' lines, and the bytes of each author in the public room, are counted apart (R6).
        migrator.registerMigration("3") { database in
            try database.execute(
                sql: """
                    ALTER TABLE line ADD COLUMN isFriend INTEGER NOT NULL DEFAULT 0;
                    ALTER TABLE piece ADD COLUMN isFriend INTEGER NOT NULL DEFAULT 0;
                    ALTER TABLE arrival ADD COLUMN isFriend INTEGER NOT NULL DEFAULT 0;
                    ALTER TABLE usage ADD COLUMN friendBytes INTEGER NOT NULL DEFAULT 0;
                    CREATE INDEX pieceByTime ON piece (isFriend, time);
                    CREATE INDEX arrivalByFriend ON arrival (isFriend, number);
                    CREATE INDEX roomLine ON line (isFriend, number)
                        WHERE conversation = 'everybody' AND author IS NOT NULL;
                    CREATE INDEX roomLineByAuthor ON line (isFriend, author, number)
                        WHERE conversation = 'everybody' AND author IS NOT NULL;
                    CREATE TABLE roomUsage (
                        isFriend INTEGER NOT NULL,
                        author BLOB NOT NULL,
                        bytes INTEGER NOT NULL,
                        PRIMARY KEY (isFriend, author)
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX roomUsageByBytes ON roomUsage (isFriend, bytes);
                    INSERT INTO roomUsage
                        SELECT 0, author, sum(length(CAST(text AS BLOB)) + 256) FROM line
                        WHERE conversation = 'everybody' AND author IS NOT NULL GROUP BY author;
                    DROP TRIGGER lineAdded;
                    DROP TRIGGER lineRemoved;
                    CREATE TRIGGER lineAdded AFTER INSERT ON line BEGIN
                        INSERT INTO usage (conversation, bytes, ownLines, friendBytes) VALUES (
                            new.conversation, iif(new.author IS NULL, 0, length(CAST(new.text AS BLOB)) + 256),
                            new.author IS NULL, iif(new.isFriend, length(CAST(new.text AS BLOB)) + 256, 0))
                        ON CONFLICT (conversation) DO UPDATE SET bytes = bytes + excluded.bytes,
                            ownLines = ownLines + excluded.ownLines, friendBytes = friendBytes + excluded.friendBytes;
                        INSERT INTO roomUsage (isFriend, author, bytes)
                            SELECT new.isFriend, new.author, length(CAST(new.text AS BLOB)) + 256
                            WHERE new.conversation = 'everybody' AND new.author IS NOT NULL
                        ON CONFLICT (isFriend, author) DO UPDATE SET bytes = bytes + excluded.bytes;
                    END;
                    CREATE TRIGGER lineRemoved AFTER DELETE ON line BEGIN
                        UPDATE usage SET bytes = bytes - iif(old.author IS NULL, 0, length(CAST(old.text AS BLOB)) + 256),
                            ownLines = ownLines - (old.author IS NULL),
                            friendBytes = friendBytes - iif(old.isFriend, length(CAST(old.text AS BLOB)) + 256, 0)
                        WHERE conversation = old.conversation;
                        DELETE FROM usage WHERE conversation = old.conversation
                            AND NOT EXISTS (SELECT 1 FROM line WHERE conversation = old.conversation);
                        UPDATE roomUsage SET bytes = bytes - length(CAST(old.text AS BLOB)) - 256
                            WHERE old.conversation = 'everybody' AND isFriend = old.isFriend AND author = old.author;
                        DELETE FROM roomUsage WHERE old.conversation = 'everybody'
                            AND isFriend = old.isFriend AND author = old.author AND bytes <= 0;
                    END;
                    """)
        }
        migrator.registerMigration("4") { database in
            try database.execute(sql: "ALTER TABLE line ADD COLUMN written INTEGER")
        }
        migrator.registerMigration("5") { database in
            try database.execute(
                sql: """
                    CREATE TABLE lifetime (
                        conversation TEXT NOT NULL PRIMARY KEY,
                        -- 0 where lines stay.
                        seconds INTEGER NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX lineByTime ON line (conversation, time);
                    CREATE INDEX arrivalBySender ON arrival (sender, received) WHERE isForEverybody = 0;
                    """)
        }
        return migrator
    }

    // MARK: Lines

    private static let columns = "number, conversation, id, author, authorName, text, time, mark, written"

    package func insert(
        _ message: ChatMessage, parts: [OutgoingPart], isFriend: Bool
    ) throws(StorageError) -> Int? {
        try file.write { [limits] database in
            let conversation = message.conversation.text
            let author = message.author.map { Blob($0.bytes) }
            // SQLite treats two nulls as different, so the unique columns alone do not detect duplicates of own lines.
            let isKnown = try Bool.fetchOne(
                database, sql: "SELECT EXISTS (SELECT 1 FROM line WHERE conversation = ? AND author IS ? AND id = ?)",
                arguments: [conversation, author, message.id])
            guard isKnown != true else { return nil }
            try database.execute(
                sql: """
                    INSERT INTO line (conversation, id, author, authorName, text, time, mark, isFriend, written)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    conversation, message.id, author, message.authorName?.claimed, message.text, message.when.milliseconds,
                    message.status.rawValue, author != nil && isFriend, message.written?.milliseconds,
                ])
            let number = Int(database.lastInsertedRowID)
            // In the public room others' lines are bounded by their bytes alone: no peer's lines remove another's, or the user's.
            let counted = message.conversation == .publicRoom ? "conversation = ?1 AND author IS NULL" : "conversation = ?1"
            if message.conversation != .publicRoom || author == nil {
                try database.execute(
                    sql: """
                        DELETE FROM line WHERE \(counted) AND number <= (
                            SELECT number FROM line WHERE \(counted) ORDER BY number DESC LIMIT 1 OFFSET ?2)
                        """,
                    arguments: [conversation, limits.lines])
            }
            switch message.conversation {
            case _ where author == nil: break
            case .publicRoom: try Self.trimPublicRoom(limits, database)
            case .peer: try Self.trimUntrustedConversations(limits, database)
            }
            try Self.insert(parts, of: number, database)
            return number
        }
    }

    /// Removes lines of others from the public room while these exceed their limit of bytes. Friends have one half of it and
    /// other authors the other, however little the other half holds; in both, the author with the most bytes loses its oldest
    /// line first.
    private static func trimPublicRoom(_ limits: ConversationLimits, _ database: Database) throws {
        while let usage = try Row.fetchOne(
            database, sql: "SELECT bytes, friendBytes FROM usage WHERE conversation = ?",
            arguments: [Conversation.publicRoom.text])
        {
            let (bytes, friendBytes): (Int, Int) = (usage[0], usage[1])
            guard bytes > limits.roomBytes else { return }
            let isFriend = bytes - friendBytes <= limits.roomBytes / 2
            // Among many authors with few bytes each, the oldest line of all is removed, not that of a new author.
            let largest = try Row.fetchOne(
                database, sql: "SELECT author FROM roomUsage WHERE isFriend = ? AND bytes > ? ORDER BY bytes DESC LIMIT 1",
                arguments: [isFriend, limits.roomBytesPerAuthor])
            let author = largest?.optionalBytes(0).map { Blob($0) }
            let candidates = "conversation = 'everybody' AND author IS NOT NULL AND isFriend = ?"
            try database.execute(
                sql: """
                    DELETE FROM line WHERE number = (
                        SELECT min(number) FROM line WHERE \(candidates)\(author == nil ? "" : " AND author = ?"))
                    """,
                arguments: [isFriend] + (author.map { [$0] } ?? []))
        }
    }

    /// Removes the oldest lines of the largest or oldest conversations in which neither a friend nor the user has written.
    private static func trimUntrustedConversations(_ limits: ConversationLimits, _ database: Database) throws {
        let untrusted = "ownLines = 0 AND friendBytes = 0 AND conversation <> ?"
        let room = Conversation.publicRoom.text
        while let usage = try Row.fetchOne(
            database, sql: "SELECT count(*), coalesce(sum(bytes), 0) FROM usage WHERE \(untrusted)", arguments: [room])
        {
            let (count, bytes): (Int, Int) = (usage[0], usage[1])
            let order: String
            if bytes > limits.untrustedBytes {
                order = "bytes DESC"
            } else if count > limits.untrustedConversations {
                order = "(SELECT max(number) FROM line WHERE line.conversation = usage.conversation)"
            } else {
                return
            }
            try database.execute(
                sql: """
                    DELETE FROM line WHERE number IN (
                        SELECT number FROM line WHERE author IS NOT NULL AND conversation = (
                            SELECT conversation FROM usage WHERE \(untrusted) ORDER BY \(order) LIMIT 1)
                        ORDER BY number LIMIT 16)
                    """,
                arguments: [room])
        }
    }

    package func updateStatus(of id: String, in conversation: Conversation, to status: MessageStatus) throws(StorageError)
        -> Bool
    {
        try file.write { database in
            guard
                let row = try Row.fetchOne(
                    database, sql: "SELECT number, mark FROM line WHERE conversation = ? AND id = ? AND author IS NULL",
                    arguments: [conversation.text, id])
            else { return false }
            return try Self.updateStatus(ofLine: row[0], from: row[1], to: status, database)
        }
    }

    package func setTime(_ time: WallTime, of id: String, in conversation: Conversation) throws(StorageError) {
        try file.write { database in
            try database.execute(
                sql: "UPDATE line SET time = ? WHERE conversation = ? AND id = ? AND author IS NULL",
                arguments: [time.milliseconds, conversation.text, id])
        }
    }

    /// Updates the status of a line, where the order of statuses allows that.
    /// - Parameter current: the raw value of its status.
    private static func updateStatus(
        ofLine number: Int, from current: Int, to status: MessageStatus, _ database: Database
    ) throws -> Bool {
        guard MessageStatus(rawValue: current)?.canChange(to: status) == true else { return false }
        try database.execute(sql: "UPDATE line SET mark = ? WHERE number = ?", arguments: [status.rawValue, number])
        return true
    }

    package func message(_ id: String) throws(StorageError) -> ChatMessage? {
        try file.read { database in
            try Row.fetchOne(database, sql: "SELECT \(Self.columns) FROM line WHERE id = ? AND author IS NULL", arguments: [id])
                .flatMap { ChatMessage($0) }
        }
    }

    package func messages(of conversation: Conversation, before number: Int?, limit: Int) throws(StorageError) -> [ChatMessage]
    {
        try file.read { database in
            try Row.fetchAll(
                database,
                sql: """
                    SELECT \(Self.columns) FROM line WHERE conversation = ? AND number < ? ORDER BY number DESC LIMIT ?
                    """,
                arguments: [conversation.text, number ?? Int.max, limit]
            ).reversed().compactMap { ChatMessage($0) }
        }
    }

    package func messages(
        of conversation: Conversation, containing text: String, limit: Int
    ) throws(StorageError) -> [ChatMessage] {
        try file.read { database in
            try Row.fetchAll(
                database,
                // The function of GRDB knows all letters, that of SQLite those of ASCII.
                sql: """
                    SELECT \(Self.columns) FROM line WHERE conversation = ? AND instr(swiftLowercaseString(text), ?) > 0
                    ORDER BY number DESC LIMIT ?
                    """,
                arguments: [conversation.text, text.lowercased(), limit]
            ).reversed().compactMap { ChatMessage($0) }
        }
    }

    package func removeMessages(of conversation: Conversation) throws(StorageError) {
        try file.write { database in
            _ = try Self.remove(until: WallTime(milliseconds: .max), from: .waiting, in: conversation, database)
        }
        // Where another process reads the file just now, the log is overwritten later.
        try? file.truncateLog()
    }

    /// SQL for the lines of a conversation that are of others, or have at least a status.
    private static let linesFromStatus = "conversation = ? AND (author IS NOT NULL OR mark >= ?)"

    /// Removes lines up to a time, and the bundles that the peer of the conversation has sent to this node until then.
    /// - Parameter status: the lowest of the own lines that are removed.
    /// - Returns: whether there were any.
    private static func remove(
        until end: WallTime, from status: MessageStatus, in conversation: Conversation, _ database: Database
    ) throws -> Bool {
        try database.execute(
            sql: "DELETE FROM line WHERE \(linesFromStatus) AND time <= ?",
            arguments: [conversation.text, status.rawValue, end.milliseconds])
        let hasRemovedLines = database.changesCount > 0
        guard case .peer(let peer) = conversation else { return hasRemovedLines }
        // The texts of the lines that came through the mesh. The pieces of one that is still arriving stay: its sender does not send
        // them again.
        try database.execute(
            sql: "DELETE FROM arrival WHERE sender = ? AND isForEverybody = 0 AND received <= ?",
            arguments: [Blob(peer.bytes), end.milliseconds])
        return hasRemovedLines || database.changesCount > 0
    }

    // MARK: Lifetimes

    package func lifetimes() throws(StorageError) -> [Conversation: LifetimeSetting] {
        try file.read { database in try Self.readLifetimes(database) }
    }

    private static func readLifetimes(_ database: Database) throws -> [Conversation: LifetimeSetting] {
        var settings: [Conversation: LifetimeSetting] = [:]
        for row in try Row.fetchAll(database, sql: "SELECT conversation, seconds FROM lifetime") {
            guard let conversation = Conversation(text: row[0]) else { continue }
            let lifetime = MessageLifetime(rawValue: row[1])
            settings[conversation] = lifetime.map { LifetimeSetting.limited($0) } ?? LifetimeSetting.unlimited
        }
        return settings
    }

    package func setLifetime(of conversation: Conversation, to setting: LifetimeSetting) throws(StorageError) {
        try file.write { database in
            switch setting {
            case .standard:
                try database.execute(sql: "DELETE FROM lifetime WHERE conversation = ?", arguments: [conversation.text])
            case .unlimited, .limited:
                try database.execute(
                    sql: "INSERT OR REPLACE INTO lifetime (conversation, seconds) VALUES (?, ?)",
                    arguments: [conversation.text, setting.lifetime(standard: nil)?.seconds ?? 0])
            }
        }
    }

    package func removeExpiredMessages(standard: MessageLifetime?, now: WallTime) throws(StorageError) -> MessageExpiry {
        let expiry = try file.write { database -> MessageExpiry in
            var expiry = MessageExpiry()
            for (conversation, lifetime) in try Self.limitedLifetimes(standard: standard, database) {
                let (end, status) = (lifetime.latestExpired(at: now), conversation.settledStatus)
                if try Self.remove(until: end, from: status, in: conversation, database) { expiry.removed[conversation] = end }
                if let oldest = try Self.oldestTime(from: status, in: conversation, database) {
                    let next = lifetime.end(from: oldest)
                    expiry.next = min(expiry.next ?? next, next)
                }
            }
            return expiry
        }
        // Where another process reads the file just now, the log is overwritten later.
        if !expiry.removed.isEmpty { try? file.truncateLog() }
        return expiry
    }

    /// The lifetimes of all conversations in which lines do not stay.
    private static func limitedLifetimes(
        standard: MessageLifetime?, _ database: Database
    ) throws -> [Conversation: MessageLifetime] {
        var limited: [Conversation: MessageLifetime] = [:]
        if let standard {
            for text in try String.fetchAll(database, sql: "SELECT conversation FROM usage") {
                if let conversation = Conversation(text: text) { limited[conversation] = standard }
            }
            let senders = try Row.fetchAll(
                database, sql: "SELECT DISTINCT sender FROM arrival WHERE sender IS NOT NULL AND isForEverybody = 0")
            for row in senders {
                if let peer = PeerID(bytes: row.bytes(0)) { limited[.peer(peer)] = standard }
            }
        }
        for (conversation, setting) in try readLifetimes(database) {
            limited[conversation] = setting.lifetime(standard: standard)
        }
        return limited
    }

    /// The time of the oldest of what ``remove(until:from:in:_:)`` removes; nil where there is none.
    private static func oldestTime(
        from status: MessageStatus, in conversation: Conversation, _ database: Database
    ) throws -> WallTime? {
        let line = try Int64.fetchOne(
            database, sql: "SELECT time FROM line WHERE \(linesFromStatus) ORDER BY time LIMIT 1",
            arguments: [conversation.text, status.rawValue])
        var times = [line]
        if case .peer(let peer) = conversation {
            times.append(
                try Int64.fetchOne(
                    database,
                    sql: "SELECT received FROM arrival WHERE sender = ? AND isForEverybody = 0 ORDER BY received LIMIT 1",
                    arguments: [Blob(peer.bytes)]))
        }
        return times.compactMap(\.self).min().map { WallTime(milliseconds: $0) }
    }

    // MARK: Lists

    package func conversations() throws(StorageError) -> [ConversationSummary] {
        try file.read { database in
            try Row.fetchAll(
                database,
                sql: """
                    SELECT \(Self.columns), (
                        SELECT count(*) FROM line AS other
                        WHERE other.conversation = line.conversation AND other.author IS NOT NULL AND other.mark = ?), (
                        SELECT authorName FROM line AS other
                        WHERE other.conversation = line.conversation AND author IS NOT NULL AND authorName IS NOT NULL
                        ORDER BY number DESC LIMIT 1)
                    FROM line WHERE number IN (SELECT max(number) FROM line GROUP BY conversation) ORDER BY number DESC
                    """,
                arguments: [MessageStatus.delivered.rawValue]
            ).compactMap { row in
                guard let last = ChatMessage(row) else { return nil }
                let name: String? = last.conversation == .publicRoom ? nil : row[10]
                return ConversationSummary(
                    conversation: last.conversation, last: last, unreadCount: row[9],
                    peerName: name.flatMap { try? DisplayName($0) })
            }
        }
    }

    package func markRead(_ conversation: Conversation) throws(StorageError) -> [String] {
        try file.write { database in
            let unread = "conversation = ? AND author IS NOT NULL AND mark = ?"
            let arguments: StatementArguments = [conversation.text, MessageStatus.delivered.rawValue]
            let ids = try String.fetchAll(
                database, sql: "SELECT id FROM line WHERE \(unread) ORDER BY number", arguments: arguments)
            try database.execute(
                sql: "UPDATE line SET mark = ? WHERE \(unread)", arguments: [MessageStatus.read.rawValue] + arguments)
            return ids
        }
    }

    // MARK: Outgoing lines

    package func recordParts(_ parts: [OutgoingPart], of id: String, in conversation: Conversation) throws(StorageError) {
        try file.write { database in
            guard
                let line = try Int.fetchOne(
                    database, sql: "SELECT number FROM line WHERE conversation = ? AND id = ? AND author IS NULL",
                    arguments: [conversation.text, id])
            else { return }
            // A delivered part stays delivered: phones acknowledge a text once.
            let delivered = try Set(
                String.fetchAll(
                    database, sql: "SELECT id FROM part WHERE line = ? AND mark IN (?, ?)",
                    arguments: [line, MessageStatus.delivered.rawValue, MessageStatus.read.rawValue]))
            try database.execute(sql: "DELETE FROM part WHERE line = ?", arguments: [line])
            try Self.insert(parts, of: line, delivered: delivered, database)
        }
    }

    private static func insert(
        _ parts: [OutgoingPart], of line: Int, delivered: Set<String> = [], _ database: Database
    ) throws {
        for part in parts {
            let status = delivered.contains(part.id) ? MessageStatus.delivered : .waiting
            try database.execute(
                sql: "INSERT OR REPLACE INTO part (id, line, isCarried, mark) VALUES (?, ?, ?, ?)",
                arguments: [part.id, line, part.isBundle, status.rawValue])
        }
    }

    package func updatePart(
        _ part: OutgoingPart, in conversation: Conversation?, to status: MessageStatus
    ) throws(StorageError) -> ChatMessage? {
        try file.write { database in
            guard
                let line = try Int.fetchOne(
                    database,
                    sql: """
                        UPDATE part SET mark = max(mark, ?) WHERE id = ? AND isCarried = ?
                            AND line IN (SELECT number FROM line WHERE conversation = ifnull(?, conversation))
                        RETURNING line
                        """,
                    arguments: [status.rawValue, part.id, part.isBundle, conversation?.text]),
                let row = try Row.fetchOne(
                    database,
                    sql: """
                        SELECT line.mark, max(part.mark) = ?, min(part.mark)
                        FROM line JOIN part ON part.line = line.number WHERE line.number = ?
                        """,
                    arguments: [MessageStatus.failed.rawValue, line])
            else { return nil }
            // A text is lost with any of its parts.
            let reached: MessageStatus = row[1] ? .failed : MessageStatus(rawValue: row[2]) ?? .waiting
            guard try Self.updateStatus(ofLine: line, from: row[0], to: reached, database) else { return nil }
            if reached >= .delivered { try database.execute(sql: "DELETE FROM part WHERE line = ?", arguments: [line]) }
            return try Row.fetchOne(database, sql: "SELECT \(Self.columns) FROM line WHERE number = ?", arguments: [line])
                .flatMap { ChatMessage($0) }
        }
    }

    package func pendingMessages() throws(StorageError) -> [PendingMessage] {
        try file.read { database in
            try Row.fetchAll(
                database, sql: "SELECT \(Self.columns) FROM line WHERE author IS NULL AND mark < ? ORDER BY number",
                arguments: [MessageStatus.delivered.rawValue]
            ).compactMap { row in
                guard let message = ChatMessage(row) else { return nil }
                let parts = try Row.fetchAll(
                    database, sql: "SELECT id, isCarried FROM part WHERE line = ?", arguments: [message.number])
                return PendingMessage(message: message, parts: parts.map { OutgoingPart(id: $0[0], isBundle: $0[1]) })
            }
        }
    }

    // MARK: Received messages

    package func addFragment(
        _ fragment: TextFragment, isFriend: Bool, now: WallTime
    ) throws(StorageError) -> FragmentOutcome {
        try file.write { [limits] database in
            let (sender, textID) = (Blob(fragment.sender.bytes), fragment.textID)
            let hasLine = try Bool.fetchOne(
                database, sql: "SELECT EXISTS (SELECT 1 FROM line WHERE conversation = ? AND author = ? AND id = ?)",
                arguments: [Conversation.peer(fragment.sender).text, sender, textID])
            if hasLine == true { return .repetition }
            // Another number of parts belongs to another text, or is invalid.
            try database.execute(
                sql: "DELETE FROM piece WHERE sender = ? AND textID = ? AND count <> ?",
                arguments: [sender, textID, fragment.count])
            try database.execute(
                sql: """
                    INSERT OR IGNORE INTO piece (sender, textID, place, count, text, time, isFriend) VALUES (?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    sender, textID, fragment.index, fragment.count, fragment.text, now.milliseconds, isFriend,
                ])
            guard database.changesCount > 0 else { return .repetition }
            let texts = try String.fetchAll(
                database, sql: "SELECT text FROM piece WHERE sender = ? AND textID = ? ORDER BY place",
                arguments: [sender, textID])
            if texts.count == fragment.count {
                try database.execute(
                    sql: "DELETE FROM piece WHERE sender = ? AND textID = ?", arguments: [sender, textID])
                return .whole(texts.joined())
            }
            try database.execute(
                sql: """
                    DELETE FROM piece WHERE sender = ?1 AND textID NOT IN (
                        SELECT textID FROM piece WHERE sender = ?1 GROUP BY textID ORDER BY max(time) DESC LIMIT ?2)
                    """,
                arguments: [sender, limits.incompleteTexts])
            try database.execute(
                sql: """
                    DELETE FROM piece WHERE (sender, textID) IN (
                        SELECT sender, textID FROM piece WHERE isFriend = \(Self.isFriendOfEvictedRows(in: "piece"))
                        ORDER BY time LIMIT max(0, (SELECT count(*) FROM piece) - ?1))
                    """,
                arguments: [limits.fragments])
            return .incomplete
        }
    }

    /// SQL for the `isFriend` of the rows to remove first: those of others where these exceed half of the limit `?1`, else those
    /// of friends.
    private static func isFriendOfEvictedRows(in table: String) -> String {
        "((SELECT count(*) FROM \(table) WHERE isFriend = 0) <= ?1 / 2)"
    }

    package func insert(_ arrival: ReceivedBundle, isFriend: Bool) throws(StorageError) -> Int? {
        try file.write { [limits] database in
            try database.execute(
                sql: """
                    INSERT OR IGNORE INTO arrival
                        (id, sender, signer, content, isForEverybody, created, received, hops, isFriend)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    Blob(arrival.id.bytes), arrival.sender.map { Blob($0.bytes) }, Blob(arrival.signer.bytes),
                    Blob(arrival.content), arrival.isForEveryone, arrival.created.milliseconds, arrival.received.milliseconds,
                    arrival.hops, isFriend,
                ])
            guard database.changesCount > 0 else { return nil }
            let number = Int(database.lastInsertedRowID)
            try database.execute(
                sql: """
                    DELETE FROM arrival WHERE number IN (
                        SELECT number FROM arrival WHERE isFriend = \(Self.isFriendOfEvictedRows(in: "arrival"))
                        ORDER BY number LIMIT max(0, (SELECT count(*) FROM arrival) - ?1))
                    """,
                arguments: [limits.arrivals])
            return number
        }
    }

    package func arrivals(after number: Int, limit: Int) throws(StorageError) -> [ReceivedBundle] {
        try file.read { database in
            try Row.fetchAll(
                database,
                sql: """
                    SELECT number, id, sender, signer, content, isForEverybody, created, received, hops
                    FROM arrival WHERE number > ? ORDER BY number LIMIT ?
                    """,
                arguments: [number, limit]
            ).compactMap { row in
                guard let id = BundleID(bytes: row.bytes(1)), let signer = EndpointID(bytes: row.bytes(3)) else {
                    return nil
                }
                return ReceivedBundle(
                    number: row[0], id: id, sender: row.optionalBytes(2).flatMap { PeerID(bytes: $0) }, signer: signer,
                    content: row.bytes(4), isForEveryone: row[5], created: WallTime(milliseconds: row[6]),
                    received: WallTime(milliseconds: row[7]), hops: row[8])
            }
        }
    }

    package func removeAll() throws(StorageError) {
        try file.write { database in
            for table in ["part", "line", "piece", "arrival", "lifetime"] { try database.execute(sql: "DELETE FROM \(table)") }
        }
        try file.truncateLog()
    }
}

extension ChatMessage {
    /// - Returns: nil for a row that no version of nearshare has written.
    fileprivate init?(_ row: Row) {
        guard let conversation = Conversation(text: row[1]), let status = MessageStatus(rawValue: row[7]) else { return nil }
        let (name, author): (String?, [UInt8]?) = (row[4], row.optionalBytes(3))
        let written: Int64? = row[8]
        self.init(
            number: row[0], id: row[2], conversation: conversation, author: author.flatMap { PeerID(bytes: $0) },
            authorName: name.flatMap { try? DisplayName($0) }, text: row[5], when: WallTime(milliseconds: row[6]),
            status: status, written: written.map { WallTime(milliseconds: $0) })
    }
}
