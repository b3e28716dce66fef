/// The links beyond the limits that are told so. Each costs a handshake: others are closed.
struct RefusedLinks: Sendable {
    static let maximumCount = 4
    /// An address that fills its own slots leaves room to tell others.
    static let maximumCountPerSource = 2

    private var counts: [LinkSource: Int] = [:]

    var count: Int { counts.values.reduce(0, +) }

    /// - Returns: false when too many are told already.
    mutating func begin(_ source: LinkSource) -> Bool {
        guard count < Self.maximumCount, counts[source, default: 0] < Self.maximumCountPerSource else { return false }
        counts[source, default: 0] += 1
        return true
    }

    mutating func end(_ source: LinkSource) {
        let count = counts[source, default: 0] - 1
        counts[source] = count > 0 ? count : nil
    }
}
