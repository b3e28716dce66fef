internal import FoundationEssentials
package import NearshareBase
package import NearshareInterfaces

/// What has arrived: one line of JSON for each item, the oldest going first when there are very many.
package struct ReceiveHistory: Sendable {
    package struct Entry: Sendable, Codable, Hashable {
        package var when: WallTime
        package var peer: Fingerprint
        package var peerName: DisplayName
        /// As the sender called it; may be anything.
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
    private static let rotatedAt = 1 << 20

    private let directory: StateDirectory

    package init(in directory: StateDirectory) {
        self.directory = directory
    }

    package func append(_ entry: Entry) throws(StorageError) {
        guard let line = try? JSONEncoder().encode(entry) else { return }
        try directory.append(Array(line), to: Self.fileName, rotatedAt: Self.rotatedAt)
    }

    /// A line of its own: what is there already is never written anew.
    private struct Move: Codable {
        var movedFrom: String
        var path: String
    }

    /// What had arrived at one place, and waited there, is at another now.
    package func recordMove(from old: String, to path: String) throws(StorageError) {
        guard let line = try? JSONEncoder().encode(Move(movedFrom: old, path: path)) else { return }
        try directory.append(Array(line), to: Self.fileName, rotatedAt: Self.rotatedAt)
    }

    /// The oldest first, each with the place where it was last. Lines that can't be read are skipped: one damaged line must not hide
    /// the others.
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
