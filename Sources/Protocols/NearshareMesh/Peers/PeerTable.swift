internal import NearshareBase
internal import NearshareCrypto

/// All known peers, neighbours and those behind relays, with their pinned keys.
struct PeerTable: Sendable {
    /// The change in the table after a packet arrived straight from its sender.
    enum NeighbourUpdate {
        case unchanged
        /// A further link to a peer that was a neighbour already, or that has not announced itself.
        case newLink
        case newNeighbour(MeshPeer)
    }

    private(set) var records: [PeerID: PeerRecord] = [:]
    private var pins = KeyPins()

    subscript(id: PeerID) -> PeerRecord? { records[id] }

    var count: Int { records.count }
    var isFull: Bool { records.count >= Self.capacity }

    /// All peers that have announced themselves.
    var announced: [MeshPeer] { records.keys.compactMap { peer($0) } }

    /// nil for a peer that has not announced itself.
    func peer(_ id: PeerID) -> MeshPeer? {
        guard let record = records[id], let name = record.name, let key = record.agreementKey else { return nil }
        return MeshPeer(
            id: id, name: name, fingerprint: Fingerprint(of: key),
            capabilities: record.sessionState?.capabilities ?? record.announcedCapabilities, isDirect: record.isNeighbour)
    }

    // MARK: Neighbours

    /// Number of neighbours.
    var degree: Int { records.values.count { $0.isNeighbour } }

    /// Ids of all neighbours, in ascending order.
    var neighbours: [PeerID] { records.filter { $0.value.isNeighbour }.keys.sorted { $0.hex < $1.hex } }

    /// Ids of the neighbours that announced themselves over a link.
    func neighbours(on link: MeshLinkID) -> [PeerID] { records.filter { $0.value.links.contains(link) }.map(\.key) }

    func isNeighbour(_ id: PeerID) -> Bool { records[id]?.isNeighbour ?? false }

    /// Records an unrelayed announcement of a known peer on a link (section 4). A replayed one adds a link for the two minutes
    /// of its validity: packets for that peer are then sent there as well, and none is withheld from the real peer.
    mutating func addLink(_ link: MeshLinkID, to id: PeerID) -> NeighbourUpdate {
        guard var record = records[id], record.signingKey != nil, record.links.count < Self.maximumLinkCountPerPeer else {
            return .unchanged
        }
        let wasNeighbour = record.isNeighbour
        guard record.links.insert(link).inserted else { return .unchanged }
        records[id] = record
        guard !wasNeighbour, let peer = peer(id) else { return .newLink }
        return .newNeighbour(peer)
    }

    /// Removes a closed link.
    /// - Returns: the announced peers that used it.
    mutating func removeLink(_ link: MeshLinkID) -> [MeshPeer] {
        neighbours(on: link).compactMap { id in
            records[id]?.links.remove(link)
            return peer(id)
        }
    }

    // MARK: Entries

    /// Adds a peer without any further information.
    mutating func insert(_ id: PeerID, publicMessages: TokenBucket, now: MonotonicInstant) {
        records[id] = PeerRecord(lastHeard: now, publicMessages: publicMessages)
    }

    /// The peer to remove when the table is full (R6): first peers that never announced themselves, because any sender id can
    /// be put on a packet; then the one that was silent for longest. Neighbours stay.
    func evictionCandidate(excluding isNeeded: (PeerID) -> Bool) -> PeerID? {
        let idle = records.filter { !$0.value.isNeighbour && !isNeeded($0.key) }
        let unannounced = idle.filter { $0.value.agreementKey == nil }
        return (unannounced.isEmpty ? idle : unannounced).min { $0.value.lastHeard < $1.value.lastHeard }?.key
    }

    /// Removes a peer; its pinned key stays.
    /// - Returns: whether it had announced itself.
    mutating func remove(_ id: PeerID) -> Bool {
        let wasAnnounced = peer(id) != nil
        records[id] = nil
        return wasAnnounced
    }

    /// Peers that were silent for too long.
    func expired(now: MonotonicInstant) -> [PeerID] {
        records.filter { now - $0.value.lastHeard > Self.lifetime }.map(\.key)
    }

    /// Spends one message to everyone from a peer's budget.
    /// - Returns: false when the message must be dropped.
    mutating func admitPublicMessage(from id: PeerID, now: MonotonicInstant) -> Bool {
        records[id]?.publicMessages.consume(now: now) ?? false
    }

    // MARK: Announcements

    /// Whether a peer may announce this key. The first accepted key stays until the peer states another one inside a session
    /// (K2).
    func permits(_ key: SigningPublicKey, for id: PeerID) -> Bool { pins[id].map { $0 == key } ?? true }

    /// Pins the key of a valid announcement. The peer must have a record.
    mutating func pin(_ key: SigningPublicKey, for id: PeerID, now: MonotonicInstant) {
        pins.insert(key, for: id)
        records[id]?.signingKey = key
        records[id]?.lastHeard = now
    }

    /// Applies a valid announcement.
    /// - Returns: false for one that is not newer than the last, which changes nothing (D5).
    mutating func apply(
        _ announcement: MeshAnnouncement, name: DisplayName, agreementKey: AgreementPublicKey, timestamp: UInt64,
        from id: PeerID
    ) -> Bool {
        guard var record = records[id], timestamp > record.announcementTimestamp else { return false }
        record.announcementTimestamp = timestamp
        record.name = name
        record.agreementKey = agreementKey
        record.announcedCapabilities = announcement.capabilities
        records[id] = record
        return true
    }

    // MARK: Sessions

    /// Records that a message over `link` has established a new session with a peer.
    mutating func beginSession(with id: PeerID, key: AgreementPublicKey, over link: MeshLinkID, now: MonotonicInstant) {
        records[id]?.sessionState = nil
        records[id]?.agreementKey = key
        recordAuthenticated(id, over: link, now: now)
    }

    /// Records that an authentic message of a peer was received over `link`.
    mutating func recordAuthenticated(_ id: PeerID, over link: MeshLinkID, now: MonotonicInstant) {
        records[id]?.authenticatedLink = link
        records[id]?.lastHeard = now
    }

    /// Applies the peer's statement inside the present session, which outranks its announcements.
    /// - Returns: whether it stated the same before.
    mutating func apply(_ state: MeshPeerState, signingKey: SigningPublicKey, of id: PeerID) -> Bool {
        guard var record = records[id] else { return false }
        let isRepeated = record.sessionState == state
        record.signingKey = signingKey
        record.sessionState = state
        records[id] = record
        pins.insert(signingKey, for: id)
        return isRepeated
    }

    static let capacity = 1024
    /// Longer than the interval between two announcements of most phones whose screen is off.
    private static let lifetime = Duration.seconds(180)
    private static let maximumLinkCountPerPeer = 4
}
