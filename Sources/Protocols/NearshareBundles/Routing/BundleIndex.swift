internal import NearshareBase

/// The index of the bundles in the store: their forwarding state, quotas, duplicates and expiry.
struct BundleIndex: Sendable {
    private(set) var entries: [BundleID: BundleEntry] = [:]
    private(set) var seen = SeenBundles(capacity: 8_192)
    /// IDs of stored acknowledgements, by the bundle that they acknowledge.
    private var acknowledgements: [BundleID: BundleID] = [:]
    private let local: EndpointID
    private let quota: BundleQuota
    /// Random number of this node, so that no source can be chosen to outlast others.
    private let salt: UInt64
    /// Whether an endpoint is a contact of the user.
    private let isContact: @Sendable (EndpointID) -> Bool

    init(
        local: EndpointID, quota: BundleQuota, salt: UInt64,
        isContact: @escaping @Sendable (EndpointID) -> Bool = { _ in false }
    ) {
        self.local = local
        self.salt = salt
        self.quota = quota
        self.isContact = isContact
    }

    var count: Int { entries.count }
    /// Whether there is nothing to sweep.
    var isEmpty: Bool { entries.isEmpty && seen.count == 0 }
    var hasWaiting: Bool { entries.values.contains { $0.state == .waiting } }
    /// Whether as many of this node's own bundles are stored as the quota allows.
    var isFullOfOwn: Bool { entries.values.count { $0.isOwn } >= quota.ownBundleCount }

    /// Bytes of the bundles that are offered to every neighbour.
    var epidemicByteCount: Int { entries.values.reduce(0) { $0 + ($1.isEpidemic ? $1.byteCount : 0) } }

    /// Bytes on the heap.
    var byteCount: Int {
        entries.tableByteCount + entries.values.reduce(0) { $0 + $1.heapByteCount } + acknowledgements.tableByteCount
            + seen.byteCount
    }

    subscript(id: BundleID) -> BundleEntry? { entries[id] }

    /// The stored acknowledgement of a bundle.
    func acknowledgement(of id: BundleID) -> (id: BundleID, entry: BundleEntry)? {
        guard let answer = acknowledgements[id], let entry = entries[answer] else { return nil }
        return (answer, entry)
    }

    // MARK: Contents

    mutating func insert(_ stored: StoredBundle) {
        let entry = BundleEntry(stored, ownTag: local.visitTag(in: stored.id))
        entries[stored.id] = entry
        recordSeen(stored.id, expiry: entry.expiry, from: stored.previousNode)
    }

    /// Makes a stored acknowledgement the answer to further copies of its bundle.
    mutating func register(acknowledgement id: BundleID) {
        if let acknowledgedID = entries[id]?.acknowledgedID { acknowledgements[acknowledgedID] = id }
    }

    /// Changes the forwarding state of a bundle that is stored.
    mutating func update(_ id: BundleID, _ change: (inout BundleEntry) -> Void) {
        guard let index = entries.index(forKey: id) else { return }
        change(&entries.values[index])
    }

    /// Offers a bundle to every neighbour from now on.
    mutating func startEpidemic(_ id: BundleID) {
        update(id) { $0.state = .epidemic }
        markEpidemic(id)
    }

    /// Records the hop count of another copy of a bundle that is stored.
    /// - Returns: whether the bundle was near its hop limit, and has come over fewer hops now.
    mutating func lowerHopCount(of id: BundleID, to hopCount: Int) -> Bool {
        guard let entry = entries[id], !entry.isOwn else { return false }
        var isLower = false
        update(id) { isLower = $0.lowerHopCount(to: hopCount) }
        guard isLower, entry.isNearHopLimit else { return false }
        if entry.isEpidemic { markEpidemic(id) }
        return true
    }

    /// - Returns: the removed entry; nil when it was not stored.
    mutating func remove(_ id: BundleID, now: Moment) -> BundleEntry? {
        guard let entry = entries.removeValue(forKey: id) else { return nil }
        if let acknowledgedID = entry.acknowledgedID, acknowledgements[acknowledgedID] == id {
            acknowledgements[acknowledgedID] = nil
        }
        // A bundle for everyone arrives again and again, a routed one rarely does.
        if !entry.isForEveryone { seen.shorten(id, to: WallTime(milliseconds: now.wall.milliseconds + Self.routedMemory)) }
        return entry
    }

    // MARK: Duplicates

    mutating func recordSeen(_ id: BundleID, expiry: WallTime, from previousNode: EndpointID?) {
        seen.insert(id, expiry: expiry, from: previousNode) { [entries] in entries[$0] != nil }
    }

    /// Lists a bundle in summary vectors, so that a new neighbour need not offer it.
    mutating func markEpidemic(_ id: BundleID) {
        if entries[id]?.isNearHopLimit == true { return }
        seen.markEpidemic(id)
    }

    // MARK: Order of forwarding

    /// Bundles for a destination in the order of their creation, as the lines of a conversation are.
    func bundles(for destination: EndpointID) -> [BundleID] {
        inCreationOrder { $0.destination == destination && $0.state != .retained }
    }

    /// Older bundles of the same source for the same destination as this one, in the order of their creation.
    func bundles(before entry: BundleEntry) -> [BundleID] {
        guard let destination = entry.destination else { return [] }
        return inCreationOrder { other in
            other.source == entry.source && other.destination == destination && other.creationTime < entry.creationTime
                && other.isAcknowledgement == entry.isAcknowledgement
        }
    }

    func bundles(in state: BundleEntry.State) -> [BundleID] {
        inCreationOrder { $0.state == state }
    }

