internal import Glibc
internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces

/// A connection to avahi-daemon over the system bus, confined to its own thread.
///
/// Signals are told apart by what they say rather than by the object that they come from: the daemon may send the first ones
/// of an object before the answer that names it.
final class AvahiDaemon: EventLoop {
    static let busName = "org.freedesktop.Avahi"

    private let bus: SystemBus
    private let wakeup: Int32
    private var services: [UInt64: Service] = [:]
    private var browsers: [UInt64: DaemonBrowser] = [:]
    private var nextID: UInt64 = 0
    /// When all is to be published and asked for again: the daemon is new, or has refused something.
    private var renewAt: MonotonicInstant?
    private var isBroken = false

    private struct Service {
        var advertisement: Advertisement
        /// The interface that it is restricted to, or ``any``.
        var interface: Int32
        /// The daemon's object; nil while it has none of ours.
        var group: String?
    }

    init(timeout: Duration, wakeup: Int32) throws(DiscoveryError) {
        self.wakeup = wakeup
        do throws(BusError) {
            bus = try SystemBus()
            guard try bus.hasOwner(Self.busName, timeout: timeout) else {
                throw BusError("it does not run")
            }
            try listen()
        } catch {
            throw DiscoveryError("avahi-daemon cannot be reached: \(error.text); start it, or use the embedded responder")
        }
    }

    private func listen() throws(BusError) {
        let browser = "org.freedesktop.Avahi.ServiceBrowser"
        let resolver = "org.freedesktop.Avahi.ServiceResolver"
        let group = "org.freedesktop.Avahi.EntryGroup"
        try on("ItemNew", browser) { daemon, message in daemon.item(message) { $0.appeared($1) } }
        try on("ItemRemove", browser) { daemon, message in daemon.item(message) { $0.disappeared($1) } }
        try on("AllForNow", browser) { daemon, message in
            daemon.browsers.values.first { $0.path == message.path }?.sightings.engineHasAll()
        }
        try on("Failure", browser) { daemon, message in
            guard let id = daemon.browsers.first(where: { $0.value.path == message.path })?.key else { return }
            daemon.end(
                id, throwing: DiscoveryError("avahi-daemon cannot look for others any longer: \(message.string() ?? "")"))
        }
        try on("Found", resolver) { daemon, message in daemon.found(message) }
        try on("Failure", resolver) { daemon, message in
            for browser in daemon.browsers.values { browser.failed(message.path) }
        }
        try on("StateChanged", group) { daemon, message in
            let isRefused = [Self.groupCollision, Self.groupFailure].contains(message.int32() ?? 0)
            guard isRefused, let id = daemon.services.first(where: { $0.value.group == message.path })?.key else { return }
            daemon.dropGroup(of: id)
            // Names are unique by construction: who stands in the way is not honest, or is ourselves a moment ago (D8).
            daemon.renewAt = .now + .seconds(2)
        }
        try on("StateChanged", "org.freedesktop.Avahi.Server") { daemon, message in
            // Running anew after the machine's host name was taken: what was published before is not any more.
            if message.int32() == Self.serverRunning { daemon.renewAt = .now }
        }
        try bus.onSignal("NameOwnerChanged", of: "org.freedesktop.DBus", from: "org.freedesktop.DBus") {
            [unowned self] message in
            guard message.string() == Self.busName else { return }
            daemonChanged()
        }
    }

    private func on(
        _ member: String, _ interface: String, _ handle: @escaping (AvahiDaemon, BusMessage) -> Void
    ) throws(BusError) {
        try bus.onSignal(member, of: interface, from: Self.busName) { [unowned self] message in handle(self, message) }
    }

    /// The objects of the old one are gone with it. What it knew of the network is probably still so: the new one has ten
    /// seconds to confirm it.
    private func daemonChanged() {
        for id in services.keys { services[id]?.group = nil }
        for browser in browsers.values {
            browser.forgetObjects()
            browser.sightings.doubtAll()
        }
        renewAt = .now
    }

    // MARK: Publishing

