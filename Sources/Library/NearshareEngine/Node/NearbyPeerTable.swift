public import NearshareBase
internal import NearshareDirect
package import NearshareInterfaces

/// A peer that discovery has found. All its properties are claims until a connection proves the key.
public struct NearbyPeer: Sendable, Hashable {
    /// The claimed identifier; a connection proves it.
    public var id: PeerID
    /// The claimed name.
    public var name: DisplayName
    /// Addresses to connect to, best first.
    package var addresses: [LinkAddress]
    /// The addresses that accept mesh links.
    package var meshAddresses: [LinkAddress]
    /// Key-value pairs that its program advertises.
    public var info: [String: String]
    /// SHA-256 of the certificate that a LocalSend device announces; nil for a nearshare peer.
    package var certificate: [UInt8]?
    /// The type under which the peer advertises itself.
    package var service: ServiceType

    /// Creates a peer, such as for a test.
    package init(
        id: PeerID, name: DisplayName, addresses: [LinkAddress], meshAddresses: [LinkAddress] = [],
        info: [String: String] = [:],
        certificate: [UInt8]? = nil, service: ServiceType = .nearshare
    ) {
        self.id = id
        self.name = name
        self.addresses = addresses
        self.meshAddresses = meshAddresses
        self.info = info
        self.certificate = certificate
        self.service = service
    }

    /// The addresses with the identifier that the connection must prove.
    public var destination: PeerDestination {
        var destination = PeerDestination(addresses: addresses, id: id, name: name)
        (destination.isLocalSend, destination.certificate) = (certificate != nil, certificate)
        if addresses.contains(where: { $0.medium == .network }) { destination.announcedService = service }
        return destination
    }
}

/// The peers nearby, merged from the sightings on all interfaces and in both address families. Bounded (R6).
package struct NearbyPeerTable: Sendable {
    /// A change of the table.
    package enum Change: Sendable, Hashable {
        /// A peer was seen for the first time.
        case found(NearbyPeer)
        /// Other addresses, another name or other info than before.
        case updated(NearbyPeer)
        /// A peer is no longer seen on any interface.
        case lost(NearbyPeer)

        /// The peer, in its current or last state.
        package var peer: NearbyPeer {
            switch self {
            case .found(let peer), .updated(let peer), .lost(let peer): peer
            }
        }

        /// Whether the peer is present after the change.
        package var isPresent: Bool { if case .lost = self { false } else { true } }
    }

    private struct Sighting {
        var address: LinkAddress
        var record: PeerTXTRecord
        var order: UInt64
        /// nil for a nearshare peer.
        var certificate: [UInt8]?
    }

    /// Limit on known peers; further ones are ignored (R6).
    package static let maximumPeers = 1024
    private static let maximumSightings = 4096
    private static let maximumAddresses = 16

    private var sightings: [ServiceSighting.Key: Sighting] = [:]
    private var lastOrder: UInt64 = 0
    private let ownID: PeerID
    private let service: ServiceType

    /// The first network address at which another machine announced the local node's id; any host can do that. nil while none
    /// did.
    package private(set) var conflictingAddress: LinkAddress?

    /// The peers by identifier.
    package private(set) var peers: [PeerID: NearbyPeer] = [:]

    /// Creates an empty table.
    /// - Parameters:
    ///   - ownID: the local node's id, which is left out of the table.
    ///   - service: the type under which the peers advertise themselves.
    package init(ownID: PeerID, service: ServiceType = .nearshare) {
        self.ownID = ownID
        self.service = service
    }

    /// The peers by name, then by id.
    package var sorted: [NearbyPeer] { Self.sorted(peers) }

    /// Returns peers in the order in which they are shown: by name, then by id.
    package static func sorted(_ peers: [PeerID: NearbyPeer]) -> [NearbyPeer] {
        peers.values.sorted { ($0.name.claimed.lowercased(), $0.id.hex) < ($1.name.claimed.lowercased(), $1.id.hex) }
    }

    /// Applies a discovery event, and returns the resulting changes.
    package mutating func apply(_ event: DiscoveryEvent) -> [Change] {
        switch event {
        case .settled: return []
        case .gone(let key):
            guard let old = sightings.removeValue(forKey: key) else { return [] }
            return refresh(old.record.id)
        case .seen(let seen):
            let parsed = PeerTXTRecord(strings: seen.txt)
            if parsed?.id == ownID, !seen.isOwn, seen.address.medium == .network {
                conflictingAddress = conflictingAddress ?? seen.address
            }
            guard let record = parsed, record.id != ownID else {
                guard let old = sightings.removeValue(forKey: seen.key) else { return [] }
                return refresh(old.record.id)
            }
            let before = sightings[seen.key]
            // Known peers stay: a flood of forged services cannot displace them.
            if before == nil {
                let isFull =
                    sightings.count >= Self.maximumSightings
                    || (peers[record.id] == nil && peers.count >= Self.maximumPeers)
                if isFull { return [] }
            }
            lastOrder += 1
            sightings[seen.key] = Sighting(
                address: seen.address, record: record, order: before?.order ?? lastOrder, certificate: seen.certificate)
            var changes: [Change] = []
            if let before, before.record.id != record.id { changes += refresh(before.record.id) }
            return changes + refresh(record.id)
        }
    }

    private mutating func refresh(_ id: PeerID) -> [Change] {
        var own = sightings.values.filter { $0.record.id == id }.sorted { $0.order < $1.order }
        guard let first = own.first else {
            return peers.removeValue(forKey: id).map { [.lost($0)] } ?? []
        }
        // A nearshare peer can claim a LocalSend device's id, or the reverse: only sightings of the first one's kind are merged.
        own.removeAll { $0.certificate != first.certificate }
        var addresses: [LinkAddress] = []
        for sighting in own where !addresses.contains(sighting.address) { addresses.append(sighting.address) }
        // Link-local addresses work only through their own interface, so other ones come first; network addresses come before
        // radio addresses.
        let isLocal = { (address: LinkAddress) in address.host.contains("%") }
        let network = addresses.filter { $0.medium == .network }
        let ranked = network.filter { !isLocal($0) } + network.filter(isLocal) + addresses.filter { $0.medium != .network }
        let known = Array(ranked.prefix(Self.maximumAddresses))
        // Two processes may share one key; only one of them accepts mesh links.
        let meshAddresses = Set(own.filter(\.record.acceptsMeshLinks).map(\.address))
        let peer = NearbyPeer(
            id: id, name: first.record.name, addresses: known, meshAddresses: known.filter { meshAddresses.contains($0) },
            info: first.record.info.pairs, certificate: first.certificate, service: service)
        let old = peers.updateValue(peer, forKey: id)
        if old == nil { return [.found(peer)] }
        return old == peer ? [] : [.updated(peer)]
    }
}
