internal import NearshareBase

/// The links that each source has opened of late: an address, or a neighbour with a proven key.
struct LinkOpenings<Source: Hashable & Sendable>: Sendable {
    private var recent: [(source: Source, time: MonotonicInstant)] = []

    mutating func record(_ source: Source, now: MonotonicInstant) {
        recent.removeAll { now - $0.time >= Self.period }
        if recent.count(where: { $0.source == source }) >= Self.capacityPerSource,
            let oldest = recent.firstIndex(where: { $0.source == source })
        {
            recent.remove(at: oldest)
        }
        if recent.count >= Self.capacity { recent.removeFirst(recent.count - Self.capacity + 1) }
        recent.append((source, now))
    }

    /// The number of links that each source has opened within ``period``, or still holds.
    /// - Parameter open: the source of each open link.
    func counts(including open: [Source] = [], now: MonotonicInstant) -> [Source: Int] {
        let opened = Dictionary(grouping: recent.filter { now - $0.time < Self.period }, by: \.source).mapValues(\.count)
        let held = Dictionary(grouping: open) { $0 }.mapValues(\.count)
        return opened.merging(held, uniquingKeysWith: max)
    }

    private static var period: Duration { .seconds(60) }
    /// Openings of one source that are remembered, so that it displaces no other.
    private static var capacityPerSource: Int { 16 }
    /// Openings that are remembered in all: beyond this rate, sources with many still have more than one with a single link.
    private static var capacity: Int { 512 }
}
