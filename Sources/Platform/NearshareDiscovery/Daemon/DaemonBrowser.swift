internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces

/// One browser, and the daemon's objects that serve it. Belongs to the thread of its connection.
final class DaemonBrowser: ServiceBrowser {
    let sightings: SightingAggregator
    /// The daemon's browser object; nil while there is none.
    private(set) var path: String?
    private let type: ServiceType
    private let interface: Int32?
    private let bus: DBusConnection
    private var queue = ResolutionQueue(retriesOnce: false)
    /// The daemon's resolver object of each service.
    private var resolvers: [ServiceSighting.Key: Resolver] = [:]

    private enum Resolver: Equatable {
        /// The call that creates it is under way.
        case requested
        case object(String)
    }

    private static let callTimeout = Duration.seconds(5)

    init(type: ServiceType, interface: Int32?, bus: DBusConnection, sightings: SightingAggregator) {
        self.type = type
        self.interface = interface
        self.bus = bus
        self.sightings = sightings
    }

    func start() throws(DBusError) {
        let call = AvahiDaemonConnection.call(
            "ServiceBrowserNew", of: "Server", at: "/",
            with: [
                .int32(interface ?? AvahiDaemonConnection.unspecified), .int32(AvahiDaemonConnection.unspecified),
                .string(type.tcp), .string(""), .uint32(0),
            ])
        guard let path = try bus.call(call).objectPath() else { throw DBusError("unexpected reply") }
        self.path = path
    }

    /// Whether signals about services of this type on this interface are for this browser.
    func matches(type: String, interface: Int32) -> Bool {
        type == self.type.tcp && (self.interface ?? interface) == interface
    }

    func tick(at now: MonotonicInstant) { sightings.tick(at: now, isResolving: queue.isResolving) }

    /// The daemon has ended, and its objects with it.
    func daemonEnded() {
        path = nil
        resolvers = [:]
        queue.removeAll()
        sightings.requireConfirmation()
    }

    func close() {
        for resolver in resolvers.values { free(resolver) }
        if let path { free(path, "ServiceBrowser") }
        path = nil
        resolvers = [:]
        queue.removeAll()
    }

    // MARK: Signals of the daemon

    func serviceAppeared(_ key: ServiceSighting.Key) {
        queue.announce(key)
        resolveNext()
    }

    func serviceDisappeared(_ key: ServiceSighting.Key) {
        queue.remove(key)
        freeResolver(of: key)
        sightings.remove(key)
        resolveNext()
    }

    func serviceResolved(_ key: ServiceSighting.Key, at address: IPAddress, port: UInt16, txt: [[UInt8]], isOwn: Bool) {
        // The signal may come from a resolver that was freed meanwhile.
        guard resolvers[key] != nil else { return }
        queue.resolve(key)
        sightings.record(key, at: address, port: port, txt: txt, isOwn: isOwn).forEach(stop)
        resolveNext()
    }

    /// A resolver has found nothing within the daemon's timeout.
    func resolverFailed(_ path: String) {
        guard let key = resolvers.first(where: { $0.value == .object(path) })?.key else { return }
        queue.fail(key)
        freeResolver(of: key)
        resolveNext()
    }

    func receiveAnswers() { sightings.receiveAnswers().forEach(stop) }

    // MARK: Resolution

    private func resolveNext() {
        while let start = queue.next() {
            if let evicted = start.evicted { freeResolver(of: evicted) }
            resolve(start.key)
        }
    }

    private func resolve(_ key: ServiceSighting.Key) {
        let family = key.isIPv6 ? AvahiDaemonConnection.familyIPv6 : AvahiDaemonConnection.familyIPv4
        let call = AvahiDaemonConnection.call(
            "ServiceResolverNew", of: "Server", at: "/",
            with: [
                .int32(key.interfaceIndex), .int32(family), .string(key.instance), .string(type.tcp), .string("local"),
                .int32(family), .uint32(0),
            ])
        resolvers[key] = .requested
        do throws(DBusError) {
            try bus.call(call, timeout: Self.callTimeout) { [weak self] result in
                self?.resolverCreated(for: key, try? result.get().objectPath())
            }
        } catch {
            stop(key)
        }
    }

    private func resolverCreated(for key: ServiceSighting.Key, _ path: String?) {
        guard let path else { return stop(key) }
        if resolvers[key] == .requested { resolvers[key] = .object(path) } else { free(.object(path)) }
    }

    private func stop(_ key: ServiceSighting.Key) {
        queue.stop(key)
        freeResolver(of: key)
    }

    private func freeResolver(of key: ServiceSighting.Key) {
        if let resolver = resolvers.removeValue(forKey: key) { free(resolver) }
    }

    private func free(_ resolver: Resolver) {
        if case .object(let path) = resolver { free(path, "ServiceResolver") }
    }

    /// When the connection has ended, the daemon has freed its objects.
    private func free(_ path: String, _ interface: String) {
        try? bus.send(AvahiDaemonConnection.call("Free", of: interface, at: path))
    }
}
