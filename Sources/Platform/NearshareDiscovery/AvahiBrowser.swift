// Avahi's own service resolver reports a new TXT record only after the old one has run out and it has asked anew, 1.2 to 2.4 s
// late. So this follows the records themselves.

internal import CAvahi
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// One browser, and what it has found. Belongs to the responder's thread.
final class AvahiBrowser {
    let id: UInt64
    let sightings: Sightings
    /// Why nothing more will be heard, once that is so.
    private(set) var failure: Int32?
    private let type: ServiceType
    private let server: OpaquePointer
    private var poll: UnsafePointer<AvahiPoll>?
    private var browser: OpaquePointer?
    private var watches: [OpaquePointer] = []
    private var followed: [ServiceSighting.Key: AvahiResolution] = [:]
    private var unresolved: Set<ServiceSighting.Key> = []
    private var waiting: [ServiceSighting.Key] = []
    private var retries: [ServiceSighting.Key] = []
    private var retried: Set<ServiceSighting.Key> = []

    init(
        id: UInt64, type: ServiceType, interface: String?, server: OpaquePointer, continuation: Sightings.Continuation
    ) {
        self.id = id
        self.type = type
        self.server = server
        sightings = Sightings(for: type, interface: interface, continuation: continuation)
    }

    /// - Returns: false when avahi refuses; its error number says why.
    func start() -> Bool {
        browser = avahi_s_service_browser_new(
            server, unspecified, unspecified, type.tcp, nil, AvahiLookupFlags(0), onBrowse, context)
        return browser != nil
    }

    /// Waits for the answers to the one-shot question, too.
    func listen(_ poll: UnsafePointer<AvahiPoll>) {
        self.poll = poll
        watches = sightings.descriptors.compactMap { poll.pointee.watch_new(poll, $0, AVAHI_WATCH_IN, onAnswer, context) }
    }

    var nextDeadline: MonotonicInstant? {
        (unresolved.compactMap { followed[$0]?.deadline } + [sightings.nextDeadline].compactMap(\.self)).min()
    }

    func tick(at now: MonotonicInstant) {
        for key in unresolved {
            if let deadline = followed[key]?.deadline, now >= deadline { giveUp(key) }
        }
        resolveMore()
        sightings.tick(at: now, isResolving: !unresolved.isEmpty || !waiting.isEmpty)
        if sightings.descriptors.isEmpty { stopListening() }
    }

    /// Nothing is called back afterwards.
    func close() {
        stopListening()
        for resolution in followed.values { resolution.close() }
        followed = [:]
        if let browser { avahi_s_service_browser_free(browser) }
        browser = nil
    }

    private func stopListening() {
        if let poll { watches.forEach(poll.pointee.watch_free) }
        watches = []
    }

    // MARK: What avahi tells

    fileprivate func heard(_ event: AvahiBrowserEvent, _ key: ServiceSighting.Key?) {
        switch event {
        case AVAHI_BROWSER_NEW:
            guard let key, followed[key] == nil, !waiting.contains(key) else { return }
            waiting.append(key)
            if waiting.count > Self.maximumWaiting { waiting.removeFirst() }
            resolveMore()
        case AVAHI_BROWSER_REMOVE:
            guard let key else { return }
            waiting.removeAll { $0 == key }
            retries.removeAll { $0 == key }
            forget(key)
            sightings.lose(key)
            resolveMore()
        case AVAHI_BROWSER_ALL_FOR_NOW: sightings.engineHasAll()
        case AVAHI_BROWSER_FAILURE: failure = avahi_server_errno(server)
        default: break
        }
    }

    fileprivate func answered() {
        sightings.hear().forEach(forget)
    }

    /// Some of a service's records have come or changed.
    fileprivate func changed(_ resolution: AvahiResolution) {
        guard followed[resolution.key] === resolution, let service = resolution.service else { return }
        unresolved.remove(resolution.key)
        retried.remove(resolution.key)
        let evicted = sightings.see(resolution.key, at: service.address, port: service.port, txt: service.txt)
        evicted.forEach(forget)
    }

    private func resolveMore() {
        while unresolved.count < Self.maximumUnresolved, let key = nextWaiting() {
            guard followed[key] == nil else { continue }
            // One that is followed loses its place, but not its sighting: only its changes are missed from now on.
            if followed.count >= Self.maximumFollowed, let one = followed.keys.first(where: { !unresolved.contains($0) }) {
                forget(one)
            }
            let resolution = AvahiResolution(key, type: type, server: server, browser: self)
            followed[key] = resolution
            unresolved.insert(key)
            resolution.start()
        }
    }

    /// It announces itself and does not answer. It is tried once more, after those that have not been tried at all.
    private func giveUp(_ key: ServiceSighting.Key) {
        let isRetry = retried.contains(key)
        forget(key)
        guard !isRetry, retries.count < Self.maximumWaiting else { return }
        retries.append(key)
    }

