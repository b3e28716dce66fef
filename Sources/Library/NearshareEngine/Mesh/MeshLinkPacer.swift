internal import NearshareBase
internal import NearshareInterfaces

/// The rate at which links that peers open to the mesh are served: each costs two threads, and a key that the router has not seen
/// costs it signatures (F11).
///
///     opened ──within the rate──────────────────────────────────────────────► served
///        └─beyond─► still open ──► waits ──► still open, within the rate ──► served
///                        └────────────┴───────────────► closed
///
/// A host that opens links and closes them at once has none of them served beyond the rate. A newcomer at the same address keeps its
/// link open, and is served after the wait: the links that were closed have used up nothing of the second rate.
struct MeshLinkPacer: Sendable {
    enum Step: Sendable {
        case serve
        /// To be asked for by ``admitWaited(_:now:)`` after ``MeshLinkPacer/wait``, if the peer has not closed it by then.
        case wait
        case close
    }

    /// The time for which a link beyond the rate is set aside.
    static let wait = Duration.milliseconds(250)
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
    private var waitingCounts: [String: Int] = [:]

    /// Decides about a new link.
    /// - Parameter isOpen: whether the peer has not closed it; asked only beyond the rate.
    mutating func admit(_ address: LinkAddress, isOpen: () -> Bool, now: MonotonicInstant) -> Step {
        if opened.admit(address, now: now) { return .serve }
        let count = waitingCounts[address.limitKey, default: 0]
        guard count < Self.waitingPerAddress, waitingCounts.values.reduce(0, +) < Self.waiting, isOpen() else { return .close }
        waitingCounts[address.limitKey] = count + 1
        return .wait
    }

    /// Decides about a link that has waited.
    mutating func admitWaited(_ address: LinkAddress, isOpen: Bool, now: MonotonicInstant) -> Bool {
        let count = waitingCounts[address.limitKey, default: 0]
        waitingCounts[address.limitKey] = count > 1 ? count - 1 : nil
        return isOpen && waited.admit(address, now: now)
    }
}
