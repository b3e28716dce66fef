internal import NearshareBase
internal import NearshareCrypto
internal import NearshareInterfaces
internal import Synchronization

/// The rate limit on prompts that untrusted peers cause (R11): offers, requests to compare the short code and invitations into
/// sessions, on all paths of a node. A prompt counts from the moment it is shown, also when it is withdrawn, expires or is
/// declined by policy; one that the user accepts is released.
///
/// A new key costs an attacker nothing and an IPv6 address little, so prompts are counted by key, by host, by network and in
/// all. Peers that the user has met before are counted apart from new ones, which therefore cannot use up their share.
struct PromptRateLimiter: Sendable {
    /// Unaccepted prompts that a key or a host may cause within ``interval``.
    static let maximumUnacceptedCount = 5
    /// Unaccepted prompts that the hosts of one IPv6 network may cause within ``interval``.
    static let maximumCountPerNetwork = 10
    /// Unaccepted prompts of all peers within ``interval``: what a user can read. It also bounds the memory of the limiter.
    static let maximumTotalCount = 20
    /// The length of the sliding window.
    static let interval = Duration.seconds(60)

    /// The path that an untrusted peer's prompt took.
    enum Path: Sendable, Hashable {
        case link(LinkAddress)
        /// Peers of the mesh have no addresses.
        case mesh
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

    /// Counts a prompt that is about to be shown.
    /// - Returns: nil when the user may not be asked on behalf of the peer.
    mutating func admit(_ key: Fingerprint, on path: Path, isKnown: Bool, now: MonotonicInstant) -> Admission? {
        unaccepted = unaccepted.compactMapValues { times in
            let recent = times.filter { now - $0 < Self.interval }
            return recent.isEmpty ? nil : recent
        }
        let sources = Self.sources(key, path, isKnown)
        guard sources.allSatisfy({ unaccepted[$0, default: []].count < Self.limit(of: $0) }) else { return nil }
        for source in sources { unaccepted[source, default: []].append(now) }
        return Admission(sources: sources, time: now)
    }

    /// Releases a prompt that the user has accepted.
    mutating func release(_ admission: Admission) {
        for source in admission.sources {
            guard let index = unaccepted[source]?.firstIndex(of: admission.time) else { continue }
            unaccepted[source]?.remove(at: index)
        }
    }

    private static func sources(_ key: Fingerprint, _ path: Path, _ isKnown: Bool) -> [Source] {
        var sources: [Source] = [.key(key), .all(isKnown: isKnown)]
        switch path {
        case .link(let address):
            sources.append(
                .host(.link(LinkAddress(host: address.host, port: 0, medium: address.medium)), isKnown: isKnown))
            if let network = address.ipv6Network { sources.append(.network(network, isKnown: isKnown)) }
        case .mesh: sources.append(.host(.mesh, isKnown: isKnown))
        }
        return sources
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
    /// - Returns: nil when the user may not be asked; otherwise the closure to call when the user has accepted.
    func admit(_ peer: Peer, on path: PromptRateLimiter.Path) -> (@Sendable () -> Void)? {
        var isKnown = false
        if case .known(_, let isFriend) = peer.trustStatus {
            if isFriend { return {} }
            isKnown = true
        }
        let now = clock()
        let key = peer.fingerprint
        guard let admission = limiter.withLock({ $0.admit(key, on: path, isKnown: isKnown, now: now) }) else { return nil }
        return { [self] in limiter.withLock { $0.release(admission) } }
    }
}