    /// The newest first: behind a flood of names that nobody answers for, somebody who comes now is not kept waiting.
    private func nextWaiting() -> ServiceSighting.Key? {
        if let newest = waiting.popLast() { return newest }
        guard !retries.isEmpty else { return nil }
        let key = retries.removeFirst()
        retried.insert(key)
        return key
    }

    private func forget(_ key: ServiceSighting.Key) {
        unresolved.remove(key)
        retried.remove(key)
        followed.removeValue(forKey: key)?.close()
    }

    private var context: UnsafeMutableRawPointer { Unmanaged.passUnretained(self).toOpaque() }

    /// Each one that is being resolved asks three questions of the network.
    private static let maximumUnresolved = 64
    /// Names that a flood may leave in the queue.
    private static let maximumWaiting = 1024
    private static let maximumFollowed = 256
}

/// The records of one service on one interface and family, as they come and change.
final class AvahiResolution {
    let key: ServiceSighting.Key
    /// When it is given up for now.
    let deadline: MonotonicInstant = .now + .seconds(8)
    private let name: String
    private let server: OpaquePointer
    private unowned let browser: AvahiBrowser
    private var browsers: [OpaquePointer] = []
    private var addressBrowser: OpaquePointer?
    private var place: (host: String, port: UInt16)?
    private var txt: [[UInt8]]?
    private var addresses: [IPAddress] = []

    init(_ key: ServiceSighting.Key, type: ServiceType, server: OpaquePointer, browser: AvahiBrowser) {
        self.key = key
        self.server = server
        self.browser = browser
        name = avahiName(of: key.instance, type: type)
    }

    /// Asks for place and text at once, and for the address as soon as the place is known.
    func start() {
        browsers = [AVAHI_DNS_TYPE_SRV, AVAHI_DNS_TYPE_TXT].compactMap { follow(name, $0) }
    }

    func close() {
        for browser in browsers + [addressBrowser].compactMap(\.self) { avahi_s_record_browser_free(browser) }
        browsers = []
        addressBrowser = nil
    }

    /// nil while some of it is not known.
    var service: (address: IPAddress, port: UInt16, txt: [[UInt8]])? {
        guard let place, let txt, let address = addresses.first else { return nil }
        return (address, place.port, txt)
    }

    fileprivate func heard(_ event: AvahiBrowserEvent, _ record: AvahiRecord) {
        let isThere = event == AVAHI_BROWSER_NEW
        switch Int(record.key.pointee.type) {
        case AVAHI_DNS_TYPE_SRV:
            guard isThere, let host = record.data.srv.name.map({ String(cString: $0) }) else { return }
            if place?.host != host { find(host) }
            place = (host, record.data.srv.port)
        case AVAHI_DNS_TYPE_TXT:
            guard isThere else { return }
            txt = strings(of: record.data.txt.string_list)
        case AVAHI_DNS_TYPE_A, AVAHI_DNS_TYPE_AAAA:
            guard let address = IPAddress(record), address.isIPv6 == key.isIPv6 else { return }
            addresses.removeAll { $0 == address }
            // One that is gone stays as long as it is the only one: the service itself will go, or say where it is now.
            if isThere || addresses.isEmpty { addresses.append(address) }
            addresses = addresses.suffix(Self.maximumAddresses)
        default: return
        }
        browser.changed(self)
    }

    private func find(_ host: String) {
        if let addressBrowser { avahi_s_record_browser_free(addressBrowser) }
        addresses = []
        addressBrowser = follow(host, key.isIPv6 ? AVAHI_DNS_TYPE_AAAA : AVAHI_DNS_TYPE_A)
    }

    private func follow(_ name: String, _ type: Int) -> OpaquePointer? {
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

    private static let maximumAddresses = 8
}

// MARK: Callbacks

private let onBrowse: AvahiSServiceBrowserCallback = { _, index, family, event, name, _, _, _, context in
    let browser = Unmanaged<AvahiBrowser>.fromOpaque(context!).takeUnretainedValue()
    let instance = name.flatMap { ServiceSighting.instance(Array(UnsafeRawBufferPointer(start: $0, count: strlen($0)))) }
    let isIPv6 = family == AvahiProtocol(AVAHI_PROTO_INET6)
    browser.heard(
        event, instance.map { ServiceSighting.Key(instance: $0, interfaceIndex: index, isIPv6: isIPv6) })
}

private let onAnswer: AvahiWatchCallback = { _, _, _, context in
    Unmanaged<AvahiBrowser>.fromOpaque(context!).takeUnretainedValue().answered()
}

private let onRecord: AvahiSRecordBrowserCallback = { _, _, _, event, record, _, context in
    guard event == AVAHI_BROWSER_NEW || event == AVAHI_BROWSER_REMOVE, let record else { return }
    Unmanaged<AvahiResolution>.fromOpaque(context!).takeUnretainedValue().heard(event, record.pointee)
}
