internal import NearshareInterfaces

/// The services that a browser resolves, and those that wait: a value, bounded against floods of names without answers.
///
///     waiting → resolving → followed;   resolving → retried once → dropped, when no answer arrives
struct ResolutionQueue {
    typealias Key = ServiceSighting.Key

    /// A change of what has to be resolved.
    struct Start: Equatable {
        let key: Key
        /// A followed service that gives way: it stays a sighting, but its changes are missed from now on.
        var evicted: Key?
    }

    private var waiting: [Key] = []
    private var retries: [Key] = []
    private var retried: Set<Key> = []
    private var resolving: Set<Key> = []
    private var followed: Set<Key> = []
    private let retriesOnce: Bool

    /// Each resolution asks several questions of the network.
    static let maximumResolvingCount = 64
    /// Resolved services whose changes are followed. avahi-daemon allows a client 1024 objects.
    static let maximumFollowedCount = 256
    static let maximumWaitingCount = 1024

    /// - Parameter retriesOnce: whether a service without an answer is resolved once more, after all others.
    init(retriesOnce: Bool) {
        self.retriesOnce = retriesOnce
    }

    /// Whether some services are announced and not resolved yet.
    var isResolving: Bool { !resolving.isEmpty || !waiting.isEmpty }

    /// The services that are being resolved.
    var resolvingKeys: Set<Key> { resolving }

    func contains(_ key: Key) -> Bool { followed.contains(key) || resolving.contains(key) }

    /// Queues an announced service. Call ``next()`` until it returns nil.
    mutating func announce(_ key: Key) {
        guard !contains(key), !waiting.contains(key) else { return }
        waiting.append(key)
        if waiting.count > Self.maximumWaitingCount { waiting.removeFirst() }
    }

    /// The next service to resolve, newest first, so that a newcomer is not delayed by a flood of earlier names.
    mutating func next() -> Start? {
        while resolving.count < Self.maximumResolvingCount, let key = dequeue() {
            guard !contains(key) else { continue }
            var evicted: Key?
            if resolving.count + followed.count >= Self.maximumFollowedCount { evicted = followed.popFirst() }
            resolving.insert(key)
            return Start(key: key, evicted: evicted)
        }
        return nil
    }

    private mutating func dequeue() -> Key? {
        if let newest = waiting.popLast() { return newest }
        guard !retries.isEmpty else { return nil }
        let key = retries.removeFirst()
        retried.insert(key)
        return key
    }

    /// Records that all records of the service are known; it is followed from now on.
    mutating func resolve(_ key: Key) {
        guard resolving.remove(key) != nil else { return }
        retried.remove(key)
        followed.insert(key)
    }

    /// Records that no answer has arrived in time.
    mutating func fail(_ key: Key) {
        let wasRetry = retried.contains(key)
        stop(key)
        if retriesOnce, !wasRetry, retries.count < Self.maximumWaitingCount { retries.append(key) }
    }

    /// Stops resolving or following a service, for instance because its sighting was evicted.
    mutating func stop(_ key: Key) {
        resolving.remove(key)
        followed.remove(key)
        retried.remove(key)
    }

    /// Removes a service that has said goodbye.
    mutating func remove(_ key: Key) {
        waiting.removeAll { $0 == key }
        retries.removeAll { $0 == key }
        stop(key)
    }

    mutating func removeAll() { self = ResolutionQueue(retriesOnce: retriesOnce) }
}
