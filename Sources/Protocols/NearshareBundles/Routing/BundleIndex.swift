internal import NearshareBase

/// The index of the bundles in the store: their forwarding state, quotas, duplicates and expiry.
struct BundleIndex: Sendable {
    private(set) var entries: [BundleID: BundleEntry] = [:]
    private(set) var seen = SeenBundles(capacity: 8_192)
    /// IDs of stored acknowledgements, by the bundle that they acknowledge.
    private var acknowledgements: [BundleID: BundleID] = [:]
    /// The hosts of the present neighbours.
    private var hosts: [EndpointID: BundleHost] = [:]
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
    /// Acknowledgements do not count, as other senders cause them.
    var isFullOfOwn: Bool { entries.values.count { $0.isOwn && !$0.isAcknowledgement } >= quota.ownBundleCount }

    /// The acknowledgement of this node to delete, where there are more than the quota allows: the oldest of the host that has handed
    /// over most of the acknowledged bundles. Those for contacts last, where these are known: a private bundle has a key of its own.
    var surplusAcknowledgement: BundleID? {
        let own = entries.filter { $0.value.isOwn && $0.value.isAcknowledgement }
        guard own.count > quota.acknowledgementCount else { return nil }
        let others = own.filter { $0.value.destination.map(isContact) != true }
        let present = Set(hosts.values)
        let groups = Dictionary(grouping: others.isEmpty ? own : others) { Self.host(of: $0.value, among: present) }
        let largest = groups.max { left, right in
            (left.value.count, order(left.key.rawValue)) < (right.value.count, order(right.key.rawValue))
        }
        return largest?.value.min { ($0.value.creationTime, $0.key.short) < ($1.value.creationTime, $1.key.short) }?.key
    }

    /// Bytes of the bundles that are offered to every neighbour.
    var epidemicByteCount: Int { entries.values.reduce(0) { $0 + ($1.isEpidemic ? $1.byteCount : 0) } }

    /// Bytes on the heap.
    var byteCount: Int {
        entries.tableByteCount + entries.values.reduce(0) { $0 + $1.heapByteCount } + acknowledgements.tableByteCount
            + hosts.tableByteCount + seen.byteCount
    }

    subscript(id: BundleID) -> BundleEntry? { entries[id] }

    /// The stored acknowledgement of a bundle.
    func acknowledgement(of id: BundleID) -> (id: BundleID, entry: BundleEntry)? {
        guard let answer = acknowledgements[id], let entry = entries[answer] else { return nil }
        return (answer, entry)
    }

    // MARK: Hosts

    /// Records a neighbour in range.
    /// - Parameter host: nil where the neighbour counts alone.
    mutating func setHost(_ host: BundleHost?, of neighbour: EndpointID) {
        hosts[neighbour] = host ?? BundleHost(neighbour)
    }

    /// Removes a neighbour that has left. Its bundles count with those of other neighbours that have left the same host.
    mutating func removeHost(of neighbour: EndpointID) { hosts[neighbour] = nil }

    /// The host to which what a neighbour hands over is attributed.
    func host(of neighbour: EndpointID) -> BundleHost { hosts[neighbour] ?? BundleHost(neighbour) }

    // MARK: Contents

