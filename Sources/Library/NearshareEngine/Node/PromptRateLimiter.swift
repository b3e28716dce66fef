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
    static let maximumUnacceptedCount = 5
    /// Unaccepted prompts that the hosts of one IPv6 network may cause within ``interval``. All hosts of a LAN share the
    /// link-local network, which is not counted.
    static let maximumCountPerNetwork = 10
    /// Unaccepted prompts of all peers within ``interval``: what a user can read. It also bounds the memory of the limiter.
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
        fileprivate let sources: [Source]
        fileprivate let time: MonotonicInstant
    }

    /// Times of the latest unaccepted prompts, by source.
    private var unaccepted: [Source: [MonotonicInstant]] = [:]
    /// Times of the latest offers that a rule has declined, by source.
    private var unprompted: [Source: [MonotonicInstant]] = [:]

    /// Counts a prompt that is about to be shown.
    /// - Returns: nil when the user may not be asked on behalf of the peer.
    mutating func admit(_ key: Fingerprint, on path: Path, isKnown: Bool, now: MonotonicInstant) -> Admission? {
        unaccepted = Self.recent(unaccepted, now: now)
        unprompted = Self.recent(unprompted, now: now)
        let sources = Self.sources(key, path, isKnown)
        let isAllowed = sources.allSatisfy { source in
            let limit = Self.limit(of: source)
            return unaccepted[source, default: []].count < limit
                && unprompted[source, default: []].count < limit * Self.unpromptedFactor
        }
        guard isAllowed else { return nil }
        for source in sources { unaccepted[source, default: []].append(now) }
        return Admission(sources: sources, time: now)
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
        for source in admission.sources {
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
            if let network = address.ipv6Network, !isLinkLocal(network) {
                sources.append(.network(network, isKnown: isKnown))
            }
        case .mesh: sources.append(.host(path, isKnown: isKnown))
        }
        return sources
    }

    /// Whether an IPv6 network is in fe80::/10 (RFC 4291, section 2.4).
    private static func isLinkLocal(_ network: String) -> Bool {
        guard let group = UInt16(network.prefix { $0 != ":" }, radix: 16) else { return false }
        return group & 0xffc0 == 0xfe80
    }

    private static func limit(of source: Source) -> Int {
        switch source {
        case .key, .host: maximumUnacceptedCount
        case .network: maximumCountPerNetwork
        case .all: maximumTotalCount
        }
    }
}

/// The prompt limiter of a node, which the direct path, sessions and the mesh share.
final class SharedPromptLimiter: Sendable {
    private let limiter = Mutex(PromptRateLimiter())
    private let clock: @Sendable () -> MonotonicInstant

    init(clock: @escaping @Sendable () -> MonotonicInstant) {
        self.clock = clock
    }

    /// Counts a prompt of a peer. Friends are exempt.
    /// - Returns: nil when the user may not be asked.
    func admit(_ peer: Peer, on path: PromptRateLimiter.Path) -> PromptAdmission? {
        var isKnown = false
        if case .known(_, let isFriend) = peer.trustStatus {
            if isFriend { return .exempt }
            isKnown = true
        }
        let now = clock()
        let key = peer.fingerprint
        guard let admission = limiter.withLock({ $0.admit(key, on: path, isKnown: isKnown, now: now) }) else { return nil }
        return PromptAdmission(
            release: { [self] in limiter.withLock { $0.release(admission) } },
            releaseUnprompted: { [self] in limiter.withLock { $0.releaseUnprompted(admission) } })
    }
}

/// A prompt that the limiter has counted. Releasing it ends that.
struct PromptAdmission: Sendable {
    /// A prompt that does not count, such as a friend's.
    static let exempt = PromptAdmission(release: {}, releaseUnprompted: {})

    /// Called when the request is accepted, by the user or by a rule.
    let release: @Sendable () -> Void
    /// Called when a rule declines the request, and the user is not asked.
    let releaseUnprompted: @Sendable () -> Void
}
