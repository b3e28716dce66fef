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
///     served ──a link gives way, none of the source waits──────────────────────► in the mesh
///        └─otherwise─► waits ──► the oldest of its source, and a link gives way ──► in the mesh
///                        └─► closed after ``maximumSlotWaitTime``
///
/// A host that opens links and closes them at once has none of them served beyond the rate. A newcomer at the same address that keeps
/// its link open is served before links that were opened later: of the links of one address that wait, the oldest comes first. The
/// first link of an address has a rate of its own, which up to 31 other addresses leave open, however many links they open.
struct MeshLinkPacer: Sendable {
    /// Links of an address within ``period`` that are served at once; as many again that have waited.
    static let openingsPerAddress = 32
    /// Links of all addresses within ``period`` that are served at once; as many again that have waited.
    static let openings = 128
    /// Links of all addresses within ``period`` that are the first of their address, besides ``openings``.
    static let firstOpenings = 32
    static let period = Duration.seconds(2)

    private var first = SourceRateLimiter(atMost: 1, ofAll: Self.firstOpenings, within: Self.period)
    private var opened = SourceRateLimiter(
        atMost: Self.openingsPerAddress - 1, ofAll: Self.openings, within: Self.period)
    private var waited = SourceRateLimiter(atMost: Self.openingsPerAddress, ofAll: Self.openings, within: Self.period)
    private var waiting = WaitingLinks()
    private var waitingForSlot = WaitingLinks()

    /// Decides about a new link.
    /// - Parameter isOpen: whether the peer has not closed it; asked only beyond the rate.
    mutating func admit(
        _ address: LinkAddress, isOpen: @escaping @Sendable () -> Bool, now: MonotonicInstant
    ) -> WaitingLinks.Step {
        if first.admit(address, now: now) || opened.admit(address, now: now) { return .serve }
        guard isOpen() else { return .close }
        return waiting.insert(address, queue: address.limitKey, isOpen: isOpen, now: now)
    }

    /// Decides about a link that has waited for the rate.
    /// - Parameter number: that of its ``WaitingLinks/Step/wait(_:)``.
    mutating func admit(waited number: UInt64, now: MonotonicInstant) -> WaitingLinks.Step {
        guard waiting.isOpen(number) else { return .close }
        if let address = waiting.addressOfFirst(number), waited.admit(address, now: now) {
            remove(number)
            return .serve
        }
        return waiting.waitOn(number, now: now)
    }

    /// Removes a link that waits no longer for the rate.
    mutating func remove(_ number: UInt64) { waiting.remove(number) }

    // MARK: Slots

    /// Links of a source that wait for a slot, besides those that wait for the rate.
    static let slotQueueCapacity = 32
    /// The longest wait for a slot: longer than sixteen programs at one address take to pass by, with a new key for each link, of
    /// which four or five wait and one is served in ``MeshMachine/displacementPause``.
    static let maximumSlotWaitTime = Duration.seconds(15)

    /// Whether links of the same source wait for a slot, so that a new one has to wait behind them.
    mutating func hasLinksAwaitingSlot(from address: LinkAddress) -> Bool {
        waitingForSlot.hasLinks(in: address.sourceName)
    }

    /// Makes a link wait until another one gives way, behind those of its source that were opened before it. If it were closed
    /// instead, a slot that becomes free would go to the link that happens to be opened next, of the source that opens most.
    mutating func awaitSlot(
        _ address: LinkAddress, isOpen: @escaping @Sendable () -> Bool, now: MonotonicInstant
    ) -> WaitingLinks.Step {
        let queue = address.sourceName
        guard isOpen(), waitingForSlot.count(in: queue) < Self.slotQueueCapacity else { return .close }
        return waitingForSlot.insert(address, queue: queue, isOpen: isOpen, now: now)
    }

    /// Whether a link that waits for a slot is the next one of its source.
    mutating func isNext(_ number: UInt64) -> Bool { waitingForSlot.addressOfFirst(number) != nil }

    /// Decides about a link that waits for a slot and has got none: it waits on, until ``maximumSlotWaitTime``.
    mutating func awaitSlotLonger(_ number: UInt64, now: MonotonicInstant) -> WaitingLinks.Step {
        waitingForSlot.isOpen(number)
            ? waitingForSlot.waitOn(number, atMost: Self.maximumSlotWaitTime, now: now) : .close
    }

    /// Removes a link that waits no longer for a slot.
    mutating func removeAwaitingSlot(_ number: UInt64) { waitingForSlot.remove(number) }
}
