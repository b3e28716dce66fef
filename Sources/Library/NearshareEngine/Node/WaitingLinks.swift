internal import NearshareBase
internal import NearshareInterfaces

/// Links that wait until a rate permits to serve them, or until a slot is free, in the order in which they were opened.
struct WaitingLinks: Sendable {
    enum Step: Sendable, Hashable {
        case serve
        /// The next decision comes after ``WaitingLinks/waitTime``.
        case wait(UInt64)
        case close
    }

    private struct Link: Sendable {
        let address: LinkAddress
        let limitKey: String
        /// The links with the same one are served in their order.
        let queue: String
        let opened: MonotonicInstant
        let isOpen: @Sendable () -> Bool
    }

    /// The links whose turns come before that of a link.
    struct LinksBefore: Sendable {
        let inQueue: Int
        let inAll: Int
    }

    /// A link's turn among all that wait, where their queues take turns: the first links of all queues come before the second ones, and
    /// of these the one whose queue had its latest turn longest ago.
    private struct Turn: Comparable {
        /// The number of links before it in its queue.
        let place: Int
        /// When its queue had its latest turn; nil for a queue without one, which comes first.
        let latest: MonotonicInstant?
        let number: UInt64

        static func < (one: Self, other: Self) -> Bool {
            if one.place != other.place { return one.place < other.place }
            guard one.latest != other.latest else { return one.number < other.number }
            guard let first = one.latest else { return true }
            guard let second = other.latest else { return false }
            return first < second
        }
    }

    /// The time between two decisions about a link.
    static let waitTime = Duration.milliseconds(250)
    /// The longest wait.
    static let maximumWaitTime = Duration.seconds(5)
    /// Limits on links that wait.
    static let maximumCountPerAddress = 64
    static let maximumCount = 256

    private var links: [UInt64: Link] = [:]
    /// The numbers of the links of each queue, the oldest first.
    private var queues: [String: [UInt64]] = [:]
    /// The number of links of each ``Link/limitKey``.
    private var addressCounts: [String: Int] = [:]
    private var lastNumber: UInt64 = 0
    /// When closed links were removed to make room for one that may displace another.
    private var lastRemoval: MonotonicInstant?

    /// Adds a link, unless there is no room for it.
    /// - Parameter isOpen: whether the peer has not closed it.
    mutating func insert(
        _ address: LinkAddress, queue: String, isOpen: @escaping @Sendable () -> Bool, now: MonotonicInstant
    ) -> Step {
        // Links that were closed meanwhile take no room from one that is open.
        if !hasRoom(for: address.limitKey) { removeClosed() }
        guard hasRoom(for: address.limitKey) else { return .close }
        return .wait(add(address, queue: queue, isOpen: isOpen, now: now))
    }

    /// Adds a link. Where there is no room for it, the link whose turn comes last gives way, unless that is the new one.
    ///
    /// A flood of links is refused here thousands of times a second, with the node's lock held. So closed links are removed only once
    /// in ``waitTime``: the question is a system call for each.
    /// - Parameters:
    ///   - latestTurns: when the queues had their latest turns.
    ///   - isOpen: whether the peer has not closed it.
    mutating func insert(
        _ address: LinkAddress, queue: String, latestTurns: [String: MonotonicInstant],
        isOpen: @escaping @Sendable () -> Bool, now: MonotonicInstant
    ) -> Step {
        let limitKey = address.limitKey
        if !hasRoom(for: limitKey), lastRemoval.map({ now - $0 >= Self.waitTime }) ?? true {
            lastRemoval = now
            removeClosed()
        }
        if !hasRoom(for: limitKey) {
            let isAddressFull = !hasRoomOfAddress(limitKey)
            let place = queues[queue]?.count ?? 0
            // All links that may give way come before it in its own queue.
            if isAddressFull, place == addressCounts[limitKey] { return .close }
            let turn = Turn(place: place, latest: latestTurns[queue], number: UInt64.max)
            guard let last = lastTurn(of: isAddressFull ? limitKey : nil, after: latestTurns), turn < last else {
                return .close
            }
            // Its next decision finds it removed, and closes it.
            remove(last.number)
        }
        return .wait(add(address, queue: queue, isOpen: isOpen, now: now))
    }

    /// - Returns: the number of the link.
    private mutating func add(
        _ address: LinkAddress, queue: String, isOpen: @escaping @Sendable () -> Bool, now: MonotonicInstant
    ) -> UInt64 {
        lastNumber += 1
        let link = Link(address: address, limitKey: address.limitKey, queue: queue, opened: now, isOpen: isOpen)
        links[lastNumber] = link
        queues[queue, default: []].append(lastNumber)
        addressCounts[link.limitKey, default: 0] += 1
        return lastNumber
    }

