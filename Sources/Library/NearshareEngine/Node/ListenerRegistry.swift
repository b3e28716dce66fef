internal import NearshareInterfaces

/// The listeners of a node, and what it advertises.
struct ListenerRegistry {
    private var listeners: [any StreamListener] = []
    private var advertisements: [any RunningAdvertisement] = []
    /// The types under which this node has advertised itself, or its program has browsed: sessions find members under them.
    private(set) var services: Set<ServiceType> = []
    /// The listeners of ``Node/listen(as:info:port:usesRadio:joinsMesh:)``, one for each type.
    private var received: [ServiceType: Listener] = [:]

    /// The port of the first listener; nil for none.
    var port: UInt16? { listeners.first?.port }

    mutating func insert(_ listener: (any StreamListener)?, _ advertisement: (any RunningAdvertisement)?) {
        if let listener { listeners.append(listener) }
        if let advertisement { advertisements.append(advertisement) }
    }

    mutating func insert(_ service: ServiceType) { services.insert(service) }

    /// Records the listener for its type, unless there is one.
    /// - Returns: the listener that there is; nil for none.
    mutating func beginReceiving(_ listener: Listener) -> Listener? {
        if let present = received[listener.service] { return present }
        received[listener.service] = listener
        return nil
    }

    mutating func endReceiving(_ listener: Listener) {
        if received[listener.service]?.endpoint === listener.endpoint { received[listener.service] = nil }
    }

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
