internal import NearshareInterfaces
internal import Synchronization

/// Discovery through avahi-daemon, and through a responder of this process while the daemon is away.
///
/// The daemon's engine keeps its advertisements and browsers while the daemon is away, and renews them when it returns. Then
/// the responder withdraws what it has published before the daemon publishes; it browses on until the daemon's browsers have
/// seen what is there.
final class FallbackDiscovery: Discovery {
    var engine: String { daemon.engine }

    private let daemon: DaemonDiscovery
    private let members: Members

    /// - Parameters:
    ///   - makeFallback: creates the discovery that is used while the daemon is away.
    ///   - report: receives a message for the user when the daemon stops, and when it is back.
    init(
        timeout: Duration, environment: DiscoveryEnvironment, makeFallback: @escaping @Sendable () -> any Discovery,
        report: @escaping @Sendable (String) -> Void
    ) throws(DiscoveryError) {
        let members = Members(makeFallback: makeFallback, report: report)
        daemon = try DaemonDiscovery(timeout: timeout, environment: environment, onFallback: { members.use($0) })
        self.members = members
    }

    func advertise(_ advertisement: Advertisement) throws(DiscoveryError) -> any RunningAdvertisement {
        let member = AdvertisedService(try daemon.advertise(advertisement), advertisement)
        members.add(member)
        return FallbackAdvertisement(member)
    }

    func browse(
        for type: ServiceType, interface: String?
    ) throws(DiscoveryError) -> AsyncThrowingStream<DiscoveryEvent, any Error> {
        let (stream, continuation) = DiscoveryEvent.makeStream()
        let member = FallbackBrowser(type, interface, continuation)
        member.follow(try daemon.browse(for: type, interface: interface), as: .daemon)
        members.add(member)
        continuation.onTermination = { _ in member.end() }
        return stream
    }
}

/// An advertisement or a browser, which also uses the fallback while there is one.
private protocol FallbackMember: AnyObject, Sendable {
    var isEnded: Bool { get }
    /// - Parameter fallback: nil to stop using it.
    func use(_ fallback: (any Discovery)?, publishes: Bool)
}

/// The advertisements and browsers in use, and the fallback while there is one.
private final class Members: Sendable {
    private struct State {
        var members: [any FallbackMember] = []
        var fallback: (any Discovery)?
        var publishes = false
    }

    // Held while members start and stop: neither waits for the daemon's thread, which calls `use(_:)`.
    private let state = Mutex(State())
    private let makeFallback: @Sendable () -> any Discovery
    private let report: @Sendable (String) -> Void

    init(makeFallback: @escaping @Sendable () -> any Discovery, report: @escaping @Sendable (String) -> Void) {
        self.makeFallback = makeFallback
        self.report = report
    }

    func add(_ member: any FallbackMember) {
        state.withLock { state in
            state.members.removeAll { $0.isEnded }
            state.members.append(member)
            if let fallback = state.fallback { member.use(fallback, publishes: state.publishes) }
        }
    }

    func use(_ use: AvahiDaemonConnection.FallbackUse) {
        let isChanged = state.withLock { state in
            let wasPublishing = state.publishes
            state.publishes = use == .publishAndBrowse
            if use == .none { state.fallback = nil } else if state.fallback == nil { state.fallback = makeFallback() }
            state.members.removeAll { $0.isEnded }
            for member in state.members { member.use(state.fallback, publishes: state.publishes) }
            return wasPublishing != state.publishes
        }
        guard isChanged else { return }
        report(
            use == .publishAndBrowse
                ? "avahi-daemon has stopped; discovery uses the embedded responder until it is back"
                : "avahi-daemon is back; discovery uses it again")
    }
}

/// The handle of an advertisement, which ends with it.
private final class FallbackAdvertisement: RunningAdvertisement {
    private let member: AdvertisedService

    init(_ member: AdvertisedService) { self.member = member }

    deinit { stop() }

    func update(txt: [[UInt8]]) throws(DiscoveryError) { try member.update(txt: txt) }
    func stop() { member.stop() }
}

private final class AdvertisedService: FallbackMember {
    private struct State {
        var advertisement: Advertisement
        /// The daemon's advertisement; nil once it has ended.
        var main: (any RunningAdvertisement)?
        var fallback: (any RunningAdvertisement)?
    }

    private let state: Mutex<State>

    init(_ main: any RunningAdvertisement, _ advertisement: Advertisement) {
        state = Mutex(State(advertisement: advertisement, main: main))
    }

    var isEnded: Bool { state.withLock { $0.main == nil } }

    func update(txt: [[UInt8]]) throws(DiscoveryError) {
        try Advertisement.check(txt: txt)
        let (main, fallback) = state.withLock { state in
            state.advertisement.txt = txt
            return (state.main, state.fallback)
        }
        try fallback?.update(txt: txt)
        try main?.update(txt: txt)
    }

    func stop() {
        let (main, fallback) = state.withLock { state in (state.main.take(), state.fallback.take()) }
        fallback?.stop()
        main?.stop()
    }

