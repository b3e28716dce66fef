internal import NearshareInterfaces

/// The listeners of a node, and what it advertises.
struct ListenerRegistry {
    private var listeners: [any StreamListener] = []
    private var advertisements: [any RunningAdvertisement] = []
    /// The types under which this node has advertised itself, or its program has browsed: sessions find members under them.
    private(set) var services: Set<ServiceType> = []
    /// The types under which ``Node/listen(as:info:port:usesRadio:joinsMesh:)`` receives.
    private var received: Set<ServiceType> = []

    /// The port of the first listener; nil for none.
    var port: UInt16? { listeners.first?.port }

    mutating func insert(_ listener: any StreamListener, _ advertisement: (any RunningAdvertisement)?) {
        listeners.append(listener)
        if let advertisement { advertisements.append(advertisement) }
    }

    mutating func insert(_ service: ServiceType) { services.insert(service) }

    /// - Returns: false where there is a listener for the type.
    mutating func beginReceiving(_ service: ServiceType) -> Bool { received.insert(service).inserted }

    mutating func endReceiving(_ service: ServiceType) { received.remove(service) }

    mutating func remove(_ listener: any StreamListener) { listeners.removeAll { $0 === listener } }

    mutating func remove(_ advertisement: any RunningAdvertisement) { advertisements.removeAll { $0 === advertisement } }

    /// Removes all.
    /// - Returns: what is to be closed.
    mutating func removeAll() -> ListenerRegistry {
        defer { self = ListenerRegistry() }
        return self
    }

    /// Withdraws the advertisements, then closes the listeners.
    func close() {
        for advertisement in advertisements { advertisement.stop() }
        for listener in listeners { listener.close() }
    }
}
