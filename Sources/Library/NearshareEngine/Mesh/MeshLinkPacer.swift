internal import NearshareBase
internal import NearshareInterfaces

/// The rate at which links that peers open to the mesh are served: each costs two threads, and a key that the router has not seen
/// costs it signatures (R3).
///
///     opened ──within the rate─────────────────────────────────────────────────────────► served
///        └─beyond─► still open ──► waits ──► the oldest still open, within the rate ──► served
///                        │           └─────► again
///                        └────────────┴─► closed
///
/// A host that opens links and closes them at once has none of them served beyond the rate. A newcomer at the same address keeps its
/// link open, and is served before those that are held for less: of the links of one address that wait, the oldest comes first. An
/// address that opened none before has a rate of its own, which no number of links of some other addresses uses up.
struct MeshLinkPacer: Sendable {
    enum Step: Sendable, Hashable {
        case serve
        /// ``MeshLinkPacer/admit(waited:now:)`` decides after ``MeshLinkPacer/waitTime``.
        case wait(UInt64)
        case close
    }

    /// A link that waits.
    private struct Waiting: Sendable {
        let address: LinkAddress
        let limitKey: String
        let opened: MonotonicInstant
        let isOpen: @Sendable () -> Bool
    }

    /// The time for which a link beyond the rate is set aside, and between further decisions about it.
    static let waitTime = Duration.milliseconds(250)
    /// The longest wait: all links of an address that wait are served within it.
    static let maximumWaitTime = Duration.seconds(5)
    /// Links of an address within ``period``.
    static let openingsPerAddress = 32
    /// Links of all addresses within ``period``.
    static let openings = 128
    /// Links of all addresses within ``period`` that are the first of their address, besides ``openings``.
    static let firstOpenings = 32
    static let period = Duration.seconds(2)
    /// Limits on links that wait.
    static let waitingPerAddress = 64
    static let waiting = 256

    private var first = SourceRateLimiter(atMost: 1, ofAll: Self.firstOpenings, within: Self.period)
    private var opened = SourceRateLimiter(
        atMost: Self.openingsPerAddress - 1, ofAll: Self.openings, within: Self.period)
    private var waited = SourceRateLimiter(atMost: Self.openingsPerAddress, ofAll: Self.openings, within: Self.period)
    private var waiting: [UInt64: Waiting] = [:]
    private var lastNumber: UInt64 = 0

    /// Decides about a new link.
    /// - Parameter isOpen: whether the peer has not closed it; asked only beyond the rate.
    mutating func admit(
        _ address: LinkAddress, isOpen: @escaping @Sendable () -> Bool, now: MonotonicInstant
    ) -> Step {
        if first.admit(address, now: now) || opened.admit(address, now: now) { return .serve }
        guard isOpen() else { return .close }
        let limitKey = address.limitKey
        if !hasRoom(for: limitKey) {
            // Links that were closed meanwhile take no room from one that is open.
            waiting = waiting.filter { $0.value.isOpen() }
            guard hasRoom(for: limitKey) else { return .close }
        }
        lastNumber += 1
        waiting[lastNumber] = Waiting(address: address, limitKey: limitKey, opened: now, isOpen: isOpen)
        return .wait(lastNumber)
    }

    private func hasRoom(for limitKey: String) -> Bool {
        waiting.count < Self.waiting && waiting.values.count { $0.limitKey == limitKey } < Self.waitingPerAddress
    }

    /// Decides about a link that has waited.
    /// - Parameter number: that of its ``Step/wait(_:)``.
    mutating func admit(waited number: UInt64, now: MonotonicInstant) -> Step {
        guard let link = waiting[number], link.isOpen() else {
            remove(number)
            return .close
        }
        if isOldest(number, of: link.limitKey), waited.admit(link.address, now: now) {
            remove(number)
            return .serve
        }
        guard now - link.opened < Self.maximumWaitTime else {
            remove(number)
            return .close
        }
        return .wait(number)
    }

    /// Removes a link that waits no longer.
    mutating func remove(_ number: UInt64) { waiting[number] = nil }

    /// Whether all older links of the same address that wait were closed by their peer. These are removed.
    private mutating func isOldest(_ number: UInt64, of limitKey: String) -> Bool {
        for older in waiting.keys.sorted() where older < number && waiting[older]?.limitKey == limitKey {
            guard waiting[older]?.isOpen() == false else { return false }
            remove(older)
        }
        return true
    }
}
