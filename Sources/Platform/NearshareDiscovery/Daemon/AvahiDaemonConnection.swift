internal import Glibc
internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces

/// A connection to avahi-daemon over the system bus, on a thread of its own.
///
/// Signals are assigned by their contents rather than by the object that sends them: the daemon may send an object's first
/// signals before the reply that names the object.
final class AvahiDaemonConnection: EventLoop, BrowserOwner {
    static let busName = "org.freedesktop.Avahi"

    private let bus: DBusConnection
    private let wakeup: EventFD
    private let environment: DiscoveryEnvironment
    private var services: [UInt64: Service] = [:]
    var browsers: [UInt64: DaemonBrowser] = [:]
    private var lastID: UInt64 = 0
    /// The time to publish and browse again: the daemon is new, or has refused a request.
    private var renewalDue: MonotonicInstant?
    /// The connection to the bus has ended.
    private var isDisconnected = false
    private var presence = DaemonPresence()
    private let onFallback: (@Sendable (FallbackUse) -> Void)?

    /// The use of another engine while the daemon is away.
    enum FallbackUse: Sendable {
        case publishAndBrowse
        case browse
        case none
    }

    private struct Service {
        var advertisement: Advertisement
        /// The interface that it is restricted to, or ``unspecified``.
        var interface: Int32
        /// The daemon's entry group object; nil while there is none.
        var group: String?
    }

    private static let retryDelay = Duration.seconds(2)
    private static let stateTimeout = Duration.seconds(2)

    /// - Parameters:
    ///   - timeout: for the first reply of the bus.
    ///   - onFallback: called on the connection's thread when another engine is needed, and when it is not needed any more.
    init(
        timeout: Duration, wakeup: EventFD, environment: DiscoveryEnvironment, onFallback: (@Sendable (FallbackUse) -> Void)?
    ) throws(DiscoveryError) {
        self.onFallback = onFallback
        self.wakeup = wakeup
        self.environment = environment
        do throws(DBusError) {
            bus = try DBusConnection()
            guard try bus.hasOwner(Self.busName, timeout: timeout) else {
                throw DBusError("it is not running")
            }
            try subscribeToSignals()
            let state = try bus.call(Self.call("GetState", of: "Server", at: "/"), timeout: timeout).int32()
            if state != DaemonPresence.serverRunning {
                _ = presence.ownerChanged(hasOwner: true, at: environment.now())
            }
        } catch {
            throw DiscoveryError("avahi-daemon is not available: \(error.text); start it, or use the embedded responder")
        }
    }

    private func subscribeToSignals() throws(DBusError) {
        let browser = "org.freedesktop.Avahi.ServiceBrowser"
        let resolver = "org.freedesktop.Avahi.ServiceResolver"
        let group = "org.freedesktop.Avahi.EntryGroup"
        try onSignal("ItemNew", browser) { connection, message in
            connection.forEachBrowser(of: message) { $0.serviceAppeared($1) }
        }
        try onSignal("ItemRemove", browser) { connection, message in
            connection.forEachBrowser(of: message) { $0.serviceDisappeared($1) }
        }
        try onSignal("AllForNow", browser) { connection, message in
            connection.browsers.values.first { $0.path == message.path }?.sightings.recordAllForNow()
        }
        try onSignal("Failure", browser) { connection, message in
            guard let id = connection.browsers.first(where: { $0.value.path == message.path })?.key else { return }
            connection.end(
                id, throwing: DiscoveryError("avahi-daemon cannot browse any more: \(message.string() ?? "unknown error")"))
        }
        try onSignal("Found", resolver) { connection, message in connection.serviceResolved(message) }
        try onSignal("Failure", resolver) { connection, message in
            for browser in connection.browsers.values { browser.resolverFailed(message.path) }
        }
        try onSignal("StateChanged", group) { connection, message in
            let isRefused = [Self.groupCollision, Self.groupFailure].contains(message.int32() ?? 0)
            guard isRefused, let id = connection.services.first(where: { $0.value.group == message.path })?.key else { return }
            connection.freeGroup(of: id)
            // Names are unique by construction: a collision is an attack, or this process itself a moment ago (D8).
            connection.renewalDue = connection.environment.now() + Self.retryDelay
        }
        try onSignal("StateChanged", "org.freedesktop.Avahi.Server") { connection, message in
            guard let code = message.int32() else { return }
            connection.perform(connection.presence.serverState(code, at: connection.environment.now()))
        }
        try bus.onSignal(
            "NameOwnerChanged", of: DBusConnection.name, from: DBusConnection.name, where: "arg0='\(Self.busName)'"
        ) { [unowned self] message in
            guard message.string() == Self.busName, message.string() != nil, let owner = message.string() else { return }
            perform(presence.ownerChanged(hasOwner: !owner.isEmpty, at: environment.now()))
        }
    }

