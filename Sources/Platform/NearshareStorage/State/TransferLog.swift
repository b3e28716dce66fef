internal import FoundationEssentials
package import NearshareBase
package import NearshareInterfaces

/// A log of transfers: a line of JSON for the beginning of each transfer with one peer, because a process that is killed records
/// no end, and one for its end. When the file exceeds its limit, the oldest lines are
/// removed, but each peer keeps a share, and friends keep half.
package struct TransferLog: Sendable {
    /// The transfers of a log, by the name of its file.
    package enum Kind: String, Sendable {
        case sent = "sent.jsonl"
        /// Offers about which the user was asked, and transfers, that ended without a received item. Others are left out of a list.
        case notReceived = "not-received.jsonl"
    }

    package struct Entry: Sendable, Codable, Hashable {
        package var when: WallTime
        package var peer: PeerID
        /// The name or the address by which the user knew the peer.
        package var peerName: String
        /// The first item and the number of the others; safe for a terminal.
        package var content: String
        /// Bytes that the receiver has.
        package var size: UInt64
        /// How it has ended, as in JSON events.
        package var outcome: String
        /// The reason why a rule of the receiver has declined it, or that a completed transfer has left no item; nil for a user's
        /// answer, and for other outcomes.
        package var reason: String?
        /// Bytes of `size` that the receiver had before; nil for none.
        package var presentSize: UInt64?
        /// Bytes of the whole content; nil where it is not known.
        package var offeredSize: UInt64?
        /// The text of a completed message that is short enough to be shown again, unescaped; nil for other content.
        package var text: String?
        /// The id of the chat message as which a node has sent a text; nil for other content.
        package var message: String?
        /// The transfer whose beginning and end have an entry each; nil where there is one entry.
        package var attempt: Attempt?
        /// The name under which the inbox keeps what has arrived of an unfinished transfer; nil where it keeps nothing.
        package var partial: String?

        package init(
            when: WallTime, peer: PeerID, peerName: String, content: String, size: UInt64, outcome: String,
            reason: String? = nil, presentSize: UInt64? = nil, attempt: Attempt? = nil
        ) {
            (self.reason, self.presentSize, self.attempt) = (reason, presentSize, attempt)
            self.when = when
            self.peer = peer
            self.peerName = peerName
            self.content = content
            self.size = size
            self.outcome = outcome
        }
    }

    /// Limit on the text of an entry, in bytes.
    package static let maximumTextByteCount = 2_000

    /// One attempt of a transfer by one process.
    package struct Attempt: Sendable, Codable, Hashable {
        package var process: Int32
        /// Random: the sender, who chooses the identifier of the transfer, could repeat it.
        package var token: String

        package init(process: Int32, token: String) {
            (self.process, self.token) = (process, token)
        }
    }

    /// The outcome of an entry for a beginning.
    package static let runningOutcome = "running"

    /// One entry for each transfer: its end, or its beginning while it runs; the end of one whose process was killed is an
    /// interruption. Completed transfers of ``Kind/notReceived`` whose items have entries elsewhere are left out.
    /// - Parameter isRunning: whether a process runs.
    package static func settled(_ entries: [Entry], of kind: Kind, isRunning: (Int32) -> Bool) -> [Entry] {
        let ended = endedAttempts(entries)
        return entries.compactMap { entry in
            guard let attempt = entry.attempt else { return entry }
            guard entry.outcome == runningOutcome else {
                let hasItem = entry.reason == nil && entry.presentSize == nil
                return kind == .notReceived && entry.outcome == "completed" && hasItem ? nil : entry
            }
            guard !ended.contains(attempt) else { return nil }
            var entry = entry
            if !isRunning(attempt.process) { entry.outcome = "interrupted" }
            return entry
        }
    }

    /// The beginnings of transfers whose process was killed before it recorded their end.
    /// - Parameter isRunning: whether a process runs.
    package static func killed(_ entries: [Entry], isRunning: (Int32) -> Bool) -> [Entry] {
        let ended = endedAttempts(entries)
        return entries.filter { entry in
            guard entry.outcome == runningOutcome, let attempt = entry.attempt else { return false }
            return !ended.contains(attempt) && !isRunning(attempt.process)
        }
    }

    private static func endedAttempts(_ entries: [Entry]) -> Set<Attempt> {
        Set(entries.filter { $0.outcome != runningOutcome }.compactMap(\.attempt))
    }

    private static let retainedByteCount = 1 << 20

    private let kind: Kind
    private let directory: StateDirectory

    package init(of kind: Kind, in directory: StateDirectory) {
        (self.kind, self.directory) = (kind, directory)
    }

    /// - Parameter isFriend: whether the records of a peer have a share of their own when the file has become too long.
    package func append(_ entry: Entry, isFriend: (PeerID) -> Bool = { _ in false }) throws(StorageError) {
        guard let line = try? JSONEncoder().encode(entry) else { return }
        struct Line: Decodable, Hashable {
            let peer: PeerID
        }
        try directory.append(Array(line), to: kind.rawValue, retaining: Self.retainedByteCount) { lines in
            RetainedLines(byteCount: Self.retainedByteCount).select(from: lines, Line.self) { isFriend($0.peer) }
        }
    }

    /// Removes the texts of the messages that were sent to a peer; their entries stay.
    package func removeTexts(to peer: PeerID) throws(StorageError) {
        try directory.updateLines(of: kind.rawValue) { lines in
            lines.map { line in
                guard var entry = try? JSONDecoder().decode(Entry.self, from: Data(line)), entry.peer == peer, entry.text != nil
                else { return line }
                entry.text = nil
                return (try? JSONEncoder().encode(entry)).map { [UInt8]($0)[...] } ?? []
            }
        }
    }

    /// Removes the texts of messages whose lifetime is over; their entries stay.
    /// - Parameter lifetime: returns that of the texts to a peer; nil where they stay.
    /// - Returns: the peers of whose texts some were removed, with the latest time of those, and the peers of whose texts some are
    ///   removed later, with the earliest time of those.
    package func removeExpiredTexts(
        at now: WallTime, lifetime: (PeerID) -> MessageLifetime?
    ) throws(StorageError) -> (removed: [PeerID: WallTime], left: [PeerID: WallTime]) {
        var (removed, left): ([PeerID: WallTime], [PeerID: WallTime]) = ([:], [:])
        try directory.updateLines(of: kind.rawValue) { lines in
            lines.map { line in
                guard var entry = try? JSONDecoder().decode(Entry.self, from: Data(line)), entry.text != nil,
                    let limit = lifetime(entry.peer)
                else { return line }
                guard entry.when <= limit.latestExpired(at: now) else {
                    left[entry.peer] = min(left[entry.peer] ?? entry.when, entry.when)
                    return line
                }
                removed[entry.peer] = max(removed[entry.peer] ?? entry.when, entry.when)
                entry.text = nil
                return (try? JSONEncoder().encode(entry)).map { [UInt8]($0)[...] } ?? []
            }
        }
        return (removed, left)
    }

    /// Removes the records of attempts that have not completed their transfer, where a later one of the same peer has resumed and
    /// completed it.
    /// - Parameter isAffected: receives the peer.
    package func removeResumedAttempts(where isAffected: (PeerID) -> Bool) throws(StorageError) {
        try directory.updateLines(of: kind.rawValue) { lines in
            let entries = lines.map { try? JSONDecoder().decode(Entry.self, from: Data($0)) }
            var partials: [Attempt: String] = [:]
            var completed: Set<Attempt> = []
            var completions: [String: Int] = [:]
            for (number, entry) in entries.enumerated() {
                guard let entry, let attempt = entry.attempt, isAffected(entry.peer) else { continue }
                if let partial = entry.partial { partials[attempt] = partial }
                guard entry.outcome == "completed" else { continue }
                completed.insert(attempt)
                if let partial = partials[attempt] { completions[partial] = number }
            }
            return lines.indices.filter { number in
                guard let attempt = entries[number]?.attempt, !completed.contains(attempt),
                    let completion = partials[attempt].flatMap({ completions[$0] })
                else { return true }
                return number > completion
            }.map { lines[$0] }
        }
    }

    /// Replaces the outcome of a text that a node has sent as a chat message.
    package func setOutcome(_ outcome: String, of message: String) throws(StorageError) {
        // Most messages have no entry.
        guard let bytes = try directory.readFile(kind.rawValue), bytes.firstRange(of: Array(message.utf8)) != nil else {
            return
        }
        try directory.updateLines(of: kind.rawValue) { lines in
            lines.map { line in
                guard var entry = try? JSONDecoder().decode(Entry.self, from: Data(line)), entry.message == message else {
                    return line
                }
                entry.outcome = outcome
                return (try? JSONEncoder().encode(entry)).map { [UInt8]($0)[...] } ?? line
            }
        }
    }

    /// All entries, the oldest first. Damaged lines are skipped.
    package func entries() throws(StorageError) -> [Entry] {
        guard let bytes = try directory.readFile(kind.rawValue) else { return [] }
        return bytes.split(separator: UInt8(ascii: "\n")).compactMap {
            try? JSONDecoder().decode(Entry.self, from: Data($0))
        }
    }
}