    private func inCreationOrder(_ isIncluded: (BundleEntry) -> Bool) -> [BundleID] {
        var selected: [(id: BundleID, created: WallTime)] = []
        for (id, entry) in entries where isIncluded(entry) { selected.append((id, entry.creationTime)) }
        return selected.sorted { $0.created < $1.created }.map(\.id)
    }

    /// Round robin over the sources, the oldest bundle first, so that a source that sends much delays only itself.
    func roundRobin(_ ids: [BundleID]) -> [BundleID] {
        var counts: [EndpointID: Int] = [:]
        return ids.compactMap { id in entries[id].map { (id: id, created: $0.creationTime, source: $0.source) } }
            .sorted { ($0.created, $0.id.short) < ($1.created, $1.id.short) }
            .map { bundle -> (turn: Int, created: WallTime, id: BundleID) in
                let turn = counts[bundle.source, default: 0]
                counts[bundle.source] = turn + 1
                return (turn, bundle.created, bundle.id)
            }
            .sorted { ($0.turn, $0.created, $0.id.short) < ($1.turn, $1.created, $1.id.short) }
            .map(\.id)
    }

    // MARK: Quotas

    /// The order in which bundles make room for others: a flood of messages for everyone never displaces what is on its way to
    /// one receiver, and no flood displaces what the user's contacts send and receive (M6).
    enum Rank: Int, Comparable {
        /// For everyone, or for an unnamed destination.
        case flooded
        case directed
        /// From or for a contact.
        case contact

        static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
    }

    func rank(source: EndpointID, destination: EndpointID?) -> Rank {
        if isContact(source) || destination.map(isContact) ?? false { return .contact }
        return destination == nil ? .flooded : .directed
    }

    /// Makes room for a bundle, first among those of the same neighbour (B5), by evicting the oldest bundle of the source with
    /// most bundles there, of the lowest rank. An evicted bundle is accepted again when it arrives again, unless this node has
    /// delivered it.
    /// - Returns: whether there is room, and the evicted bundles.
    mutating func admit(
        byteCount size: Int, from neighbour: EndpointID, rank: Rank = .directed, now: Moment
    ) -> (isAdmitted: Bool, evicted: [BundleID]) {
        guard size <= quota.byteCountPerPreviousNode, size <= quota.byteCount else { return (false, []) }
        var evicted: [BundleID] = []
        while true {
            // Counting is only needed near a limit.
            guard
                entries.count >= min(quota.bundleCount, quota.bundleCountPerPreviousNode)
                    || entries.count * Self.maximumQuotaByteCount >= quota.byteCountPerPreviousNode
            else { return (true, evicted) }
            var usage: [EndpointID: Usage] = [:]
            for entry in entries.values {
                if let previousNode = entry.previousNode { usage[previousNode, default: Usage()].add(entry.byteCount) }
            }
            let own = usage[neighbour] ?? Usage()
            let isOverShare =
                own.bundleCount >= quota.bundleCountPerPreviousNode
                || own.byteCount + size > quota.byteCountPerPreviousNode
            let bundleCount = usage.values.reduce(0) { $0 + $1.bundleCount }
            let byteCount = usage.values.reduce(0) { $0 + $1.byteCount }
            let isFull = bundleCount >= quota.bundleCount || byteCount + size > quota.byteCount
            guard isOverShare || isFull else { return (true, evicted) }
            let largest = usage.max {
                ($0.value.byteCount, $0.key.rawValue) < ($1.value.byteCount, $1.key.rawValue)
            }?.key
            guard let loser = isOverShare ? neighbour : largest, let victim = oldest(from: loser, upTo: rank) else {
                return (false, evicted)
            }
            if remove(victim, now: now)?.isForEveryone != true { seen.remove(victim) }
            evicted.append(victim)
        }
    }

    private struct Usage {
        var bundleCount = 0
        var byteCount = 0

        mutating func add(_ size: Int) {
            bundleCount += 1
            byteCount += size
        }
    }

    private func oldest(from previousNode: EndpointID, upTo rank: Rank) -> BundleID? {
        let ranked = entries.filter { $0.value.previousNode == previousNode }
            .map { (id: $0.key, entry: $0.value, rank: self.rank(source: $0.value.source, destination: $0.value.destination)) }
        guard let lowest = ranked.map(\.rank).min(), lowest <= rank else { return nil }
        let brought = ranked.filter { $0.rank == lowest }
        let counts = brought.reduce(into: [EndpointID: Int]()) { $0[$1.entry.source, default: 0] += 1 }
        // Where many sources have one bundle each, every node loses others: made-up sources cannot displace one everywhere.
        let source = counts.max { ($0.value, order($0.key)) < ($1.value, order($1.key)) }?.key
        return brought.filter { $0.entry.source == source }
            .min { ($0.entry.creationTime, $0.id.short) < ($1.entry.creationTime, $1.id.short) }?.id
    }

    /// A random order of sources, that of no other node.
    private func order(_ source: EndpointID) -> UInt64 {
        let mixed = (source.rawValue ^ salt) &* 0x9e37_79b9_7f4a_7c15
        return (mixed ^ mixed >> 32) &* 0xff51_afd7_ed55_8ccd
    }

    // MARK: Expiry

    func expired(now: Moment) -> [BundleID] {
        entries.filter { $0.value.expiry <= now.wall }.map(\.key)
    }

    /// Removes old duplicates, and returns memory.
    mutating func sweep(now: Moment) {
        seen.removeExpired(now: now.wall)
        entries.shrink()
        acknowledgements.shrink()
    }

    /// Milliseconds for which a routed bundle that is no longer stored is recognised.
    private static let routedMemory: Int64 = 600_000
    private static let maximumQuotaByteCount = Bundle.maximumBodyByteCount + Bundle.quotaOverhead
}
