/// Incoming links whose first bytes are awaited. They have limits of their own: the links of one kind that an address holds keep none
/// of another kind from being told apart (R3). Where there are too many, the oldest gives way, which has had most time.
struct UnreadLinks: Sendable {
    private struct Link: Sendable {
        let source: LinkSource
        let end: @Sendable () -> Void
    }

    /// Links of one source. Peers send their first bytes as soon as they are connected.
    static let maximumCountPerSource = 16
    static let maximumCount = 64
    /// Time for the first bytes: more than two lost packets take.
    static let timeout = Duration.seconds(5)

    private var links: [UInt64: Link] = [:]
    private var lastNumber: UInt64 = 0

    var count: Int { links.count }

    /// Adds a link.
    /// - Parameter end: closes it.
    /// - Returns: the number of the link, and what closes the one that gives way; to be called without a lock.
    mutating func insert(
        _ source: LinkSource, end: @escaping @Sendable () -> Void
    ) -> (number: UInt64, end: (@Sendable () -> Void)?) {
        let isFromFullSource = links.values.count { $0.source == source } >= Self.maximumCountPerSource
        var displaced: Link?
        if isFromFullSource || links.count >= Self.maximumCount {
            let counts = Dictionary(grouping: links.values, by: \.source).mapValues(\.count)
            let oldest = links.filter { !isFromFullSource || $0.value.source == source }.max { first, second in
                let (firstCount, secondCount) = (
                    counts[first.value.source, default: 0], counts[second.value.source, default: 0]
                )
                return (firstCount, second.key) < (secondCount, first.key)
            }
            displaced = oldest.flatMap { links.removeValue(forKey: $0.key) }
        }
        lastNumber += 1
        links[lastNumber] = Link(source: source, end: end)
        return (lastNumber, displaced?.end)
    }

    /// Removes a link whose first bytes are read, or that has ended. No effect on one that gave way.
    mutating func remove(_ number: UInt64) { links[number] = nil }
}
