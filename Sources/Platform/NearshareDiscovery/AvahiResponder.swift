// libavahi-core, confined to its own thread. The C callbacks stand at the end, outside of any actor: C calls them on that thread.

internal import CAvahi
internal import Glibc
internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces

/// A multicast DNS responder of one's own, inside this process.
///
/// It shares port 5353 with other responders on the machine, and stays clear of them by three means: its host name is its own,
/// it publishes the addresses by itself without the reverse records, over which two responders of one machine would quarrel,
/// and it does not probe, since its names are unique by construction; that saves most of a second, too.
final class AvahiResponder: EventLoop {
    private let interface: String?
    private let poll: OpaquePointer
    private var server: OpaquePointer?
    private var watches: [OpaquePointer] = []
    private let addressWatch: AddressWatch?
    private var addressGroups: [PublishedAddress: OpaquePointer] = [:]
    private var services: [UInt64: AvahiService] = [:]
    private var browsers: [UInt64: AvahiBrowser] = [:]
    private var nextID: UInt64 = 0
    private var retryAt: MonotonicInstant?

    private struct PublishedAddress: Hashable {
        var index: Int32
        var address: IPAddress
    }

    /// - Parameter hostLabel: one DNS label that no other machine or process uses.
    init(hostLabel: String, interface: String?, wakeup: Int32) throws(DiscoveryError) {
        try AvahiLibrary.load()
        guard let poll = avahi_simple_poll_new() else { throw DiscoveryError("discovery cannot start: out of memory") }
        self.poll = poll
        self.interface = interface
        addressWatch = AddressWatch()
        try start(hostLabel: hostLabel)
        watch(wakeup) { _, _, _, _ in }
        if let descriptor = addressWatch?.descriptor { watch(descriptor, onAddressChange) }
        publishAddresses()
    }

    private func start(hostLabel: String) throws(DiscoveryError) {
        var config = AvahiServerConfig()
        avahi_server_config_init(&config)
        defer { avahi_server_config_free(&config) }
        avahi_free(config.host_name)
        config.host_name = avahi_strdup(hostLabel)
        config.publish_hinfo = 0
        config.publish_workstation = 0
        config.publish_domain = 0
        config.publish_addresses = 0
        config.enable_wide_area = 0
        config.disallow_other_stacks = 0
        config.use_ipv4 = 1
        config.use_ipv6 = 1
        if let interface { config.allow_interfaces = avahi_string_list_add(nil, interface) }
        var code: Int32 = 0
        server = avahi_server_new(avahi_simple_poll_get(poll), &config, onServerChange, context, &code)
        guard server != nil else {
            avahi_simple_poll_free(poll)
            throw DiscoveryError(
                "discovery cannot start: \(Self.text(code)); is any network interface up? `ip link` shows them")
        }
    }

    // MARK: Publishing

    func publish(_ advertisement: Advertisement) throws(DiscoveryError) -> UInt64 {
        let service = AvahiService(advertisement)
        try register(service)
        nextID += 1
        services[nextID] = service
        return nextID
    }

    func update(_ id: UInt64, txt: [[UInt8]]) throws(DiscoveryError) {
        guard let service = services[id] else { throw DiscoveryError("this advertisement has been stopped") }
        guard service.advertisement.txt != txt else { return }
        service.advertisement.txt = txt
        guard let server, let group = service.group, avahi_s_entry_group_is_empty(group) == 0 else { return }
        try check(service.addText(server, group, flags: AVAHI_PUBLISH_UPDATE), "update what is advertised")
    }

    func withdraw(_ id: UInt64) {
        guard let service = services.removeValue(forKey: id), let group = service.group else { return }
        avahi_s_entry_group_free(group)
        // The goodbyes are due now; each turn of the loop sends those of one interface and family. They must be on their way
        // when the caller goes on, for it may end the process next.
        for _ in 0..<Self.turnsForGoodbyes { avahi_simple_poll_iterate(poll, 0) }
    }

    private func register(_ service: AvahiService) throws(DiscoveryError) {
        guard let server, avahi_server_get_state(server) == AVAHI_SERVER_RUNNING else { return }
        if service.group == nil { service.group = avahi_s_entry_group_new(server, onGroupChange, context) }
        guard let group = service.group else { throw error(avahi_server_errno(server), "advertise") }
        guard avahi_s_entry_group_is_empty(group) != 0 else { return }
        do throws(DiscoveryError) {
            try check(service.addRecords(server, group), "advertise")
            try check(avahi_s_entry_group_commit(group), "advertise")
        } catch {
            avahi_s_entry_group_free(group)
            service.group = nil
            throw error
        }
    }

    /// Somebody else's records stand in the way of ours, which nobody honest causes: once more, but not at once (D8).
    fileprivate func groupCollided() {
        retryAt = .now + .seconds(1)
    }

    fileprivate func serverChanged(_ state: AvahiServerState) {
        // The first call comes out of avahi_server_new, before there is a server to register with.
        guard server != nil else { return }
        switch state {
        case AVAHI_SERVER_RUNNING: retryAt = .now
        case AVAHI_SERVER_FAILURE:
            let error = error(avahi_server_errno(server), "go on with discovery")
            for id in Array(browsers.keys) { end(id, throwing: error) }
        default: break
        }
    }