    private mutating func removeClosed() { for number in Array(links.keys) { _ = isOpen(number) } }

    private func hasRoom(for limitKey: String) -> Bool { links.count < Self.maximumCount && hasRoomOfAddress(limitKey) }

    private func hasRoomOfAddress(_ limitKey: String) -> Bool {
        addressCounts[limitKey, default: 0] < Self.maximumCountPerAddress
    }

    /// The host of a link; nil for one that does not wait.
    func host(of number: UInt64) -> String? { links[number]?.address.host }

    /// The links whose turns come before that of a link; nil for one that does not wait.
    func linksBefore(_ number: UInt64, latestTurns: [String: MonotonicInstant]) -> LinksBefore? {
        guard let link = links[number], let place = queues[link.queue]?.firstIndex(of: number) else { return nil }
        let own = Turn(place: place, latest: latestTurns[link.queue], number: number)
        var count = 0
        for (queue, numbers) in queues {
            count += min(place, numbers.count)
            guard numbers.count > place else { continue }
            if Turn(place: place, latest: latestTurns[queue], number: numbers[place]) < own { count += 1 }
        }
        return LinksBefore(inQueue: place, inAll: count)
    }

    /// The last of the turns of all links, or of those with a ``Link/limitKey``: that of the last link of a queue.
    private func lastTurn(of limitKey: String?, after latestTurns: [String: MonotonicInstant]) -> Turn? {
        queues.compactMap { queue, numbers -> Turn? in
            guard let number = numbers.last, limitKey == nil || links[number]?.limitKey == limitKey else { return nil }
            return Turn(place: numbers.count - 1, latest: latestTurns[queue], number: number)
        }.max()
    }

    /// Whether the peer has not closed a link. One that it has closed is removed.
    mutating func isOpen(_ number: UInt64) -> Bool {
        if links[number]?.isOpen() == true { return true }
        remove(number)
        return false
    }

    /// Whether an open link of this queue waits. Those before it that were closed are removed.
    mutating func hasLinks(in queue: String) -> Bool { first(in: queue) != nil }

    /// The links of a queue that were not closed.
    mutating func count(in queue: String) -> Int {
        for number in queues[queue] ?? [] { _ = isOpen(number) }
        return queues[queue]?.count ?? 0
    }

    /// - Returns: the address of a link that is the first of its queue; nil while an older one waits.
    mutating func addressOfFirst(_ number: UInt64) -> LinkAddress? {
        guard let link = links[number], first(in: link.queue) == number else { return nil }
        return link.address
    }

    private mutating func first(in queue: String) -> UInt64? {
        while let number = queues[queue]?.first { if isOpen(number) { return number } }
        return nil
    }

    /// Lets a link wait on, or removes it after `maximum`.
    mutating func waitOn(
        _ number: UInt64, atMost maximum: Duration = Self.maximumWaitTime, now: MonotonicInstant
    ) -> Step {
        if let link = links[number], now - link.opened < maximum { return .wait(number) }
        remove(number)
        return .close
    }

    /// Removes a link that waits no longer.
    mutating func remove(_ number: UInt64) {
        guard let link = links.removeValue(forKey: number) else { return }
        queues[link.queue]?.removeAll { $0 == number }
        if queues[link.queue]?.isEmpty == true { queues[link.queue] = nil }
        let count = addressCounts[link.limitKey, default: 1] - 1
        addressCounts[link.limitKey] = count > 0 ? count : nil
    }

    /// Waits for the end of a link's wait, with a decision each ``waitTime``.
    /// - Parameters:
    ///   - step: the first decision.
    ///   - stopping: ends the wait when it is fulfilled, as a cancelled task does.
    ///   - admit: decides about a link that has waited.
    ///   - remove: removes a link whose wait has ended without a decision.
    /// - Returns: whether the link is to be served; otherwise it is to be closed.
    static func awaitTurn(
        after step: Step, stopping: Promise<Void>, admit: (UInt64) -> Step, remove: (UInt64) -> Void
    ) async -> Bool {
        var step = step
        while case .wait(let number) = step {
            // Timed: nothing signals that the rate permits another link, or that another link may give way.
            if await stopping.isFulfilled(within: Self.waitTime) || Task.isCancelled {
                remove(number)
                return false
            }
            step = admit(number)
        }
        return step == .serve
    }
}
