internal import NearshareBase

/// The warnings about endpoints whose clocks are ahead: one for each, and few for many, because keys cost nothing (B8).
struct ClockWarnings: Sendable {
    /// The endpoints of the latest warnings, the oldest first.
    private var endpoints: [EndpointID] = []
    private var window = RateWindow()

    /// Limit on the endpoints that are remembered.
    static let capacity = 64
    /// Limit on the warnings within ``interval``.
    static let burst = 4
    static let interval = Duration.seconds(600)

    /// - Returns: false for an endpoint with a warning, and beyond the limit.
    mutating func admit(_ endpoint: EndpointID, now: MonotonicInstant) -> Bool {
        guard !endpoints.contains(endpoint), window.admit(atMost: Self.burst, within: Self.interval, now: now) else {
            return false
        }
        if endpoints.count == Self.capacity { endpoints.removeFirst() }
        endpoints.append(endpoint)
        return true
    }
}
