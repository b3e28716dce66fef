package import NearshareBase
package import NearshareInterfaces

/// The peers that were discovered recently, for completing names on the command line, with the addresses at which they have proven
/// their keys. All other fields are unauthenticated claims.
package struct RecentPeers: Sendable, Codable {
    package struct Entry: Sendable, Codable, Hashable {
        package var id: PeerID
        package var name: DisplayName
        package var lastSeen: WallTime
        /// The address at which it has last proven its key to this node, such as "[fe80::1%eth0]:29742"; nil for none.
        package fileprivate(set) var address: String?
        /// Whether it was seen as a LocalSend device; nil in files of earlier versions.
        package var isLocalSend: Bool?

        package init(id: PeerID, name: DisplayName, lastSeen: WallTime, isLocalSend: Bool = false) {
            self.isLocalSend = isLocalSend
            self.id = id
            self.name = name
            self.lastSeen = lastSeen
        }
    }

    package static let capacity = 256
    private static let fileName = "recent-peers.json"

    /// The most recent first.
    package private(set) var entries: [Entry] = []

    package init() {}

    /// Records peers that were seen. Beyond the capacity, the oldest are removed: those without an address first, because any host
    /// can announce any number of peers.
    mutating func record(_ seen: [Entry]) {
        let addresses = Dictionary(entries.map { ($0.id, $0.address) }, uniquingKeysWith: { first, _ in first })
        var recorded = seen.sorted { $0.lastSeen > $1.lastSeen }
        for index in recorded.indices { recorded[index].address = addresses[recorded[index].id] ?? nil }
        let ids = Set(seen.map(\.id))
        entries = recorded + entries.filter { !ids.contains($0.id) }
        var excess = entries.count - Self.capacity
        for index in entries.indices.reversed() where excess > 0 && entries[index].address == nil {
            entries.remove(at: index)
            excess -= 1
        }
        entries = Array(entries.prefix(Self.capacity))
    }

    /// The address at which a peer has last proven its key; nil where none is recorded.
    package func address(of id: PeerID) -> String? { entries.first { $0.id == id }?.address }

    /// Records the network address at which a recent peer has proven its key. No effect for another peer, or for the recorded
    /// address.
    package static func recordAddress(
        _ address: LinkAddress, of id: PeerID, in directory: StateDirectory
    ) throws(StorageError) {
        guard address.medium == .network, let entry = try read(in: directory).entries.first(where: { $0.id == id }),
            entry.address != address.description
        else { return }
        try directory.update(fileName, startingWith: RecentPeers()) { recent in
            guard let index = recent.entries.firstIndex(where: { $0.id == id }) else { return }
            recent.entries[index].address = address.description
        }
    }

    package static func read(in directory: StateDirectory) throws(StorageError) -> RecentPeers {
        try directory.read(RecentPeers.self, from: fileName) ?? RecentPeers()
    }

    package static func record(_ seen: [Entry], in directory: StateDirectory) throws(StorageError) {
        guard !seen.isEmpty else { return }
        try directory.update(fileName, startingWith: RecentPeers()) { $0.record(seen) }
    }
}
