internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces

/// One browser, and the daemon's objects that serve it. Belongs to the connection's thread.
final class DaemonBrowser {
    let sightings: Sightings
    /// The daemon's browser object; nil while it has none of ours.
    private(set) var path: String?
    private let type: ServiceType
    private let interface: Int32?
    private let bus: SystemBus
    /// Of each service that the daemon follows for us, its resolver object; nil until it is named.
    private var resolvers: [ServiceSighting.Key: String?] = [:]
    private var unresolved: Set<ServiceSighting.Key> = []
    private var waiting: [ServiceSighting.Key] = []

    init(type: ServiceType, interface: Int32?, bus: SystemBus, sightings: Sightings) {
        self.type = type
        self.interface = interface
        self.bus = bus
        self.sightings = sightings
    }

    func start() throws(BusError) {
        let call = AvahiDaemon.call(
            "/", "Server", "ServiceBrowserNew",
            [.int32(interface ?? AvahiDaemon.any), .int32(AvahiDaemon.any), .string(type.tcp), .string(""), .uint32(0)])
        guard let path = try bus.call(call).objectPath() else { throw BusError("its answer makes no sense") }
        self.path = path
    }

    func wants(type: String, interface: Int32) -> Bool {
        type == self.type.tcp && (self.interface ?? interface) == interface
    }

    func tick(at now: MonotonicInstant) {
        sightings.tick(at: now, isResolving: !unresolved.isEmpty || !waiting.isEmpty)
    }

    /// They have ended with the daemon that had them.
    func forgetObjects() {
        path = nil
        resolvers = [:]
        unresolved = []
        waiting = []
    }

    func close() {
        for resolver in resolvers.values { free(resolver, "ServiceResolver") }
        free(path, "ServiceBrowser")
        forgetObjects()
    }

    // MARK: What the daemon tells

    func appeared(_ key: ServiceSighting.Key) {
        guard resolvers[key] == nil, !waiting.contains(key) else { return }
        waiting.append(key)
        if waiting.count > Self.maximumWaiting { waiting.removeFirst() }
        resolveMore()
    }

    func disappeared(_ key: ServiceSighting.Key) {
        waiting.removeAll { $0 == key }
        forget(key)
        sightings.lose(key)
        resolveMore()
    }

    func resolved(_ key: ServiceSighting.Key, at address: IPAddress, port: UInt16, txt: [[UInt8]], isOwn: Bool) {
        // Of a resolver that was given up meanwhile.
        guard resolvers[key] != nil else { return }
        unresolved.remove(key)
        sightings.see(key, at: address, port: port, txt: txt, isOwn: isOwn).forEach(forget)
        resolveMore()
    }

    /// A resolver has found nothing in the time that the daemon gives it.
    func failed(_ resolver: String) {
        guard let key = resolvers.first(where: { $0.value == resolver })?.key else { return }
        forget(key)
        resolveMore()
    }

    func answered() {
        sightings.hear().forEach(forget)
    }

    private func resolveMore() {
        // The newest first: behind a flood of names that nobody answers for, somebody who comes now is not kept waiting.
        while unresolved.count < Self.maximumUnresolved, let key = waiting.popLast() {
            // One that is followed loses its place, but not its sighting: only its changes are missed from now on.
            if resolvers.count >= Self.maximumFollowed, let one = resolvers.keys.first(where: { !unresolved.contains($0) }) {
                forget(one)
            }
            resolve(key)
        }
    }

    private func resolve(_ key: ServiceSighting.Key) {
        let family = key.isIPv6 ? AvahiDaemon.familyIPv6 : AvahiDaemon.familyIPv4
        let call = AvahiDaemon.call(
            "/", "Server", "ServiceResolverNew",
            [
                .int32(key.interfaceIndex), .int32(family), .string(key.instance), .string(type.tcp), .string("local"),
                .int32(family), .uint32(0),
            ])
        resolvers[key] = .some(nil)
        unresolved.insert(key)
        let named: (Result<BusMessage, BusError>) -> Void = { [weak self] result in
            self?.named(key, try? result.get().objectPath())
        }
        do throws(BusError) { try bus.call(call, timeout: .seconds(5), then: named) } catch { forget(key) }
    }

    private func named(_ key: ServiceSighting.Key, _ resolver: String?) {
        guard let resolver else { return forget(key) }
        if resolvers[key] == .some(nil) { resolvers[key] = resolver } else { free(resolver, "ServiceResolver") }
    }

    private func forget(_ key: ServiceSighting.Key) {
        unresolved.remove(key)
        if let resolver = resolvers.removeValue(forKey: key) { free(resolver, "ServiceResolver") }
    }

    private func free(_ object: String?, _ interface: String) {
        guard let object else { return }
        // When the connection has ended, the daemon has freed it.
        try? bus.send(AvahiDaemon.call(object, interface, "Free"))
    }

    /// Within the daemon's limit of 1024 objects for one client.
    private static let maximumFollowed = 256
    private static let maximumUnresolved = 64
    /// Names that a flood may leave in the queue.
    private static let maximumWaiting = 1024
}
