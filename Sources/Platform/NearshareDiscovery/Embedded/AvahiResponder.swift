internal import CAvahi
internal import Glibc
internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces

/// A multicast DNS responder inside this process: libavahi-core on a thread of its own.
///
/// The responder shares port 5353 with others on the machine and avoids conflicts with them: its host name is unique, it
/// publishes addresses without reverse records, about which two responders of one machine would conflict, and it does not
/// probe, since its names are unique by construction; that saves most of a second, too.
final class AvahiResponder: EventLoop, BrowserOwner {
    private let interface: String?
    private let environment: DiscoveryEnvironment
    private let poll: AvahiPollLoop
    private var server: OpaquePointer?
    private let addressMonitor: AddressMonitor?
    private var addressGroups: [PublishedAddress: OpaquePointer] = [:]
    private var services: [UInt64: PublishedService] = [:]
    var browsers: [UInt64: AvahiBrowser] = [:]
    private var lastID: UInt64 = 0
    private var retryDue: MonotonicInstant?

    private struct PublishedAddress: Hashable {
        var interfaceIndex: Int32
        var address: IPAddress
    }

    private static let collisionRetryDelay = Duration.seconds(1)
    private static let maximumAddressCount = 8
    private static let goodbyeIterationCount = 128

    /// - Parameter hostLabel: a DNS label that no other machine or process uses.
    init(
        hostLabel: String, interface: String?, wakeup: EventFD, environment: DiscoveryEnvironment
    ) throws(DiscoveryError) {
        try AvahiLibrary.load()
        poll = try AvahiPollLoop()
        self.interface = interface
        self.environment = environment
        addressMonitor = AddressMonitor()
        try start(hostLabel: hostLabel)
        try poll.watch(wakeup.descriptor, { _, _, _, _ in }, context)
        if let addressMonitor { try poll.watch(addressMonitor.descriptor, onAddressChange, context) }
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
        server = avahi_server_new(poll.api, &config, onServerChange, context, &code)
        guard server != nil else {
            throw DiscoveryError(
                "could not start discovery: \(Self.text(code)); is a network interface up? `ip link` lists them")
        }
    }

    // MARK: Publishing

    func publish(_ advertisement: Advertisement) throws(DiscoveryError) -> UInt64 {
        let service = PublishedService(advertisement)
        try register(service)
        lastID += 1
        services[lastID] = service
        return lastID
    }

    func update(_ id: UInt64, txt: [[UInt8]]) throws(DiscoveryError) {
        guard let service = services[id] else { throw DiscoveryError("the advertisement has been stopped") }
        guard service.advertisement.txt != txt else { return }
        service.advertisement.txt = txt
        guard let server, let group = service.group, avahi_s_entry_group_is_empty(group) == 0 else { return }
        try check(service.addText(to: group, of: server, flags: AVAHI_PUBLISH_UPDATE), "update the advertisement")
    }

    func withdraw(_ id: UInt64) {
        guard let service = services.removeValue(forKey: id), let group = service.group else { return }
        avahi_s_entry_group_free(group)
        // The goodbyes are due now; each iteration sends those of one interface and family. They must be sent before this
        // returns, since the caller may end the process next.
        for _ in 0..<Self.goodbyeIterationCount { poll.iterate(timeout: .zero) }
    }

    private func register(_ service: PublishedService) throws(DiscoveryError) {
        guard let server, avahi_server_get_state(server) == AVAHI_SERVER_RUNNING else { return }
        if service.group == nil { service.group = avahi_s_entry_group_new(server, onGroupChange, context) }
        guard let group = service.group else { throw error(avahi_server_errno(server), "advertise") }
        guard avahi_s_entry_group_is_empty(group) != 0 else { return }
        do throws(DiscoveryError) {
            try check(service.addRecords(to: group, of: server), "advertise")
            try check(avahi_s_entry_group_commit(group), "advertise")
        } catch {
            avahi_s_entry_group_free(group)
            service.group = nil
            throw error
        }
    }

    /// Another host's records conflict with this one's. Names are unique by construction, so this is an attack: retried, but
    /// not at once (D8).
    fileprivate func groupCollided() {
        retryDue = environment.now() + Self.collisionRetryDelay
    }

