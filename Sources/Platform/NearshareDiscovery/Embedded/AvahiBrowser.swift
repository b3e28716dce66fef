// Avahi's own service resolver reports a new TXT record only after the old one has expired and was asked for again, 1.2 to 2.4
// s late. So the browser follows the records themselves.

internal import CAvahi
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// One browser of the embedded responder. Belongs to the responder's thread.
final class AvahiBrowser: ServiceBrowser {
    let id: UInt64
    let sightings: SightingAggregator
    /// Avahi's error number, once the browser has failed.
    private(set) var failure: Int32?
    private let type: ServiceType
    private let server: OpaquePointer
    private let now: @Sendable () -> MonotonicInstant
    private var poll: UnsafePointer<AvahiPoll>?
    private var browser: OpaquePointer?
    private var watches: [OpaquePointer] = []
    private var queue = ResolutionQueue(retriesOnce: true)
    private var resolvers: [ServiceSighting.Key: ServiceResolver] = [:]

    init(
        id: UInt64, type: ServiceType, interface: String?, server: OpaquePointer,
        continuation: SightingAggregator.Continuation, environment: DiscoveryEnvironment
    ) {
        self.id = id
        self.type = type
        self.server = server
        now = environment.now
        sightings = SightingAggregator(
            for: type, interface: interface, continuation: continuation, environment: environment)
    }

    /// - Returns: false when avahi refuses; `avahi_server_errno` has the reason.
    func start() -> Bool {
        browser = avahi_s_service_browser_new(
            server, unspecified, unspecified, type.tcp, nil, AvahiLookupFlags(0), onBrowse, context)
        return browser != nil
    }

    /// Watches the sockets of the unicast query, too.
    func watchAnswers(_ poll: UnsafePointer<AvahiPoll>) {
        self.poll = poll
        watches = sightings.descriptors.compactMap { poll.pointee.watch_new(poll, $0, AVAHI_WATCH_IN, onAnswer, context) }
    }

    var nextDeadline: MonotonicInstant? {
        (queue.resolvingKeys.compactMap { resolvers[$0]?.deadline } + [sightings.nextDeadline].compactMap(\.self)).min()
    }

    func tick(at now: MonotonicInstant) {
        for key in queue.resolvingKeys {
            guard let deadline = resolvers[key]?.deadline, now >= deadline else { continue }
            queue.fail(key)
            closeResolver(of: key)
        }
        resolveNext()
        sightings.tick(at: now, isResolving: queue.isResolving)
        if sightings.descriptors.isEmpty { removeWatches() }
    }

    /// Frees avahi's objects; no callback follows.
    func close() {
        removeWatches()
        for resolver in resolvers.values { resolver.close() }
        resolvers = [:]
        if let browser { avahi_s_service_browser_free(browser) }
        browser = nil
    }

    private func removeWatches() {
        if let poll { watches.forEach(poll.pointee.watch_free) }
        watches = []
    }

    // MARK: Avahi's events

    fileprivate func handle(_ event: AvahiBrowserEvent, _ key: ServiceSighting.Key?) {
        switch event {
        case AVAHI_BROWSER_NEW:
            guard let key else { return }
            queue.announce(key)
            resolveNext()
        case AVAHI_BROWSER_REMOVE:
            guard let key else { return }
            queue.remove(key)
            closeResolver(of: key)
            sightings.remove(key)
            resolveNext()
        case AVAHI_BROWSER_ALL_FOR_NOW: sightings.recordAllForNow()
        case AVAHI_BROWSER_FAILURE: failure = avahi_server_errno(server)
        default: break
        }
    }

    fileprivate func receiveAnswers() { sightings.receiveAnswers().forEach(stop) }

    /// Records of a service have arrived or changed.
    fileprivate func recordsChanged(of resolver: ServiceResolver) {
        guard resolvers[resolver.key] === resolver, let service = resolver.service else { return }
        queue.resolve(resolver.key)
        sightings.record(resolver.key, at: service.address, port: service.port, txt: service.txt).forEach(stop)
    }

    // MARK: Resolution

    private func resolveNext() {
        while let start = queue.next() {
            if let evicted = start.evicted { closeResolver(of: evicted) }
            let resolver = ServiceResolver(
                start.key, type: type, server: server, browser: self, deadline: now() + Self.resolutionTimeout)
            resolvers[start.key] = resolver
            resolver.start()
        }
    }

    private func stop(_ key: ServiceSighting.Key) {
        queue.stop(key)
        closeResolver(of: key)
    }

    private func closeResolver(of key: ServiceSighting.Key) { resolvers.removeValue(forKey: key)?.close() }

    private var context: UnsafeMutableRawPointer { Unmanaged.passUnretained(self).toOpaque() }

    private static let resolutionTimeout = Duration.seconds(8)
}

/// The records of one service on one interface and address family, as they arrive and change.
final class ServiceResolver {
    let key: ServiceSighting.Key
    /// When the resolution fails without an answer.
    let deadline: MonotonicInstant
    private let name: String
    private let server: OpaquePointer
    private unowned let browser: AvahiBrowser
    private var browsers: [OpaquePointer] = []
    private var addressBrowser: OpaquePointer?
    private var target: (host: String, port: UInt16)?
    private var txt: [[UInt8]]?
    private var addresses: [IPAddress] = []

