import NearshareBase
import NearshareBundles
import NearshareCrypto
import NearshareTesting

/// An attacker in the simulation: it lies about the tree, confirms and drops what it gets, spoils the copies of its neighbours,
/// and floods. It has keys of its own and knows all endpoints.
struct HostileNode {
    /// Packets for its neighbours.
    typealias Outgoing = [(packet: BundlePacket, to: EndpointID)]

    private let keys: RouterKeys
    private let profile: PropagationProfile
    /// The claim to reach everything.
    private let reachability: ReachabilityFilter
    private var neighbours: Set<EndpointID> = []
    private var epoch: UInt32 = 0
    private var random: SeededRandom
    /// Bundles whose copies it has spoiled.
    private var spoiled: Set<BundleID> = []

    init(keys: RouterKeys, profile: PropagationProfile, endpoints: [EndpointID], seed: UInt64) {
        self.keys = keys
        self.profile = profile
        let tags = endpoints.map(ReachabilityFilter.tag(of:))
        reachability = ReachabilityFilter(tags: tags) ?? .empty
        random = SeededRandom(seed: seed)
    }

    private var sorted: [EndpointID] { neighbours.sorted { $0.rawValue < $1.rawValue } }

    /// The lowest root there can be, with ever newer epochs; an empty summary vector draws copies.
    private mutating func report() -> BundlePacket {
        .report(
            SpanningTreeReport(
                position: TreePosition(root: EndpointID(rawValue: 1), epoch: epoch, distance: 0),
                // A child pollutes what its parent reports.
                isToParent: true, summary: SummaryVector(of: [], turn: 1, salt: UInt32(truncatingIfNeeded: random.next())),
                reachability: reachability))
    }

    mutating func neighbourUp(_ id: EndpointID) -> Outgoing {
        neighbours.insert(id)
        return [(report(), id)]
    }

    mutating func neighbourDown(_ id: EndpointID) {
        neighbours.remove(id)
    }

    mutating func receive(_ packet: BundlePacket, from neighbour: EndpointID) -> Outgoing {
        switch packet {
        case .report(let report): return report.token.map { [(.receipt([$0]), neighbour)] } ?? []
        case .receipt: return []
        case .copy(let copy):
            let id = copy.bundle.id
            let receipt: Outgoing = [(.receipt([id.short]), neighbour)]
            guard spoiled.insert(id).inserted else { return receipt }
            // At the end of its path, and seen by everybody: what arrives first should end there.
            var spoilt = copy
            spoilt.hopCount = copy.bundle.profile.hopLimit
            spoilt.forwarding = .epidemic
            spoilt.visitedTags = Array(sorted.map { $0.visitTag(in: id) }.prefix(copy.bundle.profile.tracklistLimit))
            return receipt + sorted.filter { $0 != neighbour }.map { (.copy(spoilt), $0) }
        }
    }

    /// Another epoch.
    mutating func beginEpoch() -> Outgoing {
        epoch &+= 1
        return sorted.map { (report(), $0) }
    }

    /// A bundle by a made-up source for a made-up destination.
    mutating func flood(now: WallTime) -> Outgoing {
        let source = RouterKeys.random(using: &random)
        let destination = RouterKeys.random(using: &random)
        let content = random.bytes(400)
        let bundle = OutgoingBundle(
            content, from: source, to: destination.publicKeys, isSealed: true, isPrivate: false, profile: profile,
            created: now, random: &random)
        var copy = bundle.copy
        copy.hopCount = 1
        copy.forwarding = .epidemic
        spoiled.insert(bundle.id)
        return sorted.map { (.copy(copy), $0) }
    }
}

extension RouterKeys {
    static func random(using random: inout SeededRandom) -> RouterKeys {
        RouterKeys(
            agreementKey: try! AgreementPrivateKey(seed: random.bytes(32)),
            signingKey: try! SigningPrivateKey(seed: random.bytes(32)))
    }
}
