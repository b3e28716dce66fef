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
    private var neighboursByLink: [MeshLinkID: PeerID] = [:]
    /// The peers that announced themselves unrelayed on a link: ``PeerRecord/links`` the other way round.
    private var claimsByLink: [MeshLinkID: Set<PeerID>] = [:]

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
            capabilities: record.sessionState?.capabilities ?? record.announcedCapabilities, isDirect: record.isDirect,
            hops: record.isDirect ? 1 : record.hops, statedFragmentLimit: record.sessionState?.fragmentLimit)
    }

    // MARK: Neighbours

    /// Number of neighbours: of the links at whose other ends peers have announced themselves, whatever their number. Several
    /// links to one neighbour that has proven its key count once.
    var degree: Int { claimsByLink.count - (neighboursByLink.count - neighbours.count) }

    /// Ids of the peers that have proven to be at the other end of a link.
    var neighbours: Set<PeerID> { Set(neighboursByLink.values) }

    /// Ids of the peers that announced themselves unrelayed on a link.
    func neighbours(on link: MeshLinkID) -> Set<PeerID> { claimsByLink[link] ?? [] }

    /// Whether a peer has announced itself unrelayed on a link.
    func hasClaims(on link: MeshLinkID) -> Bool { claimsByLink[link] != nil }

    /// The peer that has proven to be at the other end of a link.
    func neighbour(on link: MeshLinkID) -> PeerID? { neighboursByLink[link] }

    /// Whether a peer has proven its key on a link.
    func isNeighbour(_ id: PeerID) -> Bool { records[id]?.isNeighbour ?? false }

    /// Records an unrelayed announcement of a known peer on a link (section 4). It may be replayed, so it makes no neighbour.
    mutating func addLink(_ link: MeshLinkID, to id: PeerID) -> NeighbourUpdate {
        guard var record = records[id], record.signingKey != nil, !record.links.contains(link),
            neighbours(on: link).count < Self.maximumClaimCountPerLink
        else { return .unchanged }
        let wasDirect = record.isDirect
        record.links.insert(link)
        claimsByLink[link, default: []].insert(id)
        records[id] = record
        guard !wasDirect, let peer = peer(id) else { return .newLink }
        return .newNeighbour(peer)
    }

    /// Records that a peer has proven its key on a link. The first one is its neighbour until the link is closed: a link has one
    /// other end.
    /// - Returns: whether the peer is a neighbour there only now.
    mutating func prove(_ id: PeerID, on link: MeshLinkID) -> Bool {
        guard neighboursByLink[link] == nil, records[id]?.provenLinks.insert(link).inserted == true else { return false }
        records[id]?.links.insert(link)
        claimsByLink[link, default: []].insert(id)
        neighboursByLink[link] = id
        return true
    }

    /// Removes a closed link.
    /// - Returns: the announced peers that used it.
    mutating func removeLink(_ link: MeshLinkID) -> [MeshPeer] {
        neighboursByLink[link] = nil
        // Closed links are counted together, so that one that comes and goes is not several.
        for id in records.keys where records[id]?.source == link { records[id]?.source = nil }
        return (claimsByLink.removeValue(forKey: link) ?? []).compactMap { id in
            records[id]?.links.remove(link)
            records[id]?.provenLinks.remove(link)
            return peer(id)
        }
    }

    // MARK: Entries

    /// Adds a peer without any further information.
    /// - Parameter link: the link over which it became known; nil where this node looks for it.
    mutating func insert(_ id: PeerID, from link: MeshLinkID? = nil, publicMessages: TokenBucket, now: MonotonicInstant) {
        records[id] = PeerRecord(
            lastHeard: now, source: link, isContact: pins.contacts[id] != nil, publicMessages: publicMessages)
    }

    /// The user's contacts with their signing keys. They stay known, whatever others announce.
    mutating func setContacts(_ contacts: [PeerID: SigningPublicKey]) {
        pins.contacts = contacts
        for id in records.keys {
            records[id]?.isContact = contacts[id] != nil
            // Announced by another peer, under the contact's id.
            if let key = contacts[id], let announced = records[id]?.signingKey, announced != key {
                records[id]?.signingKey = key
                records[id]?.announcementTimestamp = 0
            }
        }
    }

    func isContact(_ id: PeerID) -> Bool { pins.contacts[id] != nil }

    /// The peer to remove when the table is full (R6): of the link over which most became known, first one that never announced
    /// itself, because any sender id can be put on a packet; then one without a session; then the one that was silent for longest.
    /// Neighbours and contacts stay, and so do peers of links with fewer. A session makes a contact, so contacts stay only while
    /// they take no more than half of the table.
    func evictionCandidate(excluding isNeeded: (PeerID) -> Bool, hasSession: (PeerID) -> Bool = { _ in false }) -> PeerID? {
        let keepsContacts = records.values.count(where: \.isContact) <= Self.capacity / 2
        let candidates = records.filter {
            !$0.value.isNeighbour && !($0.value.isContact && keepsContacts) && !isNeeded($0.key)
        }
        var counts: [MeshLinkID?: Int] = [:]
        for record in candidates.values { counts[record.source, default: 0] += 1 }
        let largest = counts.max { $0.value < $1.value }?.key
        func rank(_ id: PeerID, _ record: PeerRecord) -> Int { record.agreementKey == nil ? 0 : hasSession(id) ? 2 : 1 }
        return candidates.filter { $0.value.source == largest }.min {
            (rank($0.key, $0.value), $0.value.lastHeard) < (rank($1.key, $1.value), $1.value.lastHeard)
        }?.key
    }

    /// Removes a peer; its pinned key stays.
    /// - Returns: whether it had announced itself.
    mutating func remove(_ id: PeerID) -> Bool {
        let wasAnnounced = peer(id) != nil
        for link in records[id]?.provenLinks ?? [] { neighboursByLink[link] = nil }
        for link in records[id]?.links ?? [] {
            claimsByLink[link]?.remove(id)
            if claimsByLink[link]?.isEmpty == true { claimsByLink[link] = nil }
        }
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

    /// How an announced key relates to the one that is pinned for the peer (K2).
    func verdict(on key: SigningPublicKey, for id: PeerID) -> KeyPins.Verdict { pins.verdict(on: key, of: id) }

    /// Pins the key of a valid announcement. The peer must have a record.
    mutating func pin(_ key: SigningPublicKey, for id: PeerID, now: MonotonicInstant) {
        pins.insert(key, for: id, from: records[id]?.source) { [records] in records[$0] != nil }
        records[id]?.signingKey = key
        records[id]?.lastHeard = now
    }

    /// Records an announcement under a peer's id that is signed with another key than the pinned one; neither is proven.
    mutating func contest(_ id: PeerID, by announcement: MeshFrame) { records[id]?.contender = announcement }

    /// Replaces the closed link over which a peer became known.
    mutating func setSource(_ link: MeshLinkID, of id: PeerID) { records[id]?.source = link }

    /// Applies a valid announcement.
    /// - Returns: false for one that is not newer than the last, which changes nothing (D5).
    mutating func apply(
        _ announcement: MeshAnnouncement, name: DisplayName, agreementKey: AgreementPublicKey, timestamp: UInt64,
        from id: PeerID, now: MonotonicInstant
    ) -> Bool {
        guard var record = records[id], timestamp > record.announcementTimestamp else { return false }
        record.announcementTimestamp = timestamp
        record.lastAnnounced = now
        record.name = name
        record.agreementKey = agreementKey
        record.announcedCapabilities = announcement.capabilities
        records[id] = record
        return true
    }

    mutating func setHops(_ hops: Int, of id: PeerID) { records[id]?.hops = hops }

    /// Whether an announcement says what the peer has announced less than a second ago. Some apps answer each peer that they
    /// discover with one: their signatures would use up the rate of what the peer has to say.
    func isRepetition(
        _ announcement: MeshAnnouncement, name: DisplayName, of id: PeerID, on link: MeshLinkID, isUnrelayed: Bool,
        now: MonotonicInstant
    ) -> Bool {
        guard let record = records[id], let last = record.lastAnnounced else { return false }
        return now - last < Self.announcementInterval && (!isUnrelayed || record.links.contains(link))
            && record.contender == nil && record.name == name && record.announcedCapabilities == announcement.capabilities
            && record.agreementKey?.bytes == announcement.noiseKey && record.signingKey?.bytes == announcement.signingKey
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
    /// - Returns: whether it stated the same before, and the announcement that turned out to be its own instead of the present one.
    mutating func apply(
        _ state: MeshPeerState, signingKey: SigningPublicKey, of id: PeerID
    ) -> (isRepeated: Bool, genuine: MeshFrame?) {
        guard var record = records[id] else { return (false, nil) }
        let isRepeated = record.sessionState == state
        let isChanged = record.signingKey != signingKey
        let genuine = isChanged ? record.contender : nil
        // An announcement with another key was not the peer's.
        if isChanged { record.announcementTimestamp = 0 }
        record.contender = nil
        record.signingKey = signingKey
        record.sessionState = state
        records[id] = record
        pins.insert(signingKey, for: id, isProven: true, from: record.source) { [records] in records[$0] != nil }
        return (isRepeated, genuine)
    }

    static let capacity = 1024
    private static let announcementInterval = Duration.seconds(1)
    /// Longer than the interval between two announcements of most phones whose screen is off.
    private static let lifetime = Duration.seconds(180)
    /// Peers that may claim to be at the other end of one link. More than one can be right where a node was replaced.
    private static let maximumClaimCountPerLink = 8
}
