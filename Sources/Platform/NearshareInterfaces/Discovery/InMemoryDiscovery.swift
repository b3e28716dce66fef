internal import Synchronization

/// A network segment in memory: hosts that join it discover each other, without sockets and threads.
///
/// An advertisement reaches the other hosts' browsers before ``Discovery/advertise(_:)`` returns.
package final class InMemorySegment: Sendable {
    /// The interface index in all sightings.
    package static let interfaceIndex: Int32 = 2

    package let interfaceName: String
    private let state = Mutex(State())

    package init(interfaceName: String = "memory0") {
        self.interfaceName = interfaceName
    }

    /// - Parameter address: the host's numeric address in sightings of its services.
    package func join(host address: String) -> any Discovery {
        InMemoryDiscovery(segment: self, host: address)
    }

    /// Disconnects a host from the segment, or connects it again.
    package func setConnected(_ connected: Bool, host: String) {
        state.withLock { state in
            if connected { state.unplugged.remove(host) } else { state.unplugged.insert(host) }
            state.refreshAll()
        }
    }

    /// Delivers an unauthenticated claim to all browsers of `type`, as a real network would.
    package func claim(_ claim: ServiceClaim, type: ServiceType) {
        guard let sighting = ServiceSighting(claim) else { return }
        state.withLock { state in
            for browser in state.browsers.values where browser.type == type { browser.deliver(browser.table.insert(sighting)) }
        }
    }

    fileprivate func publish(_ advertisement: Advertisement, from host: String) throws(DiscoveryError) -> UInt64 {
        try check(advertisement.interface)
        return state.withLock { state in
            state.nextID += 1
            state.published[state.nextID] = State.Published(advertisement: advertisement, host: host)
            state.refreshAll()
            return state.nextID
        }
    }

    fileprivate func update(_ id: UInt64, txt: [[UInt8]]) {
        state.withLock { state in
            state.published[id]?.advertisement.txt = txt
            state.refreshAll()
        }
    }

    fileprivate func withdraw(_ id: UInt64) {
        state.withLock { state in
            guard state.published.removeValue(forKey: id) != nil else { return }
            state.refreshAll()
        }
    }

    fileprivate func browse(
        _ type: ServiceType, interface: String?, from host: String, to continuation: Browser.Continuation
    ) throws(DiscoveryError) {
        try check(interface)
        state.withLock { state in
            state.nextID += 1
            let browser = Browser(type: type, host: host, continuation: continuation)
            state.browsers[state.nextID] = browser
            state.refresh(browser)
            browser.deliver([.settled])
        }
    }

    private func check(_ interface: String?) throws(DiscoveryError) {
        if let interface, interface != interfaceName {
            throw DiscoveryError(MissingInterface.text(for: interface))
        }
    }

    /// Used under the segment's lock.
    fileprivate final class Browser: @unchecked Sendable {
        typealias Continuation = AsyncThrowingStream<DiscoveryEvent, any Error>.Continuation

        let type: ServiceType
        let host: String
        let continuation: Continuation
        var table = SightingTable()
        /// The sightings of advertised services, without those of ``InMemorySegment/claim(_:type:)``.
        var present: Set<ServiceSighting.Key> = []
        /// Whether the events are not read any more. A termination handler must not take the lock under which they are yielded.
        private(set) var isEnded = false

        init(type: ServiceType, host: String, continuation: Continuation) {
            self.type = type
            self.host = host
            self.continuation = continuation
        }

        func deliver(_ events: [DiscoveryEvent]) {
            for event in events {
                if case .terminated = continuation.yield(event) { isEnded = true }
            }
        }
    }

    private struct State {
        struct Published {
            var advertisement: Advertisement
            let host: String
        }

        var published: [UInt64: Published] = [:]
        var browsers: [UInt64: Browser] = [:]
        var unplugged: Set<String> = []
        var nextID: UInt64 = 0

        mutating func refreshAll() {
            for browser in browsers.values { refresh(browser) }
            browsers = browsers.filter { !$0.value.isEnded }
        }

        /// Updates one browser's table to the present advertisements.
        func refresh(_ browser: Browser) {
            let visible = published.sorted { $0.key < $1.key }.map(\.value).filter { one in
                one.advertisement.type == browser.type && (one.host == browser.host || canTalk(one.host, browser.host))
            }
            let sightings = visible.map { sighting(of: $0, for: browser.host) }
            let keys = Set(sightings.map(\.key))
            for key in browser.present.subtracting(keys) { browser.deliver(browser.table.remove(key)) }
            browser.present = keys
            for sighting in sightings { browser.deliver(browser.table.insert(sighting)) }
        }

        func canTalk(_ one: String, _ other: String) -> Bool { !unplugged.contains(one) && !unplugged.contains(other) }

        func sighting(of published: Published, for observer: String) -> ServiceSighting {
            ServiceSighting(
                key: ServiceSighting.Key(
                    instance: published.advertisement.instance, interfaceIndex: InMemorySegment.interfaceIndex,
                    isIPv6: published.host.contains(":")),
                address: LinkAddress(host: published.host, port: published.advertisement.port),
                txt: published.advertisement.txt, isOwn: published.host == observer)
        }
    }
}

/// The in-memory form of the real engines: one host's view of an ``InMemorySegment``.
private struct InMemoryDiscovery: Discovery {
    let segment: InMemorySegment
    let host: String

    var engine: String { "in memory" }

    func advertise(_ advertisement: Advertisement) throws(DiscoveryError) -> any RunningAdvertisement {
        try advertisement.check()
        return InMemoryAdvertisement(segment: segment, id: try segment.publish(advertisement, from: host))
    }

    func browse(
        for type: ServiceType, interface: String?
    ) throws(DiscoveryError) -> AsyncThrowingStream<DiscoveryEvent, any Error> {
        let (stream, continuation) = DiscoveryEvent.makeStream()
        try segment.browse(type, interface: interface, from: host, to: continuation)
        return stream
    }
}

private final class InMemoryAdvertisement: RunningAdvertisement {
    private let segment: InMemorySegment
    private let id: UInt64

    init(segment: InMemorySegment, id: UInt64) {
        self.segment = segment
        self.id = id
    }

    deinit { stop() }

    func update(txt: [[UInt8]]) throws(DiscoveryError) {
        try Advertisement.check(txt: txt)
        segment.update(id, txt: txt)
    }

    func stop() { segment.withdraw(id) }
}
