internal import NearshareBase
internal import NearshareCrypto
internal import NearshareInterfaces
internal import NearshareMesh
internal import Synchronization

/// The rate limit on prompts that untrusted peers cause (R11): offers, requests to compare the short code and invitations into
/// sessions, on all paths of a node. A prompt counts from the moment it is shown, also when it is withdrawn or expires; one
/// that the user accepts is released, and so is one that a rule has decided without the user. Those that a rule declines have a
/// wider limit of their own, for each key and host alone: it bounds the events that one of them causes, and no flood of them,
/// whatever its addresses, can turn another peer away.
///
/// A new key costs an attacker nothing and an IPv6 address little, so prompts are counted by key, by host, by network and in
/// all. Peers that the user has met before are counted apart from new ones, which therefore cannot use up their share. Peers of
/// the mesh have no addresses: they are counted by the link over which they were heard last.
struct PromptRateLimiter: Sendable {
    /// Unaccepted prompts that a key or a host may cause within ``interval``.
    static let maximumCountPerSource = 5
    /// Unaccepted prompts that the hosts of one IPv6 network may cause within ``interval``. All hosts of a LAN share the
    /// link-local network, which is not counted.
    static let maximumCountPerNetwork = 10
    /// Unaccepted prompts of all new peers within ``interval``, and as many of known ones: what a user can read.
    static let maximumTotalCount = 20
    /// Offers of a key or host that a rule may decline within ``interval``, as a multiple of its limit on prompts.
    static let unpromptedFactor = 24
    /// Offers declined by a rule that are remembered. It bounds the memory of the limiter.
    static let maximumUnpromptedCount = 2_000
    /// The length of the sliding window.
    static let interval = Duration.seconds(60)

    /// The path that an untrusted peer's prompt took.
    enum Path: Sendable, Hashable {
        case link(LinkAddress)
        /// The neighbour through which a peer of the mesh was heard last; nil once that link is closed.
        case mesh(MeshLinkSource?)
    }

    fileprivate enum Source: Hashable {
        case key(Fingerprint)
        case host(Path, isKnown: Bool)
        case network(String, isKnown: Bool)
        case all(isKnown: Bool)
    }

    /// A counted prompt.
    struct Admission: Sendable {
        /// All sources of the prompt; the total is counted only once it is shown.
        fileprivate let sources: [Source]
        /// Since when it counts: its admission, or the moment when it was shown.
        fileprivate var time: MonotonicInstant
        fileprivate var isShown: Bool

        fileprivate var countedSources: [Source] {
            sources.filter { if case .all = $0 { isShown } else { true } }
        }
    }

    /// Times of the latest unaccepted prompts, by source. Its size is bounded by the handshakes that a node takes within
    /// ``interval``, see ``HandshakeRateLimiter``.
    private var unaccepted: [Source: [MonotonicInstant]] = [:]
    /// Times of the latest offers that a rule has declined, by source.
    private var unprompted: [Source: [MonotonicInstant]] = [:]

    /// Counts a prompt.
    /// - Parameter isShown: whether it is about to be shown. One that waits for the short code counts towards the limit of what
    ///   a user can read only when it is shown: the user could not block a peer that never sends its part of the code.
    /// - Returns: nil when the user may not be asked on behalf of the peer.
    mutating func admit(
        _ key: Fingerprint, on path: Path, isKnown: Bool, isShown: Bool = true, now: MonotonicInstant
    ) -> Admission? {
        unaccepted = Self.recent(unaccepted, now: now)
        unprompted = Self.recent(unprompted, now: now)
        let sources = Self.sources(key, path, isKnown)
        let isAllowed = sources.allSatisfy { source in
            let limit = Self.limit(of: source)
            return unaccepted[source, default: []].count < limit
                && unprompted[source, default: []].count < limit * Self.unpromptedFactor
        }
        guard isAllowed else { return nil }
        let admission = Admission(sources: sources, time: now, isShown: isShown)
        count(admission)
        return admission
    }

    /// Counts an admitted prompt that waited from now on, however long ago it was admitted, and towards the limit of what a user
    /// can read: peers choose when their short codes come.
    /// - Returns: false when the user may not be asked.
    mutating func show(_ admission: inout Admission, now: MonotonicInstant) -> Bool {
        guard !admission.isShown else { return true }
        var others = self
        others.unaccepted = Self.recent(unaccepted, now: now)
        others.release(admission)
        guard admission.sources.allSatisfy({ others.unaccepted[$0, default: []].count < Self.limit(of: $0) }) else {
            return false
        }
        self = others
        (admission.time, admission.isShown) = (now, true)
        count(admission)
        return true
    }

    private mutating func count(_ admission: Admission) {
        for source in admission.countedSources { unaccepted[source, default: []].append(admission.time) }
    }

