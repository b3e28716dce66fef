package import NearshareInterfaces

/// A discovery whose events a test changes or observes. A browsing node takes them in a task of its own, ahead of its reader.
package struct TransformedDiscovery: Discovery {
    private let base: any Discovery
    private let transform: @Sendable (DiscoveryEvent) -> DiscoveryEvent

    package init(_ base: any Discovery, _ transform: @escaping @Sendable (DiscoveryEvent) -> DiscoveryEvent) {
        (self.base, self.transform) = (base, transform)
    }

    package var engine: String { base.engine }

    package func advertise(_ advertisement: Advertisement) throws(DiscoveryError) -> any RunningAdvertisement {
        try base.advertise(advertisement)
    }

    package func browse(
        for type: ServiceType, interface: String?
    ) throws(DiscoveryError) -> AsyncThrowingStream<DiscoveryEvent, any Error> {
        // Safe: a stream calls its function only once at a time.
        nonisolated(unsafe) var events = try base.browse(for: type, interface: interface).makeAsyncIterator()
        return AsyncThrowingStream { [transform] in try await events.next().map(transform) }
    }
}
