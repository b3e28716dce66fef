internal import NearshareDBus
internal import NearshareInterfaces
internal import Synchronization

/// Discovery through avahi-daemon, and through a responder of this process while the daemon is away.
///
///     daemon ──absent for a second──► daemon and embedded responder ──daemon returns──► daemon
///
/// The daemon's engine keeps its advertisements and browsers while the daemon is away, and renews them when it returns.
final class FallbackDiscovery: Discovery {
    var engine: String { daemon.engine }

    private let daemon: DaemonDiscovery
    private let members: Members

    /// - Parameters:
    ///   - makeFallback: creates the discovery that is used while the daemon is away.
    ///   - report: receives a message for the user at each change.
    init(
        timeout: Duration, environment: DiscoveryEnvironment, makeFallback: @escaping @Sendable () -> any Discovery,
        report: @escaping @Sendable (String) -> Void
    ) throws(DiscoveryError) {
        let members = Members()
        daemon = try DaemonDiscovery(timeout: timeout, environment: environment) { isPresent in
            report(
                isPresent
                    ? "avahi-daemon is back; discovery uses it again"
                    : "avahi-daemon has stopped; discovery uses the built-in responder until it returns")
            members.setFallback(isPresent ? nil : makeFallback())
        }
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

/// An advertisement or a browser that uses the fallback as well while there is one.
private protocol FallbackMember: AnyObject, Sendable {
    var isEnded: Bool { get }
    /// Starts to use the fallback; nil to stop.
    func use(_ fallback: (any Discovery)?)
}

/// The advertisements and browsers in use, and the fallback while the daemon is away.
private final class Members: Sendable {
    private struct State {
        var members: [any FallbackMember] = []
        var fallback: (any Discovery)?
    }

    // Held while members start and stop: neither waits for the daemon's thread, which calls `setFallback(_:)`.
    private let state = Mutex(State())

    func add(_ member: any FallbackMember) {
        state.withLock { state in
            state.members.removeAll { $0.isEnded }
            state.members.append(member)
            if let fallback = state.fallback { member.use(fallback) }
        }
    }

    func setFallback(_ fallback: (any Discovery)?) {
        state.withLock { state in
            state.fallback = fallback
            state.members.removeAll { $0.isEnded }
            for member in state.members { member.use(fallback) }
        }
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

    func use(_ discovery: (any Discovery)?) {
        let former = state.withLock { state in
            let former = state.fallback.take()
            // An interface that is gone has no responder; the daemon advertises there again when both are back.
            if state.main != nil { state.fallback = try? discovery?.advertise(state.advertisement) }
            return former
        }
        former?.stop()
    }
}

/// One browser's sequence, merged from the events of both engines.
private final class FallbackBrowser: FallbackMember {
    private struct State {
        var sources = SightingSources()
        var tasks: [SightingSources.Source: Task<Void, Never>] = [:]
        var hasSettled = false
        var isEnded = false
    }

    private let type: ServiceType
    private let interface: String?
    private let continuation: AsyncThrowingStream<DiscoveryEvent, any Error>.Continuation
    private let state = Mutex(State())

    init(
        _ type: ServiceType, _ interface: String?,
        _ continuation: AsyncThrowingStream<DiscoveryEvent, any Error>.Continuation
    ) {
        self.type = type
        self.interface = interface
        self.continuation = continuation
    }

    var isEnded: Bool { state.withLock { $0.isEnded } }

    func use(_ discovery: (any Discovery)?) {
        leave(.fallback)
        guard let events = try? discovery?.browse(for: type, interface: interface) else { return }
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

    func follow(_ events: AsyncThrowingStream<DiscoveryEvent, any Error>, as source: SightingSources.Source) {
        state.withLock { state in
            guard !state.isEnded else { return }
            // Its first event waits for the lock.
            state.tasks[source] = Task {
                do {
                    for try await event in events { receive(event, from: source) }
                } catch {
                    fail(source, error)
                }
            }
        }
    }

    private func receive(_ event: DiscoveryEvent, from source: SightingSources.Source) {
        state.withLock { state in
            guard state.tasks[source] != nil else { return }
            switch event {
            case .seen(let sighting):
                state.sources.insert(sighting.key, from: source)
                continuation.yield(event)
            case .gone(let key): if state.sources.remove(key, from: source) { continuation.yield(event) }
            case .settled:
                if !state.hasSettled { continuation.yield(event) }
                state.hasSettled = true
            }
        }
    }

    /// The services that only this source has reported are gone with it.
    private func leave(_ source: SightingSources.Source) {
        let task = state.withLock { state in
            for key in state.sources.removeAll(from: source) { continuation.yield(.gone(key)) }
            return state.tasks.removeValue(forKey: source)
        }
        task?.cancel()
    }

    private func fail(_ source: SightingSources.Source, _ error: any Error) {
        leave(source)
        guard state.withLock({ $0.tasks.isEmpty }) else { return }
        continuation.finish(throwing: error)
    }
}

/// The engines that report each service, so that it is gone only when none of them sees it.
struct SightingSources {
    enum Source: Hashable, Sendable {
        case daemon
        case fallback
    }

    private var sources: [ServiceSighting.Key: Set<Source>] = [:]

    mutating func insert(_ key: ServiceSighting.Key, from source: Source) {
        sources[key, default: []].insert(source)
    }

    /// - Returns: whether no other source reports the service.
    mutating func remove(_ key: ServiceSighting.Key, from source: Source) -> Bool {
        guard sources[key]?.remove(source) != nil, sources[key]?.isEmpty == true else { return false }
        sources[key] = nil
        return true
    }

    /// - Returns: the services that no other source reports, in no particular order.
    mutating func removeAll(from source: Source) -> [ServiceSighting.Key] {
        sources.keys.map(\.self).filter { remove($0, from: source) }
    }
}
