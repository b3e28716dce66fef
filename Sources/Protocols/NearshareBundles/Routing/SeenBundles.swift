internal import NearshareBase

/// Duplicate suppression: the bundles that this node has received or sent, until they expire.
///
/// A flood of IDs must not displace others (B6): when the table is full, the host that has sent most of them loses one.
struct SeenBundles: Sendable {
    private struct Record {
        /// Seconds since 1970; enough until 2106, at half the size of a ``WallTime``.
        var expiry: UInt32
        /// Listed in ``SeenBundles/epidemic``.
        var isEpidemic = false
        /// 0 for this node itself; half the size of an optional.
        private let hostOrZero: UInt64

        var host: BundleHost? { hostOrZero == 0 ? nil : BundleHost(rawValue: hostOrZero) }

        init(expiry: UInt32, host: BundleHost?) {
            self.expiry = expiry
            hostOrZero = host?.rawValue ?? 0
        }
    }

    private var records: [BundleID: Record] = [:]
    private var counts: [BundleHost?: Int] = [:]
    private let capacity: Int
    /// Bundles under epidemic forwarding, which summary vectors list; the oldest first.
    private(set) var epidemic: [BundleID] = []
    /// Incremented whenever ``epidemic`` changes.
    private(set) var generation = 0

    init(capacity: Int) {
        self.capacity = capacity
    }

    var count: Int { records.count }
    /// The number of bundles that can be inserted before others are removed.
    var freeCount: Int { max(0, capacity - records.count) }
    /// Bytes on the heap.
    var byteCount: Int { records.tableByteCount + epidemic.capacity * MemoryLayout<BundleID>.stride }

    func contains(_ id: BundleID) -> Bool { records[id] != nil }

    /// - Parameters:
    ///   - host: the host from which it was received; nil for this node's own.
    ///   - isStored: bundles for which it holds stay in the table.
    mutating func insert(
        _ id: BundleID, expiry: WallTime, from host: BundleHost?, keeping isStored: (BundleID) -> Bool
    ) {
        guard records[id] == nil else { return }
        if records.count >= capacity { removeOldest(keeping: isStored) }
        records[id] = Record(expiry: UInt32(clamping: expiry.milliseconds / 1_000 + 1), host: host)
        counts[host, default: 0] += 1
    }

    /// Lists a bundle in summary vectors from now on.
    mutating func markEpidemic(_ id: BundleID) {
        guard let index = records.index(forKey: id), !records.values[index].isEpidemic else { return }
        records.values[index].isEpidemic = true
        epidemic.append(id)
        generation += 1
    }

    /// Shortens the lifetime of an entry that no summary vector lists.
    mutating func shorten(_ id: BundleID, to expiry: WallTime) {
        guard let index = records.index(forKey: id), !records.values[index].isEpidemic else { return }
        records.values[index].expiry = min(
            records.values[index].expiry, UInt32(clamping: expiry.milliseconds / 1_000))
    }

    /// Removes an entry, so that the bundle is accepted again.
    mutating func remove(_ id: BundleID) {
        guard let record = records.removeValue(forKey: id) else { return }
        let count = counts[record.host, default: 1] - 1
        counts[record.host] = count == 0 ? nil : count
        guard record.isEpidemic else { return }
        epidemic.removeAll { $0 == id }
        generation += 1
    }

    mutating func removeExpired(now: WallTime) {
        let seconds = UInt32(clamping: now.milliseconds / 1_000)
        guard records.values.contains(where: { $0.expiry <= seconds }) else { return }
        for (id, record) in records where record.expiry <= seconds { remove(id) }
        records.shrink()
    }

    private mutating func removeOldest(keeping isStored: (BundleID) -> Bool) {
        for (host, _) in counts.sorted(by: { $0.value > $1.value }) {
            let candidates = records.filter { $0.value.host == host && !isStored($0.key) }
            guard let oldest = candidates.min(by: { $0.value.expiry < $1.value.expiry })?.key else { continue }
            return remove(oldest)
        }
    }
}

extension Dictionary {
    /// Bytes of the hash table, without what keys and values have on the heap.
    var tableByteCount: Int { capacity * (MemoryLayout<Key>.stride + MemoryLayout<Value>.stride) }

    /// Releases the memory that a flood has allocated: a table shrinks only when it is rebuilt.
    mutating func shrink() {
        guard capacity > 4 * Swift.max(16, count) else { return }
        var small: Self = [:]
        small.reserveCapacity(count)
        for (key, value) in self { small[key] = value }
        self = small
    }
}