    private func onSignal(
        _ member: String, _ interface: String, _ handler: @escaping (AvahiDaemonConnection, DBusMessage) -> Void
    ) throws(DBusError) {
        try bus.onSignal(member, of: interface, from: Self.busName) { [unowned self] message in handler(self, message) }
    }

    // MARK: Presence

    private func perform(_ reactions: [DaemonPresence.Reaction]) {
        for reaction in reactions {
            switch reaction {
            case .release: release()
            case .queryState: queryState()
            case .startFallback: onFallback?(.publishAndBrowse)
            case .stopFallbackPublishing: onFallback?(.browse)
            case .renew: renewalDue = environment.now()
            case .stopFallback: onFallback?(.none)
            }
        }
    }

    /// The objects of the old daemon have ended with it. Its view of the network is probably still right: the new daemon has
    /// ten seconds to confirm it.
    private func release() {
        for id in services.keys { services[id]?.group = nil }
        for browser in browsers.values { browser.daemonEnded() }
        renewalDue = nil
    }

    private func queryState() {
        try? bus.call(Self.call("GetState", of: "Server", at: "/"), timeout: Self.stateTimeout) { [weak self] result in
            guard let self, let code = try? result.get().int32() else { return }
            // The reply of a daemon that runs already says nothing new.
            guard presence.state == .starting else { return }
            perform(presence.serverState(code, at: environment.now()))
        }
    }

    // MARK: Publishing

    func publish(_ advertisement: Advertisement) throws(DiscoveryError) -> UInt64 {
        let interface = try advertisement.interface.map { name throws(DiscoveryError) in try NetworkInterface.index(of: name) }
        var service = Service(advertisement: advertisement, interface: interface ?? Self.unspecified)
        do throws(DBusError) {
            // Without the daemon, the service is published when it returns.
            if presence.state == .running { service.group = try register(service) }
        } catch {
            guard isGone(error) else { throw Self.error(error, "advertise") }
        }
        lastID += 1
        services[lastID] = service
        return lastID
    }

    /// Whether the daemon has ended, as far as a failed call tells: NameOwnerChanged is about to arrive.
    private func isGone(_ error: DBusError) -> Bool {
        onFallback != nil && error.name?.hasPrefix(Self.busName) != true
    }

    func update(_ id: UInt64, txt: [[UInt8]]) throws(DiscoveryError) {
        guard let service = services[id] else { throw DiscoveryError("the advertisement has been stopped") }
        services[id]?.advertisement.txt = txt
        // Without an entry group, the text is published with the next one.
        guard let group = service.group else { return }
        do throws(DBusError) {
            _ = try bus.call(
                Self.call(
                    "UpdateServiceTxt", of: "EntryGroup", at: group,
                    with: [
                        .int32(service.interface), .int32(Self.unspecified), .uint32(0),
                        .string(service.advertisement.instance),
                        .string(service.advertisement.type.tcp), .string(""), .byteArrays(txt),
                    ]))
        } catch {
            // The next entry group has the text.
            guard isGone(error) else { throw Self.error(error, "update the advertisement") }
        }
    }

    func withdraw(_ id: UInt64) {
        freeGroup(of: id)
        services[id] = nil
        bus.flush()
    }

    private func freeGroup(of id: UInt64) {
        guard let group = services[id]?.group else { return }
        services[id]?.group = nil
        try? bus.send(Self.call("Free", of: "EntryGroup", at: group))
    }

    private func register(_ service: Service) throws(DBusError) -> String {
        let advertisement = service.advertisement
        guard let group = try bus.call(Self.call("EntryGroupNew", of: "Server", at: "/")).objectPath() else {
            throw DBusError("unexpected reply")
        }
        do throws(DBusError) {
            _ = try bus.call(
                Self.call(
                    "AddService", of: "EntryGroup", at: group,
                    with: [
                        .int32(service.interface), .int32(Self.unspecified), .uint32(0), .string(advertisement.instance),
                        .string(advertisement.type.tcp), .string(""), .string(""), .uint16(advertisement.port),
                        .byteArrays(advertisement.txt),
                    ]))
            _ = try bus.call(Self.call("Commit", of: "EntryGroup", at: group))
        } catch {
            try? bus.send(Self.call("Free", of: "EntryGroup", at: group))
            throw error
        }
        return group
    }

    // MARK: Browsing

    func browse(
        _ type: ServiceType, interface: String?, to continuation: SightingAggregator.Continuation
    ) throws(DiscoveryError) -> UInt64 {
        let index = try interface.map { name throws(DiscoveryError) in try NetworkInterface.index(of: name) }
        do throws(DBusError) {
            let browser = DaemonBrowser(
                type: type, interface: index, bus: bus,
                sightings: SightingAggregator(
                    for: type, interface: interface, continuation: continuation, environment: environment))
            do throws(DBusError) {
                if presence.state == .running { try browser.start() }
            } catch {
                guard isGone(error) else { throw error }
            }
            lastID += 1
            browsers[lastID] = browser
            return lastID
        } catch {
            throw Self.error(error, "browse")
        }
    }

