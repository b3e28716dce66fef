internal import NearshareBase
internal import NearshareInterfaces

/// One browser's way from claims to events: checks, joins, marks what is our own, and delivers. Belongs to one thread.
final class Sightings {
    typealias Continuation = AsyncThrowingStream<DiscoveryEvent, any Error>.Continuation

    let continuation: Continuation
    private var table = SightingTable()
    private var own = OwnAddresses()
    private var question: LegacyUnicastQuery?
    private let started: MonotonicInstant
    private var hasEngineAll = false
    /// When it may be settled next; nil once it is. What the engine finds out before makes it look as well.
    private var settleAt: MonotonicInstant?

    init(for type: ServiceType, interface: String?, continuation: Continuation) {
        self.continuation = continuation
        started = .now
        settleAt = started + Self.timeout
        let interfaces = own.interfaces(at: started).filter { interface == nil || $0.name == interface }
        question = LegacyUnicastQuery(for: type, on: interfaces, at: started)
    }

    var nextDeadline: MonotonicInstant? {
        var deadlines: [MonotonicInstant] = []
        if let next = question?.nextDeadline { deadlines.append(next) }
        if let settleAt { deadlines.append(settleAt) }
        if let next = table.nextDeadline { deadlines.append(next) }
        return deadlines.min()
    }

    /// - Parameter isResolving: the engine knows of services of which it does not know all yet.
    func tick(at now: MonotonicInstant, isResolving: Bool) {
        question?.tick(at: now)
        if let isOver = question?.isOver(at: now), isOver { question = nil }
        deliver(table.expire(at: now))
        settle(at: now, isResolving: isResolving)
    }

    /// The engine says that no more will come for now.
    func engineHasAll() { hasEngineAll = true }

    /// What somebody claims of a service: the engine, or a quick answer that counts until `deadline`.
    /// - Parameter isOwn: the engine knows that this machine publishes it; by its address it may be known as well.
    /// - Returns: the keys of those that had to give way to it.
    func see(
        _ key: ServiceSighting.Key, at address: IPAddress, port: UInt16, txt: [[UInt8]], isOwn: Bool = false,
        until deadline: MonotonicInstant? = nil
    ) -> [ServiceSighting.Key] {
        let now = MonotonicInstant.now
        let interface = own.interfaces(at: now).first { $0.index == key.interfaceIndex }
        let claim = ServiceClaim(
            instance: Array(key.instance.utf8), address: address, port: port, txt: txt, interfaceIndex: key.interfaceIndex,
            interfaceName: interface?.name ?? interfaceName(of: key.interfaceIndex),
            isOnLoopback: interface?.isLoopback ?? false, isIPv6: key.isIPv6,
            isOwn: isOwn || own.contains(address, at: now))
        guard let sighting = ServiceSighting(claim) else { return [] }
        let events = table.insert(sighting, until: deadline)
        deliver(events)
        return events.compactMap { if case .gone(let key) = $0 { key } else { nil } }
    }

    func lose(_ key: ServiceSighting.Key) { deliver(table.remove(key)) }

    /// The engine starts anew: what it does not see again before long is gone.
    func doubtAll() { table.markUnconfirmed(until: .now + Self.doubt) }

    func forgetOwnAddresses() { own.forget() }

    /// Descriptors on which answers to the one-shot question may come.
    var descriptors: [Int32] { question?.descriptors ?? [] }

    func hear() -> [ServiceSighting.Key] {
        guard let answers = question?.answers() else { return [] }
        let deadline = MonotonicInstant.now + LegacyUnicastQuery.answerLifetime
        return answers.flatMap { answer in
            see(answer.key, at: answer.service.address, port: answer.service.port, txt: answer.service.txt, until: deadline)
        }
    }

    private func settle(at now: MonotonicInstant, isResolving: Bool) {
        guard settleAt != nil, now >= started + Self.timeout else { return }
        guard (hasEngineAll && !isResolving) || now >= started + Self.limit else {
            settleAt = started + Self.limit
            return
        }
        settleAt = nil
        continuation.yield(.settled)
    }

    private func deliver(_ events: [DiscoveryEvent]) {
        for event in events { continuation.yield(event) }
    }

    /// A responder that has just answered somebody else keeps silent for a second (RFC 6762, section 6): who asks then is
    /// answered after 1.14 to 1.16 s by measurement.
    private static let timeout: Duration = .milliseconds(1500)
    private static let doubt: Duration = .seconds(10)
    /// With services that announce themselves and then do not answer, it is settled all the same.
    private static let limit: Duration = .milliseconds(4000)
}
