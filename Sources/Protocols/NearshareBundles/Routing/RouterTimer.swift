internal import NearshareBase

/// A deadline of the router or of one of its parts.
enum RouterTimer: Sendable, Hashable {
    /// The root increments the epoch; other nodes check that it did.
    case epochEnd
    /// Neighbours had time to report; one of them becomes the parent.
    case parentSelection
    /// The parent gets the merged reachability filter.
    case reachabilityReport
    /// Expired bundles and stale entries are removed.
    case sweep
    /// Retry of bundles that no neighbour could accept.
    case waitingRetry
    /// The acknowledgement of a forwarded bundle is overdue.
    case acknowledgementTimeout(BundleID)
    /// A neighbour has not confirmed a copy, after this number of attempts.
    case retransmission(BundleID, to: EndpointID, after: UInt8)
    /// A neighbour that has confirmed no copy of a bundle is tried again.
    case resend(BundleID, to: EndpointID)
    /// Collected receipts are sent to a neighbour.
    case receipts(to: EndpointID)
    /// A neighbour has not confirmed a report.
    case reportRetransmission(to: EndpointID, token: UInt64)
    /// The next part of a paced queue goes to a neighbour.
    case pacing(EndpointID)
}

/// A delay that is multiplied by a random factor, so that nodes that have seen the same event do not act at the same moment.
/// The router draws the factor, which keeps its parts deterministic.
struct JitteredDelay: Sendable, Hashable {
    private let base: Duration
    private let factors: ClosedRange<Double>?
    private let earliest: MonotonicInstant?

    init(_ base: Duration, by factors: ClosedRange<Double>? = nil, notBefore earliest: MonotonicInstant? = nil) {
        self.base = base
        self.factors = factors
        self.earliest = earliest
    }

    func end(from now: MonotonicInstant, using random: inout some RandomNumberGenerator) -> MonotonicInstant {
        let delay = factors.map { base * Double.random(in: $0, using: &random) } ?? base
        return max(now + delay, earliest ?? now)
    }
}

/// An action that a part requests from the router, in this order.
enum RouterEffect: Sendable {
    case start(RouterTimer, JitteredDelay)
    case react(BundleReaction)
}
