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
    /// The numbers of the links of each source, the oldest first.
    private var numbers: [LinkSource: [UInt64]] = [:]
    private var lastNumber: UInt64 = 0

    var count: Int { links.count }

    /// Adds a link.
    /// - Parameter end: closes it.
    /// - Returns: the number of the link, and what closes the one that gives way; to be called without a lock.
    mutating func insert(
        _ source: LinkSource, end: @escaping @Sendable () -> Void
    ) -> (number: UInt64, end: (@Sendable () -> Void)?) {
        var displaced: Link?
        if let own = numbers[source], own.count >= Self.maximumCountPerSource {
            displaced = own.first.flatMap { removeLink($0) }
        } else if links.count >= Self.maximumCount {
            displaced = oldestOfLargestSource.flatMap { removeLink($0) }
        }
        lastNumber += 1
        links[lastNumber] = Link(source: source, end: end)
        numbers[source, default: []].append(lastNumber)
        return (lastNumber, displaced?.end)
    }

    /// The oldest link of the source that has most; of several such sources, the oldest of all.
    private var oldestOfLargestSource: UInt64? {
        var largest: (count: Int, oldest: UInt64)?
        for ofSource in numbers.values {
            guard let oldest = ofSource.first else { continue }
            if let found = largest, (found.count, oldest) > (ofSource.count, found.oldest) { continue }
            largest = (ofSource.count, oldest)
        }
        return largest?.oldest
    }

    /// Removes a link whose first bytes are read, or that has ended. No effect on one that gave way.
    mutating func remove(_ number: UInt64) { _ = removeLink(number) }

    private mutating func removeLink(_ number: UInt64) -> Link? {
        guard let link = links.removeValue(forKey: number) else { return nil }
        numbers[link.source]?.removeAll { $0 == number }
        if numbers[link.source]?.isEmpty == true { numbers[link.source] = nil }
        return link
    }
}