    fileprivate func serverChanged(_ state: AvahiServerState) {
        // The first call comes from within avahi_server_new, before there is a server to register with.
        guard server != nil else { return }
        switch state {
        case AVAHI_SERVER_RUNNING: retryDue = environment.now()
        case AVAHI_SERVER_FAILURE:
            let error = error(avahi_server_errno(server), "continue discovery")
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
            // Avahi has accepted the same records before.
            try? register(service)
        }
    }

    /// Publishes the addresses that this machine has now, and withdraws others.
    fileprivate func publishAddresses() {
        guard let server, avahi_server_get_state(server) == AVAHI_SERVER_RUNNING else { return }
        var wanted: Set<PublishedAddress> = []
        for one in NetworkInterface.all() where one.isUp && (interface == nil || one.name == interface) {
            for address in one.addresses.prefix(Self.maximumAddressCount)
            where address.address.canBeReached(onLoopback: one.isLoopback) {
                wanted.insert(PublishedAddress(interfaceIndex: one.index, address: address.address))
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
                server, group, address.interfaceIndex, unspecified, [AVAHI_PUBLISH_NO_REVERSE, AVAHI_PUBLISH_NO_PROBE].joined,
                nil, &raw)
            // Avahi rejects the address; the others may suffice.
            guard code == 0, avahi_s_entry_group_commit(group) == 0 else {
                avahi_s_entry_group_free(group)
                continue
            }
            addressGroups[address] = group
        }
    }

    fileprivate func addressesChanged() {
        addressMonitor?.drain()
        publishAddresses()
        for browser in browsers.values { browser.sightings.localAddressesChanged() }
    }

    // MARK: Browsing

    func browse(_ type: ServiceType, to continuation: SightingAggregator.Continuation) throws(DiscoveryError) -> UInt64 {
        guard let server else { throw DiscoveryError("discovery has been stopped") }
        lastID += 1
        let browser = AvahiBrowser(
            id: lastID, type: type, interface: interface, server: server, continuation: continuation,
            environment: environment)
        guard browser.start() else { throw error(avahi_server_errno(server), "browse") }
        browsers[lastID] = browser
        browser.watchAnswers(poll.api)
        return lastID
    }

    // MARK: Event loop

    func nextDeadline(after now: MonotonicInstant) -> MonotonicInstant? {
        ([retryDue] + browsers.values.map(\.nextDeadline)).compactMap(\.self).min()
    }

    func tick(at now: MonotonicInstant) {
        if let due = retryDue, now >= due {
            retryDue = nil
            retry()
        }
        // Over a copy: a browser that fails is removed.
        for browser in Array(browsers.values) {
            if let reason = browser.failure { end(browser.id, throwing: error(reason, "browse any more")) }
            browser.tick(at: now)
        }
    }

    func wait(timeout: Duration?) { poll.iterate(timeout: timeout) }

    func close() {
        for browser in browsers.values { browser.close() }
        browsers = [:]
        services = [:]
        // Frees all groups, and sends the goodbyes.
        if let server { avahi_server_free(server) }
        server = nil
        poll.close()
    }

    /// The context of C callbacks, which do not retain it: the responder outlives what it registers, see ``close()``.
    private var context: UnsafeMutableRawPointer { Unmanaged.passUnretained(self).toOpaque() }

    private func check(_ code: Int32, _ action: String) throws(DiscoveryError) {
        guard code >= 0 else { throw error(code, action) }
    }

    private func error(_ code: Int32, _ action: String) -> DiscoveryError {
        DiscoveryError("could not \(action): \(Self.text(code)); is the network up?")
    }

    static func text(_ code: Int32) -> String { String(cString: avahi_strerror(code)).lowercased() }
}

// MARK: Callbacks

/// The context that was registered, which is not null.
private func responder(_ context: UnsafeMutableRawPointer?) -> AvahiResponder? {
    context.map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
}

private let onServerChange: AvahiServerCallback = { _, state, context in responder(context)?.serverChanged(state) }

private let onGroupChange: AvahiSEntryGroupCallback = { _, _, state, context in
    if state == AVAHI_ENTRY_GROUP_COLLISION { responder(context)?.groupCollided() }
}

private let onAddressChange: AvahiWatchCallback = { _, _, _, context in responder(context)?.addressesChanged() }
