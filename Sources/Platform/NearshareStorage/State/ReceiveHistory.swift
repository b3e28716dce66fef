internal import FoundationEssentials
package import NearshareBase
package import NearshareInterfaces

/// The log of received items: one line of JSON for each, the oldest removed when the file exceeds its limit.
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

        package init(
            when: WallTime, peer: Fingerprint, peerName: DisplayName, claimedName: String, path: String, size: UInt64,
            type: String?, isFolder: Bool
        ) {
            self.when = when
            self.peer = peer
            self.peerName = peerName
            self.claimedName = claimedName
            self.path = path
            self.size = size
            self.type = type
            self.isFolder = isFolder
        }
    }

    private static let fileName = "history.jsonl"
    private static let retainedByteCount = 1 << 20

    private let directory: StateDirectory

    package init(in directory: StateDirectory) {
        self.directory = directory
    }

    package func append(_ entry: Entry) throws(StorageError) {
        guard let line = try? JSONEncoder().encode(entry) else { return }
        try directory.append(Array(line), to: Self.fileName, retaining: Self.retainedByteCount)
    }

    /// Appended as a line of its own: written lines never change.
    private struct Move: Codable {
        var movedFrom: String
        var path: String
    }

    /// Records that an item was moved from the spool into the inbox.
    package func recordMove(from old: String, to path: String) throws(StorageError) {
        guard let line = try? JSONEncoder().encode(Move(movedFrom: old, path: path)) else { return }
        try directory.append(Array(line), to: Self.fileName, retaining: Self.retainedByteCount)
    }

    /// All entries with their latest paths, the oldest first. Damaged lines are skipped.
    package func entries() throws(StorageError) -> [Entry] {
        guard let bytes = try directory.readFile(Self.fileName) else { return [] }
        var entries: [Entry] = []
        for line in bytes.split(separator: UInt8(ascii: "\n")) {
            if let entry = try? JSONDecoder().decode(Entry.self, from: Data(line)) {
                entries.append(entry)
            } else if let move = try? JSONDecoder().decode(Move.self, from: Data(line)),
                let index = entries.lastIndex(where: { $0.path == move.movedFrom })
            {
                entries[index].path = move.path
            }
        }
        return entries
    }
}