    func use(_ discovery: (any Discovery)?, publishes: Bool) {
        let former: (any RunningAdvertisement)? = state.withLock { state in
            guard publishes, state.main != nil else { return state.fallback.take() }
            // An interface that is gone has no responder; the daemon advertises there again when both are back.
            if state.fallback == nil { state.fallback = try? discovery?.advertise(state.advertisement) }
            return nil
        }
        former?.stop()
    }
}

/// One browser's sequence, merged from the events of both engines.
private final class FallbackBrowser: FallbackMember {
    private struct State {
        var sightings = MergedSightings()
        var tasks: [MergedSightings.Source: Task<Void, Never>] = [:]
        var hasSettled = false
        var isEnded = false
    }

    private let type: ServiceType
    private let interface: String?
    private let continuation: AsyncThrowingStream<DiscoveryEvent, any Error>.Continuation
    private let state = Mutex(State())
    /// Keeps events in their order. They are yielded without the lock of the state, which ``end()`` takes when the sequence is
    /// released.
    private let delivery = Mutex(())

    init(
        _ type: ServiceType, _ interface: String?,
        _ continuation: AsyncThrowingStream<DiscoveryEvent, any Error>.Continuation
    ) {
        self.type = type
        self.interface = interface
        self.continuation = continuation
    }

    var isEnded: Bool { state.withLock { $0.isEnded } }

    func use(_ discovery: (any Discovery)?, publishes: Bool) {
        guard let discovery else { return leave(.fallback) }
        let isFollowed = state.withLock { $0.tasks[.fallback] != nil }
        guard !isFollowed, let events = try? discovery.browse(for: type, interface: interface) else { return }
        follow(events, as: .fallback)
    }

    func end() {
        let tasks = state.withLock { state in
            state.isEnded = true
            defer { state.tasks = [:] }
            return state.tasks.values.map(\.self)
        }
        for task in tasks { task.cancel() }
    }

    func follow(_ events: AsyncThrowingStream<DiscoveryEvent, any Error>, as source: MergedSightings.Source) {
        state.withLock { state in
            guard !state.isEnded else { return }
            // Owned: by the state; `leave` and `end` remove and cancel it. Its first event waits for the lock.
            state.tasks[source] = Task {
                do {
                    for try await event in events { receive(event, from: source) }
                } catch {
                    fail(source, error)
                }
            }
        }
    }

    private func receive(_ event: DiscoveryEvent, from source: MergedSightings.Source) {
        delivery.withLock { _ in
            let news: DiscoveryEvent? = state.withLock { state in
                guard state.tasks[source] != nil else { return nil }
                guard event == .settled else { return state.sightings.apply(event, from: source) }
                defer { state.hasSettled = true }
                return state.hasSettled ? nil : .settled
            }
            if let news { continuation.yield(news) }
        }
    }

    private func leave(_ source: MergedSightings.Source) {
        let task = delivery.withLock { _ in
            let (events, task) = state.withLock { ($0.sightings.remove(source), $0.tasks.removeValue(forKey: source)) }
            for event in events { continuation.yield(event) }
            return task
        }
        task?.cancel()
    }

    private func fail(_ source: MergedSightings.Source, _ error: any Error) {
        leave(source)
        guard state.withLock({ $0.tasks.isEmpty }) else { return }
        continuation.finish(throwing: error)
    }
}

/// The sightings of two engines as those of one: a service is gone when no engine sees it, and the latest word counts.
struct MergedSightings {
    enum Source: Hashable, Sendable {
        case daemon
        case fallback
    }

    private var sightings: [Source: [ServiceSighting.Key: ServiceSighting]] = [:]
    /// The sightings as they were reported.
    private var reported: [ServiceSighting.Key: ServiceSighting] = [:]

    /// - Returns: the event to report; nil when nothing changes.
    mutating func apply(_ event: DiscoveryEvent, from source: Source) -> DiscoveryEvent? {
        switch event {
        case .seen(let sighting):
            sightings[source, default: [:]][sighting.key] = sighting
            return report(sighting)
        case .gone(let key):
            sightings[source]?[key] = nil
            return forget(key)
        case .settled: return event
        }
    }

    /// - Returns: the events to report when an engine is not used any more, in no particular order.
    mutating func remove(_ source: Source) -> [DiscoveryEvent] {
        let keys = sightings.removeValue(forKey: source).map { Array($0.keys) } ?? []
        return keys.compactMap { forget($0) }
    }

    private mutating func report(_ sighting: ServiceSighting) -> DiscoveryEvent? {
        guard reported[sighting.key] != sighting else { return nil }
        reported[sighting.key] = sighting
        return .seen(sighting)
    }

    /// Reports that a service is gone, or what another engine says about it.
    private mutating func forget(_ key: ServiceSighting.Key) -> DiscoveryEvent? {
        if let other = sightings.values.lazy.compactMap({ $0[key] }).first { return report(other) }
        return reported.removeValue(forKey: key).map { _ in .gone(key) }
    }
}
