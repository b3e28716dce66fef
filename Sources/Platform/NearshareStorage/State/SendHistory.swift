internal import FoundationEssentials
package import NearshareBase
package import NearshareInterfaces

/// The log of what was sent: one line of JSON for each transfer to one peer. When the file exceeds its limit, the oldest lines are
/// removed.
package struct SendHistory: Sendable {
    package struct Entry: Sendable, Codable, Hashable {
        package var when: WallTime
        package var peer: PeerID
        /// The name or the address by which the sender knew the peer.
        package var peerName: String
        /// The first item and the number of the others; safe for a terminal.
        package var content: String
        /// Bytes that the receiver has.
        package var size: UInt64
        /// How it has ended, as in JSON events.
        package var outcome: String

        package init(when: WallTime, peer: PeerID, peerName: String, content: String, size: UInt64, outcome: String) {
            self.when = when
            self.peer = peer
            self.peerName = peerName
            self.content = content
            self.size = size
            self.outcome = outcome
        }
    }

    private static let fileName = "sent.jsonl"
    private static let retainedByteCount = 1 << 20

    private let directory: StateDirectory

    package init(in directory: StateDirectory) {
        self.directory = directory
    }

    package func append(_ entry: Entry) throws(StorageError) {
        guard let line = try? JSONEncoder().encode(entry) else { return }
        try directory.append(Array(line), to: Self.fileName, retaining: Self.retainedByteCount) { lines in
            var left = Self.retainedByteCount
            let kept = lines.reversed().prefix {
                left -= $0.count + 1
                return left >= 0
            }
            return kept.reversed()
        }
    }

    /// All entries, the oldest first. Damaged lines are skipped.
    package func entries() throws(StorageError) -> [Entry] {
        guard let bytes = try directory.readFile(Self.fileName) else { return [] }
        return bytes.split(separator: UInt8(ascii: "\n")).compactMap {
            try? JSONDecoder().decode(Entry.self, from: Data($0))
        }
    }
}
