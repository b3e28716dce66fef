internal import NearshareBase
internal import NearshareInterfaces

/// The subscribers to peers that are found over Bluetooth.
struct BrowserTable {
    private struct Browser {
        let continuation: AsyncThrowingStream<DiscoveryEvent, any Error>.Continuation
        /// When ``DiscoveryEvent/settled`` is due; nil once it was sent.
        var settlesAt: MonotonicInstant?
    }

    private var browsers: [UInt64: Browser] = [:]
    private var lastID: UInt64 = 0

    /// Time in which the devices in range have advertised.
    private static let settlingTime = Duration.seconds(3)

    var isEmpty: Bool { browsers.isEmpty }

    var nextDeadline: MonotonicInstant? { browsers.values.compactMap(\.settlesAt).min() }

    /// - Parameter sightings: the peers that are known already.
    mutating func add(
        _ continuation: AsyncThrowingStream<DiscoveryEvent, any Error>.Continuation, sightings: [ServiceSighting],
        at now: MonotonicInstant
    ) -> UInt64 {
        lastID += 1
        browsers[lastID] = Browser(continuation: continuation, settlesAt: now + Self.settlingTime)
        for sighting in sightings { continuation.yield(.seen(sighting)) }
        return lastID
    }

    mutating func remove(_ id: UInt64) { browsers[id] = nil }

    func emit(_ event: DiscoveryEvent) {
        for browser in browsers.values { browser.continuation.yield(event) }
    }

    mutating func tick(at now: MonotonicInstant) {
        for (id, browser) in browsers {
            guard let settlesAt = browser.settlesAt, now >= settlesAt else { continue }
            browsers[id]?.settlesAt = nil
            browser.continuation.yield(.settled)
        }
    }

    /// Ends all subscriptions.
    mutating func finish(throwing error: DiscoveryError? = nil) {
        for browser in browsers.values { browser.continuation.finish(throwing: error) }
        browsers = [:]
    }
}
