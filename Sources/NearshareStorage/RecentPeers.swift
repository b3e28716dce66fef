public import NearshareBase
public import NearshareEdges

/// Who was seen nearby lately, for completing names on the command line. Claims, all of it.
public struct RecentPeers: Sendable, Codable {
    public struct Entry: Sendable, Codable, Hashable {
        public var id: PeerID
        public var name: DisplayName
        public var lastSeen: WallTime
        /// Where it was reached, as text; nil when that was not noted.
        public var address: String?

        public init(id: PeerID, name: DisplayName, lastSeen: WallTime, address: String? = nil) {
            self.id = id
            self.name = name
            self.lastSeen = lastSeen
            self.address = address
        }
    }

    public static let capacity = 256
    private static let fileName = "recent-peers.json"

    /// The latest first.
    public private(set) var entries: [Entry] = []

    public init() {}

    mutating func note(_ seen: [Entry]) {
        let ids = Set(seen.map(\.id))
        entries = seen.sorted { $0.lastSeen > $1.lastSeen } + entries.filter { !ids.contains($0.id) }
        entries = Array(entries.prefix(Self.capacity))
    }

    public static func read(in directory: StateDirectory) throws(StorageError) -> RecentPeers {
        try directory.read(RecentPeers.self, from: fileName) ?? RecentPeers()
    }

    public static func note(_ seen: [Entry], in directory: StateDirectory) throws(StorageError) {
        guard !seen.isEmpty else { return }
        try directory.change(fileName, startingWith: RecentPeers()) { $0.note(seen) }
    }
}
