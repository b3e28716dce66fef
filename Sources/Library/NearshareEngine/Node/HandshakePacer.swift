internal import NearshareBase
internal import NearshareInterfaces

/// Decides when direct links, and those of LocalSend devices, begin their handshakes (R9). There are two rates: a strict one for the
/// handshakes of an address that prove no key, and a wide one, also for all addresses together, for those that prove no known key.
///
/// A link beyond a rate waits. Of an address whose links fail, it waits for those before it: an address whose links are closed at once
/// keeps none waiting that stays open. Otherwise addresses take turns: the first link of each comes before the second of any other, and
/// an address without a handshake lately before all others, whatever they open.
struct HandshakePacer: Sendable {
    private var failures = HandshakeRateLimiter()
    private var unknownKeys = UnknownKeyRateLimiter()
    private var waiting = WaitingLinks()

    /// Whether links of a host may be read: not where too many of its handshakes fail.
    mutating func allows(_ host: String, now: MonotonicInstant) -> Bool { failures.allows(host, now: now) }

    /// Whether a link that waits for none may begin its handshake: one of a member of a session.
    mutating func begin(_ host: String, now: MonotonicInstant) -> Bool { failures.begin(host, now: now) }

    /// Decides about a new link.
    /// - Parameter isOpen: whether the peer has not closed it.
    mutating func admit(
        _ address: LinkAddress, isOpen: @escaping @Sendable () -> Bool, now: MonotonicInstant
    ) -> WaitingLinks.Step {
        guard isOpen() else { return .close }
        let step = waiting.insert(
            address, queue: address.host, latestTurns: unknownKeys.latestBegins, isOpen: isOpen, now: now)
        guard case .wait(let number) = step, begin(waiting: number, now: now) else { return step }
        return .serve
    }

    /// Decides about a link that has waited.
    /// - Parameter number: that of its ``WaitingLinks/Step/wait(_:)``.
    mutating func admit(waited number: UInt64, now: MonotonicInstant) -> WaitingLinks.Step {
        guard waiting.isOpen(number) else { return .close }
        return begin(waiting: number, now: now) ? .serve : waiting.waitOn(number, now: now)
    }

    /// Whether a link that waits may begin its handshake; then it waits no longer.
    private mutating func begin(waiting number: UInt64, now: MonotonicInstant) -> Bool {
        // The turns of all links are looked at only where one of them can begin.
        guard let host = waiting.host(of: number), unknownKeys.hasBalance(for: host, now: now),
            let before = waiting.linksBefore(number, latestTurns: unknownKeys.latestBegins)
        else { return false }
        guard failures.allows(host, now: now), !failures.isLimited(host) || waiting.addressOfFirst(number) != nil,
            unknownKeys.begin(host, behind: before, now: now)
        else { return false }
        _ = failures.begin(host, now: now)
        waiting.remove(number)
        return true
    }

    /// Removes a link that waits no longer.
    mutating func remove(_ number: UInt64) { waiting.remove(number) }

    /// Records that a handshake has proven a key.
    /// - Parameter isKnown: whether it is the key of a friend, of a verified peer or of a member of a session.
    mutating func recordSuccess(of host: String, isKnown: Bool) {
        failures.refund(host)
        if isKnown { unknownKeys.refund(host) }
    }

    /// Records that a handshake has ended without a proven key.
    /// - Parameter isCharged: whether the rate of the address was charged when the handshake began.
    mutating func recordFailure(of host: String, isCharged: Bool, now: MonotonicInstant) {
        failures.recordFailure(of: host, isCharged: isCharged, now: now)
    }
}
