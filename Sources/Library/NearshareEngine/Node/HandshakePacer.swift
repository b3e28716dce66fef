internal import NearshareBase
internal import NearshareInterfaces

/// Decides when direct links begin their handshakes (R9). A link of an address over its rate waits for the links before it: an
/// address whose links fail, and are closed at once, keeps none waiting that stays open.
struct HandshakePacer: Sendable {
    private var limiter = HandshakeRateLimiter()
    private var waiting = WaitingLinks()

    /// Whether a link of this host that is no direct one may be read.
    mutating func allows(_ host: String, now: MonotonicInstant) -> Bool { limiter.allows(host, now: now) }

    /// Whether a link that waits for none may begin its handshake: one of a member of a session.
    mutating func begin(_ host: String, now: MonotonicInstant) -> Bool { limiter.begin(host, now: now) }

    /// Decides about a new direct link.
    /// - Parameter isOpen: whether the peer has not closed it.
    mutating func admit(
        _ address: LinkAddress, isOpen: @escaping @Sendable () -> Bool, now: MonotonicInstant
    ) -> WaitingLinks.Step {
        guard isOpen() else { return .close }
        if !waiting.hasLinks(in: address.host), limiter.begin(address.host, now: now) { return .serve }
        return waiting.insert(address, queue: address.host, isOpen: isOpen, now: now)
    }

    /// Decides about a link that has waited.
    /// - Parameter number: that of its ``WaitingLinks/Step/wait(_:)``.
    mutating func admit(waited number: UInt64, now: MonotonicInstant) -> WaitingLinks.Step {
        guard waiting.isOpen(number) else { return .close }
        if let address = waiting.addressOfFirst(number), limiter.begin(address.host, now: now) {
            waiting.remove(number)
            return .serve
        }
        return waiting.waitOn(number, now: now)
    }

    /// Removes a link that waits no longer.
    mutating func remove(_ number: UInt64) { waiting.remove(number) }

    /// Records that a handshake has proven a key.
    mutating func recordSuccess(of host: String) { limiter.refund(host) }

    /// Records that a handshake has ended without a proven key.
    /// - Parameter isCharged: whether the rate of the address was charged when the handshake began.
    mutating func recordFailure(of host: String, isCharged: Bool, now: MonotonicInstant) {
        limiter.recordFailure(of: host, isCharged: isCharged, now: now)
    }
}