    mutating func insert(_ stored: StoredBundle) {
        let entry = BundleEntry(stored, ownTag: local.visitTag(in: stored.id))
        entries[stored.id] = entry
        let host = stored.previousNode.map { stored.host == .unknown ? self.host(of: $0) : stored.host }
        recordSeen(stored.id, expiry: entry.expiry, of: host)
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

    /// - Parameter previousNode: the neighbour that sent it; nil for this node's own, and for one that was delivered earlier.
    mutating func recordSeen(_ id: BundleID, expiry: WallTime, from previousNode: EndpointID?) {
        recordSeen(id, expiry: expiry, of: previousNode.map { host(of: $0) })
    }

    private mutating func recordSeen(_ id: BundleID, expiry: WallTime, of host: BundleHost?) {
        seen.insert(id, expiry: expiry, from: host) { [entries] in entries[$0] != nil }
    }

    /// Lists a bundle in summary vectors, so that a new neighbour need not offer it.
    mutating func markEpidemic(_ id: BundleID) {
        if entries[id]?.isNearHopLimit == true { return }
        seen.markEpidemic(id)
    }

    // MARK: Times of creation

    /// Marks this node's own bundles that were created after a time as ahead, and others no longer.
    /// - Returns: those whose mark has changed, in the order of their creation.
    mutating func markAhead(after limit: WallTime) -> (ahead: [BundleID], due: [BundleID]) {
        let ahead = inCreationOrder { $0.isOwn && !$0.isAhead && $0.creationTime > limit }
        let due = inCreationOrder { $0.isAhead && $0.creationTime <= limit }
        for id in ahead { update(id) { $0.isAhead = true } }
        for id in due { update(id) { $0.isAhead = false } }
        return (ahead, due)
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
    enum Rank: UInt64, Comparable {
        /// For everyone, or for an unnamed destination.
        case flooded
        case directed
        /// From or for a contact.
        case contact

        static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
    }

    func rank(source: EndpointID, destination: EndpointID?) -> Rank {
        Self.rank(source: source, destination: destination, isContact: isContact)
    }

    private static func rank(
        source: EndpointID, destination: EndpointID?, isContact: (EndpointID) -> Bool
    ) -> Rank {
        if isContact(source) || destination.map(isContact) ?? false { return .contact }
        return destination == nil ? .flooded : .directed
    }

    /// Makes room for a bundle by evicting others; first those of the same host, if it is over its share (B5, M6). Changing keys
    /// costs nothing, so the evicted bundle is found in these steps:
    ///
    /// 1. the host that has sent most;
    /// 2. of its bundles those of the lowest rank;
    /// 3. of its neighbours the one that has sent most of them, those that have left counted as one;
    /// 4. of their sources the one with most bundles, whose oldest is evicted.
    ///
    /// An evicted bundle is accepted again when it arrives again, unless this node has delivered it.
    /// - Returns: whether there is room, and the evicted bundles.
    mutating func admit(
        byteCount size: Int, from neighbour: EndpointID, rank: Rank = .directed, now: Moment
    ) -> (isAdmitted: Bool, evicted: [BundleID]) {
        guard size <= quota.byteCountPerHost, size <= quota.byteCount else { return (false, []) }
        // Counting is only needed near a limit.
        guard
            entries.count >= min(quota.bundleCount, quota.bundleCountPerHost)
                || entries.count * Bundle.maximumQuotaByteCount >= quota.byteCountPerHost
        else { return (true, []) }
        let host = host(of: neighbour)
        let present = Set(hosts.values)
        var total = Usage()
        var own = Usage()
        for entry in entries.values where !entry.isOwn {
            total.add(entry)
            if Self.host(of: entry, among: present) == host { own.add(entry) }
        }
        // Sorted and divided once, and only where a bundle has to go.
        var evictable: (bundles: [(id: BundleID, entry: BundleEntry)], capacity: SharedCapacity<UInt64>)?
        var evicted: [BundleID] = []
        while true {
            let isOverShare =
                own.bundleCount >= quota.bundleCountPerHost || own.byteCount + size > quota.byteCountPerHost
            let isFull = total.bundleCount >= quota.bundleCount || total.byteCount + size > quota.byteCount
            guard isOverShare || isFull else { return (true, evicted) }
            let isOverCount =
                isOverShare ? own.bundleCount >= quota.bundleCountPerHost : total.bundleCount >= quota.bundleCount
            let measure: SharedCapacity<UInt64>.Measure = isOverCount ? .count : .byteCount
            if evictable == nil { evictable = evictableBundles(among: present) }
            let position = evictable?.capacity.removeOldest { level, groups in
                switch level {
                case 0: isOverShare ? host.rawValue : groups.largest(by: measure, precedence: { order($0.key) })
                case 1: groups.keys.min().flatMap { $0 <= rank.rawValue ? $0 : nil }
                case 2: groups.largest(by: measure, precedence: { order($0.key) })
                // Where many sources have one bundle each, every node loses others: made-up sources cannot displace one everywhere.
                default: groups.largest(by: .count, precedence: { order($0.key) })
                }
            }
            guard let position, let victim = evictable?.bundles[position] else { return (false, evicted) }
            total.subtract(victim.entry)
            if Self.host(of: victim.entry, among: present) == host { own.subtract(victim.entry) }
            if remove(victim.id, now: now)?.isForEveryone != true { seen.remove(victim.id) }
            evicted.append(victim.id)
        }
    }

    private struct Usage {
        var bundleCount = 0
        var byteCount = 0

        mutating func add(_ entry: BundleEntry) {
            bundleCount += 1
            byteCount += entry.byteCount
        }

        mutating func subtract(_ entry: BundleEntry) {
            bundleCount -= 1
            byteCount -= entry.byteCount
        }
    }

    /// The bundles of other nodes, the oldest first, and what they take up: by host, rank, neighbour and source.
    /// - Parameter present: the hosts of the present neighbours.
    private func evictableBundles(
        among present: Set<BundleHost>
    ) -> (bundles: [(id: BundleID, entry: BundleEntry)], capacity: SharedCapacity<UInt64>) {
        var bundles: [(id: BundleID, entry: BundleEntry)] = []
        for (id, entry) in entries where !entry.isOwn { bundles.append((id, entry)) }
        bundles.sort { ($0.entry.creationTime, $0.id.short) < ($1.entry.creationTime, $1.id.short) }
        let capacity = SharedCapacity<UInt64>(
            count: bundles.count, byteCount: { [bundles] in bundles[$0].entry.byteCount },
            levels: [
                { [bundles] in Self.host(of: bundles[$0].entry, among: present).rawValue },
                { [bundles, isContact] in
                    Self.rank(
                        source: bundles[$0].entry.source, destination: bundles[$0].entry.destination, isContact: isContact
                    ).rawValue
                },
                // 0 for neighbours that have left.
                { [bundles, hosts] in
                    bundles[$0].entry.previousNode.map { hosts[$0] == nil ? 0 : $0.rawValue } ?? 0
                },
                { [bundles] in bundles[$0].entry.source.rawValue },
            ])
        return (bundles, capacity)
    }

    /// The host to which a bundle is attributed, once the link over which it came may be closed.
    private static func host(of entry: BundleEntry, among present: Set<BundleHost>) -> BundleHost {
        entry.host.isLink && !present.contains(entry.host) ? .unknown : entry.host
    }

    /// A random order of the groups that hold as much, that of no other node.
    private func order(_ group: UInt64) -> UInt64 {
        let mixed = (group ^ salt) &* 0x9e37_79b9_7f4a_7c15
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
}