    func publish(_ advertisement: Advertisement) throws(DiscoveryError) -> UInt64 {
        let interface = try advertisement.interface.map { name throws(DiscoveryError) in try NetworkInterface.index(of: name) }
        var service = Service(advertisement: advertisement, interface: interface ?? Self.any)
        do throws(BusError) {
            service.group = try register(service)
        } catch {
            throw Self.error(error, "advertise")
        }
        nextID += 1
        services[nextID] = service
        return nextID
    }

    func update(_ id: UInt64, txt: [[UInt8]]) throws(DiscoveryError) {
        guard let service = services[id] else { throw DiscoveryError("this advertisement has been stopped") }
        services[id]?.advertisement.txt = txt
        // Without an object it is said when there is one again.
        guard let group = service.group else { return }
        do throws(BusError) {
            _ = try bus.call(
                Self.call(
                    group, "EntryGroup", "UpdateServiceTxt",
                    [
                        .int32(service.interface), .int32(Self.any), .uint32(0), .string(service.advertisement.instance),
                        .string(service.advertisement.type.tcp), .string(""), .byteArrays(txt),
                    ]))
        } catch {
            throw Self.error(error, "update what is advertised")
        }
    }

    func withdraw(_ id: UInt64) {
        dropGroup(of: id)
        services[id] = nil
        bus.flush()
    }

    private func dropGroup(of id: UInt64) {
        guard let group = services[id]?.group else { return }
        services[id]?.group = nil
        try? bus.send(Self.call(group, "EntryGroup", "Free"))
    }

    private func register(_ service: Service) throws(BusError) -> String {
        let advertisement = service.advertisement
        guard let group = try bus.call(Self.call("/", "Server", "EntryGroupNew")).objectPath() else {
            throw BusError("its answer makes no sense")
        }
        do throws(BusError) {
            _ = try bus.call(
                Self.call(
                    group, "EntryGroup", "AddService",
                    [
                        .int32(service.interface), .int32(Self.any), .uint32(0), .string(advertisement.instance),
                        .string(advertisement.type.tcp), .string(""), .string(""), .uint16(advertisement.port),
                        .byteArrays(advertisement.txt),
                    ]))
            _ = try bus.call(Self.call(group, "EntryGroup", "Commit"))
        } catch {
            try? bus.send(Self.call(group, "EntryGroup", "Free"))
            throw error
        }
        return group
    }

    // MARK: Browsing

    func browse(
        _ type: ServiceType, interface: String?, to continuation: Sightings.Continuation
    ) throws(DiscoveryError) -> UInt64 {
        let index = try interface.map { name throws(DiscoveryError) in try NetworkInterface.index(of: name) }
        do throws(BusError) {
            let browser = DaemonBrowser(
                type: type, interface: index, bus: bus,
                sightings: Sightings(for: type, interface: interface, continuation: continuation))
            try browser.start()
            nextID += 1
            browsers[nextID] = browser
            return nextID
        } catch {
            throw Self.error(error, "look for others")
        }
    }

    /// - Parameter error: what the sequence ends with; nil when nobody iterates it any more.
    func end(_ id: UInt64, throwing error: DiscoveryError? = nil) {
        guard let browser = browsers.removeValue(forKey: id) else { return }
        browser.close()
        if let error { browser.sightings.continuation.finish(throwing: error) }
    }

    /// ItemNew and ItemRemove: `iisssu`.
    private func item(_ message: BusMessage, _ tell: (DaemonBrowser, ServiceSighting.Key) -> Void) {
        guard let index = message.int32(), let family = message.int32(), let name = message.string(),
            let type = message.string(), let instance = ServiceSighting.instance(Array(name.utf8))
        else { return }
        let key = ServiceSighting.Key(instance: instance, interfaceIndex: index, isIPv6: family == Self.familyIPv6)
        for browser in browsers.values where browser.wants(type: type, interface: index) { tell(browser, key) }
    }

