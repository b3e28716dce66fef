/// A sliding window for replay protection (RFC 6479): the counters received among the latest 1024 (K11).
struct ReplayWindow: Sendable, Hashable {
    static let size: UInt32 = 1024
    /// A ring: bit n belongs to every counter that is n modulo ``size``, of which one lies within the window.
    private var bits = [UInt64](repeating: 0, count: Int(size) / 64)
    private var newest: UInt32?

    /// Whether the counter is new: neither recorded nor older than the window.
    func allows(_ counter: UInt32) -> Bool {
        guard let newest, counter <= newest else { return true }
        return newest - counter < Self.size && !isRecorded(counter)
    }

    /// Records a counter. To be called only after its message has been authenticated.
    mutating func record(_ counter: UInt32) {
        if let newest, counter > newest {
            let steps = min(counter - newest, Self.size)
            // The bits of the skipped counters still belong to counters that have left the window.
            for step in 0..<steps { clear(counter - step) }
        }
        newest = max(newest ?? counter, counter)
        bits[Int(counter % Self.size) / 64] |= 1 << UInt64(counter % 64)
    }

    /// The fraction of the counters up to the newest that are not recorded, as far back as the window reaches: 0 to 1; nil before
    /// the first one.
    var missingFraction: Double? {
        guard let newest else { return nil }
        let expected = min(Int(newest) + 1, Int(Self.size))
        let recorded = bits.reduce(0) { $0 + $1.nonzeroBitCount }
        return Double(expected - recorded) / Double(expected)
    }

    private func isRecorded(_ counter: UInt32) -> Bool {
        bits[Int(counter % Self.size) / 64] & (1 << UInt64(counter % 64)) != 0
    }

    private mutating func clear(_ counter: UInt32) {
        bits[Int(counter % Self.size) / 64] &= ~(1 << UInt64(counter % 64))
    }
}
