internal import FoundationEssentials
package import NearshareBase
package import NearshareInterfaces

/// The log of received items: one line of JSON for each. When the file exceeds its limit, the oldest lines are removed, but each
/// peer keeps a share, and friends keep half: a peer that sends very much removes its own.
package struct ReceiveHistory: Sendable {
    package struct Entry: Sendable, Codable, Hashable {
        package var when: WallTime
        package var peer: Fingerprint
        package var peerName: DisplayName
        /// The name that the sender gave it: escape it before it is shown.
        package var claimedName: String
        package var path: String
        package var size: UInt64
        package var type: String?
        package var isFolder: Bool
        /// Whether the item was merged into another one, of which the peer must learn nothing (X5); nil in older records, for which it
        /// must be assumed.
        package var isMerged: Bool?
        /// Whether the user has removed the item, which only the history lists then; nil for no.
        package var isRemoved: Bool?

        package init(
            when: WallTime, peer: Fingerprint, peerName: DisplayName, claimedName: String, path: String, size: UInt64,
            type: String?, isFolder: Bool, isMerged: Bool = false
        ) {
            self.when = when
            self.peer = peer
            self.peerName = peerName
            self.claimedName = claimedName
            self.path = path
            self.size = size
            self.type = type
            self.isFolder = isFolder
            self.isMerged = isMerged
        }
    }

    private static let fileName = "history.jsonl"
    private static let retainedByteCount = 1 << 20
    private let directory: StateDirectory

    package init(in directory: StateDirectory) {
        self.directory = directory
    }

    /// - Parameter isFriend: whether the records of a peer have a share of their own when the file has become too long.
    package func append(
        _ entry: Entry, isFriend: (Fingerprint) -> Bool = { _ in false }
    ) throws(StorageError) {
        guard let line = try? JSONEncoder().encode(entry) else { return }
        try append(line, isFriend: isFriend)
    }

    private func append(_ line: Data, isFriend: (Fingerprint) -> Bool) throws(StorageError) {
        struct Line: Decodable, Hashable {
            let peer: Fingerprint
        }
        try directory.append(Array(line), to: Self.fileName, retaining: Self.retainedByteCount) { lines in
            RetainedLines(byteCount: Self.retainedByteCount).select(from: lines, Line.self) { isFriend($0.peer) }
        }
    }

    /// Changes with each append and removal; nil while there is no file.
    package var version: FileVersion? { (try? directory.version(of: Self.fileName)) ?? nil }

    /// Appended as a line of its own: written lines never change.
    private struct Move: Codable {
        var movedFrom: String
        var path: String
        /// The peer of the item, whose share of a long file the line takes; nil for an item that is not there.
        var peer: Fingerprint?
    }

    /// Records that an item was moved from the spool into the inbox.
    package func recordMove(
        from old: String, to path: String, isFriend: (Fingerprint) -> Bool = { _ in false }
    ) throws(StorageError) {
        let peer = try entries().last { $0.path == old }?.peer
        guard let line = try? JSONEncoder().encode(Move(movedFrom: old, path: path, peer: peer)) else { return }
        try append(line, isFriend: isFriend)
    }

    /// Records that the items with a path were removed from the disk.
    package func recordRemoval(of path: String) throws(StorageError) {
        try directory.updateLines(of: Self.fileName) { lines in
            var lines = lines.map { Optional($0) }
            for var item in Self.items(in: lines.compactMap(\.self)) where item.entry.path == path {
                item.entry.isRemoved = true
                guard let line = try? JSONEncoder().encode(item.entry), let first = item.lines.first else { continue }
                for number in item.lines { lines[number] = nil }
                lines[first] = Array(line)[...]
            }
            return lines.compactMap(\.self)
        }
    }

    /// Removes the records of items, and of their moves.
    /// - Parameter isRemoved: receives each entry with its latest path.
    /// - Returns: the number of items.
    package func remove(where isRemoved: (Entry) -> Bool) throws(StorageError) -> Int {
        var count = 0
        try directory.updateLines(of: Self.fileName) { lines in
            let removed = Self.items(in: lines).filter { isRemoved($0.entry) }
            count = removed.count
            let numbers = Set(removed.flatMap(\.lines))
            return lines.enumerated().filter { !numbers.contains($0.offset) }.map(\.element)
        }
        return count
    }

    /// All entries with their latest paths, the oldest first. Damaged lines are skipped.
    /// - Parameter includesRemoved: also those of items that the user has removed, at whose paths others may be.
    package func entries(includesRemoved: Bool = false) throws(StorageError) -> [Entry] {
        guard let bytes = try directory.readFile(Self.fileName) else { return [] }
        return Self.items(in: bytes.split(separator: UInt8(ascii: "\n"))).map(\.entry)
            .filter { includesRemoved || $0.isRemoved != true }
    }

    /// The latest entry of each path, the oldest first: an item may have been received again, or another one in its place.
    package func latestEntries() throws(StorageError) -> [Entry] {
        var paths: Set<String> = []
        return try entries().reversed().filter { paths.insert($0.path).inserted }.reversed()
    }

    /// The items that lines of the log describe, each with its latest path and the indices of its lines.
    private static func items(in lines: [ArraySlice<UInt8>]) -> [(entry: Entry, lines: [Int])] {
        var items: [(entry: Entry, lines: [Int])] = []
        for (number, line) in lines.enumerated() {
            if let entry = try? JSONDecoder().decode(Entry.self, from: Data(line)) {
                items.append((entry, [number]))
            } else if let move = try? JSONDecoder().decode(Move.self, from: Data(line)),
                let index = items.lastIndex(where: { $0.entry.path == move.movedFrom && $0.entry.isRemoved != true })
            {
                items[index].entry.path = move.path
                items[index].lines.append(number)
            }
        }
        return items
    }
}