    /// `iissssisqaayu`: interface, family, name, type, domain, host, the address' family, address, port, TXT, flags. The TXT
    /// strings come in the order of avahi's lists, from the last to the first; those that we publish are wanted the right way.
    private func found(_ message: BusMessage) {
        guard let index = message.int32(), let family = message.int32(), let name = message.string(),
            let type = message.string(), message.string() != nil, message.string() != nil, message.int32() != nil,
            let text = message.string(), let port = message.uint16(),
            let txt = message.byteArrays(), let flags = message.uint32(),
            let address = IPAddress(text: text), let instance = ServiceSighting.instance(Array(name.utf8))
        else { return }
        let key = ServiceSighting.Key(instance: instance, interfaceIndex: index, isIPv6: family == Self.familyIPv6)
        for browser in browsers.values where browser.wants(type: type, interface: index) {
            browser.resolved(key, at: address, port: port, txt: txt.reversed(), isOwn: flags & Self.resultIsLocal != 0)
        }
    }

    // MARK: Loop

    var nextDeadline: MonotonicInstant? {
        ([renewAt, isBroken ? nil : bus.deadline] + browsers.values.map(\.sightings.nextDeadline)).compactMap(\.self).min()
    }

    func tick(at now: MonotonicInstant) {
        if let due = renewAt, now >= due {
            renewAt = nil
            renew(at: now)
        }
        for browser in browsers.values { browser.tick(at: now) }
    }

    /// Nothing of this is anybody's call, so nobody is told of errors: the next change of the daemon is awaited.
    private func renew(at now: MonotonicInstant) {
        guard let isThere = try? bus.hasOwner(Self.busName, timeout: .seconds(1)), isThere else { return }
        for (id, service) in services where service.group == nil {
            services[id]?.group = try? register(service)
            // A daemon that has only just started refuses for a moment.
            if services[id]?.group == nil { renewAt = now + .seconds(2) }
        }
        for browser in browsers.values where browser.path == nil {
            try? browser.start()
            if browser.path == nil { renewAt = now + .seconds(2) }
        }
    }

    func wait(milliseconds: Int32) {
        let listening = browsers.values.flatMap { browser in browser.sightings.descriptors.map { (browser, $0) } }
        var polled = [
            pollfd(fd: isBroken ? -1 : bus.descriptor, events: bus.events, revents: 0),
            pollfd(fd: wakeup, events: Int16(POLLIN), revents: 0),
        ]
        polled += listening.map { pollfd(fd: $0.1, events: Int16(POLLIN), revents: 0) }
        poll(&polled, nfds_t(polled.count), milliseconds)
        for (index, (browser, _)) in listening.enumerated() where polled[index + 2].revents != 0 { browser.answered() }
        guard !isBroken else { return }
        do throws(BusError) { try bus.process() } catch { broken(error) }
    }

    /// The bus itself has ended, which happens with the whole machine or not at all.
    private func broken(_ error: BusError) {
        let reason = DiscoveryError("the system bus has ended: \(error.text); try again")
        for id in Array(browsers.keys) { end(id, throwing: reason) }
        services = [:]
        isBroken = true
    }

    func close() {
        for browser in browsers.values { browser.close() }
        browsers = [:]
        for id in Array(services.keys) { dropGroup(of: id) }
        services = [:]
    }

    // MARK: Calls and constants

    static func call(_ path: String, _ interface: String, _ member: String, _ arguments: [BusValue] = []) -> BusCall {
        BusCall(
            destination: busName, path: path, interface: "\(busName).\(interface)", member: member, arguments: arguments)
    }

    private static func error(_ error: BusError, _ what: String) -> DiscoveryError {
        DiscoveryError("avahi-daemon does not let us \(what): \(error.text); try the embedded responder")
    }

    // avahi-common/defs.h and address.h.
    static let any: Int32 = -1
    static let familyIPv4: Int32 = 0
    static let familyIPv6: Int32 = 1
    private static let serverRunning: Int32 = 2
    private static let groupCollision: Int32 = 3
    private static let groupFailure: Int32 = 4
    private static let resultIsLocal: UInt32 = 8
}
