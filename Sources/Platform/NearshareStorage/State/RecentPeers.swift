package import NearshareBase
package import NearshareInterfaces

/// The peers that were discovered recently, for completing names on the command line. All fields are unauthenticated claims.
package struct RecentPeers: Sendable, Codable {
    package struct Entry: Sendable, Codable, Hashable {
        package var id: PeerID
        package var name: DisplayName
        package var lastSeen: WallTime
        /// The address at which it was reached; nil when none was recorded.
        package var address: String?
        /// Whether it was seen as a LocalSend device; nil in files of earlier versions.
        package var isLocalSend: Bool?

        package init(
            id: PeerID, name: DisplayName, lastSeen: WallTime, address: String? = nil, isLocalSend: Bool = false
        ) {
            self.isLocalSend = isLocalSend
            self.id = id
            self.name = name
            self.lastSeen = lastSeen
            self.address = address
        }
    }

    package static let capacity = 256
    private static let fileName = "recent-peers.json"

    /// The most recent first.
    package private(set) var entries: [Entry] = []

    package init() {}

    mutating func record(_ seen: [Entry]) {
        let ids = Set(seen.map(\.id))
        entries = seen.sorted { $0.lastSeen > $1.lastSeen } + entries.filter { !ids.contains($0.id) }
        entries = Array(entries.prefix(Self.capacity))
    }

    package static func read(in directory: StateDirectory) throws(StorageError) -> RecentPeers {
        try directory.read(RecentPeers.self, from: fileName) ?? RecentPeers()
    }

    package static func record(_ seen: [Entry], in directory: StateDirectory) throws(StorageError) {
        guard !seen.isEmpty else { return }
        try directory.update(fileName, startingWith: RecentPeers()) { $0.record(seen) }
    }
}
