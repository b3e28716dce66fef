internal import NearshareBase
internal import NearshareInterfaces

/// Converts the claims of a browser's engine and of its ``LegacyUnicastQuery`` to events: checks claims, merges them, marks
/// this machine's own services, and yields to the subscriber. Belongs to the thread of its engine.
final class SightingAggregator {
    typealias Continuation = AsyncThrowingStream<DiscoveryEvent, any Error>.Continuation

    let continuation: Continuation
    private let environment: DiscoveryEnvironment
    private var table = SightingTable()
    private var localAddresses = LocalAddresses()
    private var query: LegacyUnicastQuery?
    private var settling: Settling

    init(
        for type: ServiceType, interface: String?, continuation: Continuation, environment: DiscoveryEnvironment
    ) {
        self.continuation = continuation
        self.environment = environment
        let now = environment.now()
        settling = Settling(startedAt: now)
        let interfaces = localAddresses.interfaces(at: now).filter { interface == nil || $0.name == interface }
        query = LegacyUnicastQuery(
            for: type, id: UInt16(truncatingIfNeeded: environment.random()), on: interfaces, at: now)
    }

    var nextDeadline: MonotonicInstant? {
        [query?.nextDeadline, settling.nextDeadline, table.nextDeadline].compactMap(\.self).min()
    }

    /// - Parameter isResolving: whether the engine knows services that it has not resolved yet.
    func tick(at now: MonotonicInstant, isResolving: Bool) {
        query?.retransmitIfDue(at: now)
        if let isFinished = query?.isFinished(at: now), isFinished { query = nil }
        emit(table.expire(at: now))
        if settling.tick(at: now, isResolving: isResolving) { continuation.yield(.settled) }
    }

    /// The engine has reported all services that it knows for now (avahi's ALL_FOR_NOW).
    func recordAllForNow() { settling.recordAllForNow() }

    /// Records a claim of a service, of the engine or of a unicast answer.
    /// - Parameters:
    ///   - isOwn: whether the engine knows that this machine publishes the service; its address may tell, too.
    ///   - deadline: when the claim ends unless the engine confirms it; nil for claims of the engine.
    /// - Returns: the keys of services that had to give way.
    func record(
        _ key: ServiceSighting.Key, at address: IPAddress, port: UInt16, txt: [[UInt8]], isOwn: Bool = false,
        until deadline: MonotonicInstant? = nil
    ) -> [ServiceSighting.Key] {
        let now = environment.now()
        let interface = localAddresses.interfaces(at: now).first { $0.index == key.interfaceIndex }
        let claim = ServiceClaim(
            instance: Array(key.instance.utf8), address: address, port: port, txt: txt, interfaceIndex: key.interfaceIndex,
            interfaceName: interface?.name ?? interfaceName(of: key.interfaceIndex),
            isOnLoopback: interface?.isLoopback ?? false, isIPv6: key.isIPv6,
            isOwn: isOwn || localAddresses.contains(address, at: now))
        guard let sighting = ServiceSighting(claim) else { return [] }
        let events = table.insert(sighting, until: deadline)
        emit(events)
        return events.compactMap { if case .gone(let key) = $0 { key } else { nil } }
    }

    func remove(_ key: ServiceSighting.Key) { emit(table.remove(key)) }

    /// Requires confirmation after a restart of the engine: services that it does not confirm in time are removed.
    func requireConfirmation() { table.markUnconfirmed(until: environment.now() + Self.confirmationTimeout) }

    func localAddressesChanged() { localAddresses.invalidate() }

    /// The sockets on which unicast answers arrive.
    var descriptors: [Int32] { query?.descriptors ?? [] }

    /// Records the unicast answers that have arrived.
    /// - Returns: the keys of services that had to give way.
    func receiveAnswers() -> [ServiceSighting.Key] {
        guard let answers = query?.receiveAnswers() else { return [] }
        let deadline = environment.now() + LegacyUnicastQuery.answerTTL
        return answers.flatMap { answer in
            record(answer.key, at: answer.service.address, port: answer.service.port, txt: answer.service.txt, until: deadline)
        }
    }

    private func emit(_ events: [DiscoveryEvent]) {
        for event in events { continuation.yield(event) }
    }

    private static let confirmationTimeout: Duration = .seconds(10)
}

/// Decides when a browser has seen all services that were there when it started: a value.
struct Settling {
    private let startedAt: MonotonicInstant
    private var hasAllForNow = false
    /// The time of the next decision; nil once settled.
    private(set) var nextDeadline: MonotonicInstant?

    /// A responder that has just multicast an answer suppresses the same answer for one second (RFC 6762, section 6); measured
    /// answers to a question in that second arrive after 1.14 to 1.16 s.
    static let minimumTime: Duration = .milliseconds(1500)
    /// Services that announce themselves and do not answer delay settling no longer than this.
    static let maximumTime: Duration = .milliseconds(4000)

    init(startedAt: MonotonicInstant) {
        self.startedAt = startedAt
        nextDeadline = startedAt + Self.minimumTime
    }

    /// Records that all services that are known for now were reported.
    mutating func recordAllForNow() { hasAllForNow = true }

    /// - Returns: true once, when settled.
    mutating func tick(at now: MonotonicInstant, isResolving: Bool) -> Bool {
        guard nextDeadline != nil, now >= startedAt + Self.minimumTime else { return false }
        guard (hasAllForNow && !isResolving) || now >= startedAt + Self.maximumTime else {
            nextDeadline = startedAt + Self.maximumTime
            return false
        }
        nextDeadline = nil
        return true
    }
}