    /// Releases a prompt that a rule has declined before the user saw it.
    mutating func releaseUnprompted(_ admission: Admission) {
        release(admission)
        // A key has one entry for each decision.
        let count = unprompted.reduce(0) { sum, entry in if case .key = entry.key { sum + entry.value.count } else { sum } }
        guard count < Self.maximumUnpromptedCount else { return }
        for source in admission.sources {
            switch source {
            case .key, .host(.link, _): unprompted[source, default: []].append(admission.time)
            // Shared with peers whose offers no rule has declined.
            case .host(.mesh, _), .network, .all: break
            }
        }
    }

    /// Releases a prompt that the user has accepted.
    mutating func release(_ admission: Admission) {
        for source in admission.countedSources {
            guard let index = unaccepted[source]?.firstIndex(of: admission.time) else { continue }
            unaccepted[source]?.remove(at: index)
        }
    }

    private static func recent(
        _ times: [Source: [MonotonicInstant]], now: MonotonicInstant
    ) -> [Source: [MonotonicInstant]] {
        times.compactMapValues { times in
            let recent = times.filter { now - $0 < interval }
            return recent.isEmpty ? nil : recent
        }
    }

    private static func sources(_ key: Fingerprint, _ path: Path, _ isKnown: Bool) -> [Source] {
        var sources: [Source] = [.key(key), .all(isKnown: isKnown)]
        switch path {
        case .link(let address):
            sources.append(
                .host(.link(LinkAddress(host: address.host, port: 0, medium: address.medium)), isKnown: isKnown))
            if let network = address.sharedNetwork { sources.append(.network(network, isKnown: isKnown)) }
        case .mesh: sources.append(.host(path, isKnown: isKnown))
        }
        return sources
    }

    private static func limit(of source: Source) -> Int {
        switch source {
        case .key, .host: maximumCountPerSource
        case .network: maximumCountPerNetwork
        case .all: maximumTotalCount
        }
    }
}

/// The prompt limiter of a node, which all paths share on which peers can ask.
final class SharedPromptLimiter: Sendable {
    private let limiter = Mutex(PromptRateLimiter())
    private let reports: ReportLimiter
    private let clock: @Sendable () -> MonotonicInstant
    private let report: @Sendable (PeerID) -> Void

    /// - Parameter report: called when a peer is turned away, at most once within ``PromptRateLimiter/interval``.
    init(clock: @escaping @Sendable () -> MonotonicInstant, reportingTo report: @escaping @Sendable (PeerID) -> Void = { _ in })
    {
        (self.clock, self.report) = (clock, report)
        reports = ReportLimiter(interval: PromptRateLimiter.interval, clock: clock)
    }

    /// Counts a prompt of a peer. Friends are exempt.
    /// - Parameter isShown: whether it is about to be shown, or waits for the short code.
    /// - Returns: nil when the user may not be asked.
    func admit(_ peer: Peer, on path: PromptRateLimiter.Path, isShown: Bool = true) -> PromptAdmission? {
        var isKnown = false
        if case .known(_, let isFriend) = peer.trustStatus {
            if isFriend { return .exempt }
            isKnown = true
        }
        let now = clock()
        let key = peer.fingerprint
        let admission = limiter.withLock { $0.admit(key, on: path, isKnown: isKnown, isShown: isShown, now: now) }
        if admission == nil, reports.admit() { report(peer.id) }
        return admission.map { PromptAdmission($0, self) }
    }

    fileprivate func show(_ admission: inout PromptRateLimiter.Admission) -> Bool {
        let now = clock()
        return limiter.withLock { $0.show(&admission, now: now) }
    }

    fileprivate func release(_ admission: PromptRateLimiter.Admission) { limiter.withLock { $0.release(admission) } }

    fileprivate func releaseUnprompted(_ admission: PromptRateLimiter.Admission) {
        limiter.withLock { $0.releaseUnprompted(admission) }
    }
}

/// A prompt that the limiter has counted. It no longer counts once it is released.
final class PromptAdmission: Sendable {
    /// A prompt that does not count, such as a friend's.
    static let exempt = PromptAdmission()

    private let admission: Mutex<PromptRateLimiter.Admission?>
    private let limiter: SharedPromptLimiter?

    fileprivate init(_ admission: PromptRateLimiter.Admission, _ limiter: SharedPromptLimiter) {
        self.admission = Mutex(admission)
        self.limiter = limiter
    }

    private init() {
        admission = Mutex(nil)
        limiter = nil
    }

    /// Counts the prompt as shown, once its short code is known.
    /// - Returns: false when the user may not be asked.
    func show() -> Bool {
        admission.withLock { admission in
            guard var counted = admission, let limiter else { return true }
            defer { admission = counted }
            return limiter.show(&counted)
        }
    }

    /// Stops counting a request that was accepted, by the user or by a rule.
    func release() {
        if let counted = removeAdmission() { limiter?.release(counted) }
    }

    /// Stops counting a request that a rule has declined, so that the user is not asked.
    func releaseUnprompted() {
        if let counted = removeAdmission() { limiter?.releaseUnprompted(counted) }
    }

    /// Ends the count, so that a short code that comes later does not begin it again.
    private func removeAdmission() -> PromptRateLimiter.Admission? { admission.withLock { $0.take() } }
}
