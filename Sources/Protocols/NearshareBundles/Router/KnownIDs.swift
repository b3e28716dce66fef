internal import NearshareBase

/// Which messages have come, so that each is dealt with once.
///
/// A flood of ids must not push others out (M7): when there is no room, what goes came from the neighbour who has brought most.
struct KnownIDs: Sendable {
    private struct Record {
        /// Seconds since 1970; enough until 2106, and half as large.
        var until: UInt32
        var isSpread: Bool
        /// Half as large as an optional.
        private let depositorOrZero: UInt64

        var depositor: EndpointID? { depositorOrZero == 0 ? nil : EndpointID(rawValue: depositorOrZero) }

        init(until: UInt32, isSpread: Bool, depositor: EndpointID?) {
            self.until = until
            self.isSpread = isSpread
            depositorOrZero = depositor?.rawValue ?? 0
        }
    }

    private var records: [BundleID: Record] = [:]
    private var counts: [EndpointID?: Int] = [:]
    private let capacity: Int
    /// Those that go to everybody, and so stand in summaries; the oldest first.
    private(set) var spread: [BundleID] = []
    /// Changes whenever ``spread`` does.
    private(set) var generation = 0

    init(capacity: Int) {
        self.capacity = capacity
    }

    var count: Int { records.count }
    var byteCount: Int {
        records.capacity * (MemoryLayout<BundleID>.stride + MemoryLayout<Record>.stride)
            + spread.capacity * MemoryLayout<BundleID>.stride
    }

    func contains(_ id: BundleID) -> Bool { records[id] != nil }

    /// - Parameter isNeeded: those that must stay, because they are being carried.
    mutating func insert(_ id: BundleID, until: WallTime, from depositor: EndpointID?, isNeeded: (BundleID) -> Bool) {
        guard records[id] == nil else { return }
        if records.count >= capacity { makeRoom(isNeeded) }
        records[id] = Record(
            until: UInt32(clamping: until.milliseconds / 1_000 + 1), isSpread: false, depositor: depositor)
        counts[depositor, default: 0] += 1
    }

    mutating func markSpread(_ id: BundleID) {
        guard records[id]?.isSpread == false else { return }
        records[id]!.isSpread = true
        spread.append(id)
        generation += 1
    }

    /// Forgets sooner what does not stand in summaries.
    mutating func shorten(_ id: BundleID, to until: WallTime) {
        guard let record = records[id], !record.isSpread else { return }
        records[id]!.until = min(record.until, UInt32(clamping: until.milliseconds / 1_000))
    }

    /// Forgotten, so that it may come again.
    mutating func remove(_ id: BundleID) {
        guard let record = records.removeValue(forKey: id) else { return }
        counts[record.depositor]! -= 1
        if counts[record.depositor] == 0 { counts[record.depositor] = nil }
        guard record.isSpread else { return }
        spread.removeAll { $0 == id }
        generation += 1
    }

    mutating func expire(now: WallTime) {
        let seconds = UInt32(clamping: now.milliseconds / 1_000)
        guard records.values.contains(where: { $0.until <= seconds }) else { return }
        for (id, record) in records where record.until <= seconds { remove(id) }
        records.shrink()
    }

    private mutating func makeRoom(_ isNeeded: (BundleID) -> Bool) {
        for (depositor, _) in counts.sorted(by: { $0.value > $1.value }) {
            let candidates = records.filter { $0.value.depositor == depositor && !isNeeded($0.key) }
            guard let oldest = candidates.min(by: { $0.value.until < $1.value.until })?.key else { continue }
            return remove(oldest)
        }
    }
}

extension Dictionary {
    /// A table gives back the memory that a flood took only when it is made anew; a filter that keeps everything keeps the table too.
    mutating func shrink() {
        guard capacity > 4 * Swift.max(16, count) else { return }
        var small: Self = [:]
        small.reserveCapacity(count)
        for (key, value) in self { small[key] = value }
        self = small
    }
}
