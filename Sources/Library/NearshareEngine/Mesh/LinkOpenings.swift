internal import NearshareBase

/// The links that each address has opened of late.
struct LinkOpenings: Sendable {
    private var recent: [(address: String, time: MonotonicInstant)] = []

    mutating func record(_ address: String, now: MonotonicInstant) {
        recent.removeAll { now - $0.time >= Self.period }
        if recent.count >= Self.capacity { recent.removeFirst(recent.count - Self.capacity + 1) }
        recent.append((address, now))
    }

    /// The number of links that each address has opened within ``period``, or still holds.
    /// - Parameter open: the address of each open link.
    func counts(including open: [String], now: MonotonicInstant) -> [String: Int] {
        let opened = Dictionary(grouping: recent.filter { now - $0.time < Self.period }, by: \.address).mapValues(\.count)
        let held = Dictionary(grouping: open) { $0 }.mapValues(\.count)
        return opened.merging(held, uniquingKeysWith: max)
    }

    private static let period = Duration.seconds(60)
    /// Openings that are remembered: beyond this rate, addresses with many still have more than one with a single link.
    private static let capacity = 512
}