    /// Passes ItemNew or ItemRemove (`iisssu`) to the browsers that match.
    private func forEachBrowser(of message: DBusMessage, _ body: (DaemonBrowser, ServiceSighting.Key) -> Void) {
        guard let (key, type) = serviceKey(message) else { return }
        for browser in browsers.values where browser.matches(type: type, interface: key.interfaceIndex) { body(browser, key) }
    }

    /// Reads interface, family, name and type, with which all signals about a service begin.
    private func serviceKey(_ message: DBusMessage) -> (key: ServiceSighting.Key, type: String)? {
        guard let index = message.int32(), let family = message.int32(), let name = message.string(),
            let type = message.string(), let instance = ServiceSighting.instance(Array(name.utf8))
        else { return nil }
        return (ServiceSighting.Key(instance: instance, interfaceIndex: index, isIPv6: family == Self.familyIPv6), type)
    }

    /// Found, `iissssisqaayu`: interface, family, name, type, domain, host, the address' family, address, port, TXT, flags. The
    /// TXT strings come in the order of avahi's lists, from the last to the first, while those to publish are expected from the
    /// first.
    private func serviceResolved(_ message: DBusMessage) {
        guard let (key, type) = serviceKey(message), message.string() != nil, message.string() != nil,
            message.int32() != nil, let text = message.string(), let port = message.uint16(),
            let txt = message.byteArrays(), let flags = message.uint32(), let address = IPAddress(text: text)
        else { return }
        for browser in browsers.values where browser.matches(type: type, interface: key.interfaceIndex) {
            browser.serviceResolved(
                key, at: address, port: port, txt: txt.reversed(), isOwn: flags & Self.resultIsLocal != 0)
        }
    }

    // MARK: Event loop

    func nextDeadline(after now: MonotonicInstant) -> MonotonicInstant? {
        ([renewalDue, presence.nextDeadline, isDisconnected ? nil : bus.deadline]
            + browsers.values.map(\.sightings.nextDeadline))
            .compactMap(\.self).min()
    }

    func tick(at now: MonotonicInstant) {
        perform(presence.tick(at: now))
        if let due = renewalDue, now >= due {
            renewalDue = nil
            renew(at: now)
        }
        for browser in browsers.values { browser.tick(at: now) }
    }

    /// Publishes and browses again. Errors have no caller: the daemon's next change, or the next try, follows.
    private func renew(at now: MonotonicInstant) {
        guard presence.state == .running else { return }
        for (id, service) in services where service.group == nil {
            services[id]?.group = try? register(service)
            // A daemon that has only just started refuses for a moment.
            if services[id]?.group == nil { renewalDue = now + Self.retryDelay }
        }
        for browser in browsers.values where browser.path == nil {
            try? browser.start()
            if browser.path == nil { renewalDue = now + Self.retryDelay }
        }
    }

    func wait(timeout: Duration?) {
        let sockets = browsers.values.flatMap { browser in browser.sightings.descriptors.map { (browser, $0) } }
        var descriptors = [
            (descriptor: isDisconnected ? -1 : bus.descriptor, events: isDisconnected ? [] : bus.events),
            (descriptor: wakeup.descriptor, events: .readable),
        ]
        descriptors += sockets.map { (descriptor: $0.1, events: DescriptorPoll.Events.readable) }
        let events = DescriptorPoll.wait(for: descriptors, timeout: timeout)
        for ((browser, _), events) in zip(sockets, events.dropFirst(2)) where !events.isEmpty { browser.receiveAnswers() }
        guard !isDisconnected else { return }
        do throws(DBusError) { try bus.process() } catch { disconnected(error) }
    }

    /// The system bus ends with the machine, or not at all.
    private func disconnected(_ error: DBusError) {
        // Before the browsers end: a subscriber that has another engine is not told.
        perform(presence.disconnect())
        let reason = DiscoveryError("the system bus is not available any more: \(error.text); try again")
        for id in Array(browsers.keys) { end(id, throwing: reason) }
        services = [:]
        isDisconnected = true
    }

    func close() {
        for browser in browsers.values { browser.close() }
        browsers = [:]
        for id in Array(services.keys) { freeGroup(of: id) }
        services = [:]
    }

    // MARK: Calls and constants

    static func call(
        _ member: String, of interface: String, at path: String, with arguments: [DBusValue] = []
    ) -> DBusMethodCall {
        DBusMethodCall(
            destination: busName, path: path, interface: "\(busName).\(interface)", member: member, arguments: arguments)
    }

    private static func error(_ error: DBusError, _ action: String) -> DiscoveryError {
        DiscoveryError("avahi-daemon cannot \(action): \(error.text); try the embedded responder")
    }

    // avahi-common/defs.h and address.h.
    static let unspecified: Int32 = -1
    static let familyIPv4: Int32 = 0
    static let familyIPv6: Int32 = 1
    private static let groupCollision: Int32 = 3
    private static let groupFailure: Int32 = 4
    private static let resultIsLocal: UInt32 = 8
}