    private func retry() {
        publishAddresses()
        for service in services.values {
            if let group = service.group, avahi_s_entry_group_get_state(group) == AVAHI_ENTRY_GROUP_COLLISION {
                avahi_s_entry_group_reset(group)
            }
            // It was accepted once, with the same records.
            try? register(service)
        }
    }

    /// Brings the published addresses in line with those that this machine has now.
    fileprivate func publishAddresses() {
        guard let server, avahi_server_get_state(server) == AVAHI_SERVER_RUNNING else { return }
        var wanted: Set<PublishedAddress> = []
        for one in NetworkInterface.all() where one.isUp && (interface == nil || one.name == interface) {
            for address in one.addresses.prefix(Self.maximumAddresses)
            where address.address.canBeReached(onLoopback: one.isLoopback) {
                wanted.insert(PublishedAddress(index: one.index, address: address.address))
            }
        }
        for (address, group) in addressGroups where !wanted.contains(address) {
            avahi_s_entry_group_free(group)
            addressGroups[address] = nil
        }
        for address in wanted where addressGroups[address] == nil {
            guard let group = avahi_s_entry_group_new(server, nil, nil) else { continue }
            var raw = AvahiAddress(address.address)
            let code = avahi_server_add_address(
                server, group, address.index, unspecified, [AVAHI_PUBLISH_NO_REVERSE, AVAHI_PUBLISH_NO_PROBE].joined, nil, &raw)
            // An address that avahi does not take is one less; the others may do.
            guard code == 0, avahi_s_entry_group_commit(group) == 0 else {
                avahi_s_entry_group_free(group)
                continue
            }
            addressGroups[address] = group
        }
    }

    fileprivate func addressesChanged() {
        addressWatch?.drain()
        publishAddresses()
        for browser in browsers.values { browser.sightings.forgetOwnAddresses() }
    }

    // MARK: Browsing

    func browse(_ type: ServiceType, to continuation: Sightings.Continuation) throws(DiscoveryError) -> UInt64 {
        guard let server else { throw DiscoveryError("discovery has been stopped") }
        nextID += 1
        let browser = AvahiBrowser(id: nextID, type: type, interface: interface, server: server, continuation: continuation)
        guard browser.start() else { throw error(avahi_server_errno(server), "look for others") }
        browsers[nextID] = browser
        browser.listen(avahi_simple_poll_get(poll))
        return nextID
    }

    /// - Parameter error: what the sequence ends with; nil when nobody iterates it any more.
    func end(_ id: UInt64, throwing error: DiscoveryError? = nil) {
        guard let browser = browsers.removeValue(forKey: id) else { return }
        browser.close()
        if let error { browser.sightings.continuation.finish(throwing: error) }
    }

    // MARK: Loop

    var nextDeadline: MonotonicInstant? {
        ([retryAt] + browsers.values.map(\.nextDeadline)).compactMap(\.self).min()
    }

    func tick(at now: MonotonicInstant) {
        if let due = retryAt, now >= due {
            retryAt = nil
            retry()
        }
        // Over a copy: a browser that fails removes itself.
        for browser in Array(browsers.values) {
            if let reason = browser.failure { end(browser.id, throwing: error(reason, "look for others any longer")) }
            browser.tick(at: now)
        }
    }

    func wait(milliseconds: Int32) { avahi_simple_poll_iterate(poll, milliseconds) }

    func close() {
        for browser in browsers.values { browser.close() }
        browsers = [:]
        services = [:]
        // Frees all groups, and sends the goodbyes.
        if let server { avahi_server_free(server) }
        server = nil
        watches.forEach(avahi_simple_poll_get(poll).pointee.watch_free)
        avahi_simple_poll_free(poll)
    }

    private func watch(_ descriptor: Int32, _ callback: @escaping AvahiWatchCallback) {
        let api = avahi_simple_poll_get(poll)!
        if let watch = api.pointee.watch_new(api, descriptor, AVAHI_WATCH_IN, callback, context) { watches.append(watch) }
    }

    /// For C, which does not hold on to it: the responder outlives what it registers, see ``close()``.
    private var context: UnsafeMutableRawPointer { Unmanaged.passUnretained(self).toOpaque() }

    private func check(_ code: Int32, _ what: String) throws(DiscoveryError) {
        guard code >= 0 else { throw error(code, what) }
    }

    private func error(_ code: Int32, _ what: String) -> DiscoveryError {
        DiscoveryError("cannot \(what): \(Self.text(code)); `nearshare doctor` may know more")
    }

    static func text(_ code: Int32) -> String { String(cString: avahi_strerror(code)).lowercased() }

    private static let maximumAddresses = 8
    private static let turnsForGoodbyes = 128
}

// MARK: Callbacks

private func responder(_ context: UnsafeMutableRawPointer?) -> AvahiResponder {
    Unmanaged.fromOpaque(context!).takeUnretainedValue()
}

private let onServerChange: AvahiServerCallback = { _, state, context in responder(context).serverChanged(state) }

private let onGroupChange: AvahiSEntryGroupCallback = { _, _, state, context in
    if state == AVAHI_ENTRY_GROUP_COLLISION { responder(context).groupCollided() }
}

private let onAddressChange: AvahiWatchCallback = { _, _, _, context in responder(context).addressesChanged() }