    init(
        _ key: ServiceSighting.Key, type: ServiceType, server: OpaquePointer, browser: AvahiBrowser,
        deadline: MonotonicInstant
    ) {
        self.key = key
        self.server = server
        self.browser = browser
        self.deadline = deadline
        name = avahiName(of: key.instance, type: type)
    }

    /// Asks for SRV and TXT at once, and for the address as soon as SRV names the host.
    func start() {
        browsers = [AVAHI_DNS_TYPE_SRV, AVAHI_DNS_TYPE_TXT].compactMap { browse(name, $0) }
    }

    func close() {
        for browser in browsers + [addressBrowser].compactMap(\.self) { avahi_s_record_browser_free(browser) }
        browsers = []
        addressBrowser = nil
    }

    /// The resolved service; nil while a record is missing.
    var service: (address: IPAddress, port: UInt16, txt: [[UInt8]])? {
        guard let target, let txt, let address = addresses.first else { return nil }
        return (address, target.port, txt)
    }

    fileprivate func handle(_ event: AvahiBrowserEvent, _ record: AvahiRecord) {
        let isNew = event == AVAHI_BROWSER_NEW
        switch Int(record.key.pointee.type) {
        case AVAHI_DNS_TYPE_SRV:
            guard isNew, let host = record.data.srv.name.map({ String(cString: $0) }) else { return }
            if target?.host != host { browseAddresses(of: host) }
            target = (host, record.data.srv.port)
        case AVAHI_DNS_TYPE_TXT:
            guard isNew else { return }
            txt = strings(of: record.data.txt.string_list)
        case AVAHI_DNS_TYPE_A, AVAHI_DNS_TYPE_AAAA:
            guard let address = IPAddress(record), address.isIPv6 == key.isIPv6 else { return }
            addresses.removeAll { $0 == address }
            // The last address stays when it is removed: the service itself will be removed, or get another one.
            if isNew || addresses.isEmpty { addresses.append(address) }
            addresses = addresses.suffix(Self.maximumAddressCount)
        default: return
        }
        browser.recordsChanged(of: self)
    }

    private func browseAddresses(of host: String) {
        if let addressBrowser { avahi_s_record_browser_free(addressBrowser) }
        addresses = []
        addressBrowser = browse(host, key.isIPv6 ? AVAHI_DNS_TYPE_AAAA : AVAHI_DNS_TYPE_A)
    }

    private func browse(_ name: String, _ type: Int) -> OpaquePointer? {
        guard let question = avahi_key_new(name, UInt16(AVAHI_DNS_CLASS_IN), UInt16(type)) else { return nil }
        defer { avahi_key_unref(question) }
        let family = AvahiProtocol(key.isIPv6 ? AVAHI_PROTO_INET6 : AVAHI_PROTO_INET)
        return avahi_s_record_browser_new(
            server, key.interfaceIndex, family, question, AVAHI_LOOKUP_USE_MULTICAST, onRecord,
            Unmanaged.passUnretained(self).toOpaque())
    }

    /// Avahi's lists hold a record's strings from the last to the first.
    private func strings(of list: UnsafeMutablePointer<AvahiStringList>?) -> [[UInt8]] {
        sequence(first: list) { $0.flatMap { avahi_string_list_get_next($0) } }.prefix { $0 != nil }.map { string in
            Array(UnsafeBufferPointer(start: avahi_string_list_get_text(string), count: avahi_string_list_get_size(string)))
        }.reversed()
    }

    private static let maximumAddressCount = 8
}

// MARK: Callbacks

// Avahi passes the context that was registered, which is not null; the owner of the context frees avahi's objects before it
// goes.

private let onBrowse: AvahiSServiceBrowserCallback = { _, index, family, event, name, _, _, _, context in
    guard let context else { return }
    let browser = Unmanaged<AvahiBrowser>.fromOpaque(context).takeUnretainedValue()
    let instance = name.flatMap { ServiceSighting.instance(Array(UnsafeRawBufferPointer(start: $0, count: strlen($0)))) }
    let isIPv6 = family == AvahiProtocol(AVAHI_PROTO_INET6)
    browser.handle(
        event, instance.map { ServiceSighting.Key(instance: $0, interfaceIndex: index, isIPv6: isIPv6) })
}

private let onAnswer: AvahiWatchCallback = { _, _, _, context in
    guard let context else { return }
    Unmanaged<AvahiBrowser>.fromOpaque(context).takeUnretainedValue().receiveAnswers()
}

private let onRecord: AvahiSRecordBrowserCallback = { _, _, _, event, record, _, context in
    guard event == AVAHI_BROWSER_NEW || event == AVAHI_BROWSER_REMOVE, let record, let context else { return }
    Unmanaged<ServiceResolver>.fromOpaque(context).takeUnretainedValue().handle(event, record.pointee)
}
