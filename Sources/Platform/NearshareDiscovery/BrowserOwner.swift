internal import NearshareInterfaces

/// A browser of services for one subscriber.
protocol ServiceBrowser: AnyObject {
    var sightings: SightingAggregator { get }

    /// Frees what serves it.
    func close()
}

/// The part of a discovery engine that holds its browsers, by the ids that it has given them.
protocol BrowserOwner: AnyObject {
    associatedtype Browser: ServiceBrowser

    var browsers: [UInt64: Browser] { get set }
}

extension BrowserOwner {
    /// Ends a browser.
    /// - Parameter error: ends the subscriber's sequence; nil when the subscriber has ended it.
    func end(_ id: UInt64, throwing error: DiscoveryError? = nil) {
        guard let browser = browsers.removeValue(forKey: id) else { return }
        browser.close()
        if let error { browser.sightings.continuation.finish(throwing: error) }
    }
}
