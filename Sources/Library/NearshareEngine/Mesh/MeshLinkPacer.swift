internal import NearshareBase
internal import NearshareInterfaces

/// The rate at which links that peers open to the mesh are served: each costs two threads, and a key that the router has not seen
/// costs it signatures (R3).
///
///     opened ──within the rate──────────────────────────────────────────────► served
///        └─beyond─► still open ──► waits ──► still open, within the rate ──► served
///                        └────────────┴───────────────► closed
///
/// A host that opens links and closes them at once has none of them served beyond the rate. A newcomer at the same address keeps its
/// link open, and is served after the wait: the links that were closed have used up nothing of the second rate.
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
        let isOpen: @Sendable () -> Bool
    }

    /// The time for which a link beyond the rate is set aside.
    static let waitTime = Duration.milliseconds(250)
    /// Links of an address within ``period``.
    static let openingsPerAddress = 32
    /// Links of all addresses within ``period``.
    static let openings = 128
    static let period = Duration.seconds(2)
    /// Limits on links that wait.
    static let waitingPerAddress = 64
    static let waiting = 256

    private var opened = SourceRateLimiter(atMost: Self.openingsPerAddress, ofAll: Self.openings, within: Self.period)
    private var waited = SourceRateLimiter(atMost: Self.openingsPerAddress, ofAll: Self.openings, within: Self.period)
    private var waiting: [UInt64: Waiting] = [:]
    private var lastNumber: UInt64 = 0

    /// Decides about a new link.
    /// - Parameter isOpen: whether the peer has not closed it; asked only beyond the rate.
    mutating func admit(
        _ address: LinkAddress, isOpen: @escaping @Sendable () -> Bool, now: MonotonicInstant
    ) -> Step {
        if opened.admit(address, now: now) { return .serve }
        guard isOpen() else { return .close }
        if !hasRoom(for: address) {
            // Links that were closed meanwhile take no room from one that is open.
            waiting = waiting.filter { $0.value.isOpen() }
            guard hasRoom(for: address) else { return .close }
        }
        lastNumber += 1
        waiting[lastNumber] = Waiting(address: address, isOpen: isOpen)
        return .wait(lastNumber)
    }

    private func hasRoom(for address: LinkAddress) -> Bool {
        waiting.count < Self.waiting
            && waiting.values.count { $0.address.limitKey == address.limitKey } < Self.waitingPerAddress
    }

    /// Decides about a link that has waited.
    /// - Parameter number: that of its ``Step/wait(_:)``.
    mutating func admit(waited number: UInt64, now: MonotonicInstant) -> Bool {
        guard let link = waiting.removeValue(forKey: number), link.isOpen() else { return false }
        return waited.admit(link.address, now: now)
    }
}
