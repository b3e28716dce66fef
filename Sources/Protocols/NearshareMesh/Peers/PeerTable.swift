internal import NearshareBase
internal import NearshareCrypto

/// All known peers, neighbours and those behind relays, with their pinned keys.
struct PeerTable: Sendable {
    /// The change in the table after an unrelayed announcement.
    enum ClaimUpdate {
        case unchanged
        /// A further link of a peer that claims to be a neighbour already, or that has not announced itself.
        case newLink
        case newClaimant(MeshPeer)
    }

    private(set) var records: [PeerID: PeerRecord] = [:]
    private var pins = KeyPins()
    private var provenNeighboursByLink: [MeshLinkID: PeerID] = [:]
    /// The peers that announced themselves unrelayed on a link: ``PeerRecord/LinkEvidence/claimed`` the other way round.
    private var claimantsByLink: [MeshLinkID: Set<PeerID>] = [:]
    /// The peers that are reached over a link: ``PeerRecord/LinkEvidence/routes`` the other way round.
    private var peersByRoute: [MeshLinkID: Set<PeerID>] = [:]
    private var challenges = NeighbourChallenges()
    /// The leaves of the peers that left last, so that no older announcement brings one back.
    private var leaves: [PeerID: Leave] = [:]

    private struct Leave: Sendable {
        /// Milliseconds since 1970, by the peer's clock.
        var timestamp: UInt64
        var signingKey: SigningPublicKey
    }

    subscript(id: PeerID) -> PeerRecord? { records[id] }

    var count: Int { records.count }
    var isFull: Bool { records.count >= Self.capacity }

    /// All peers that have announced themselves.
    var announced: [MeshPeer] { records.keys.compactMap { peer($0) } }

    /// nil for a peer that has not announced itself.
    func peer(_ id: PeerID) -> MeshPeer? {
        guard let record = records[id], let name = record.announcement.name, let key = record.agreementKey else { return nil }
        return MeshPeer(
            id: id, name: name, fingerprint: Fingerprint(of: key),
            capabilities: record.capabilities, isDirect: record.claimsToBeNeighbour,
            isReachable: record.claimsToBeNeighbour || record.links.discovery != nil,
            hops: record.claimsToBeNeighbour ? 1 : record.announcement.hops,
            statedFragmentLimit: record.sessionState?.fragmentLimit)
    }

    // MARK: Neighbours

    /// Number of neighbours: of the links at whose other ends peers have announced themselves, whatever their number. Several
    /// links to one neighbour that has proven its key count once.
    var degree: Int { claimantsByLink.count - (provenNeighboursByLink.count - provenNeighbours.count) }

    /// Ids of the peers that have proven to be at the other end of a link.
    var provenNeighbours: Set<PeerID> { Set(provenNeighboursByLink.values) }

    /// Ids of the peers that announced themselves unrelayed on a link: each claims to be at its other end.
    func claimants(on link: MeshLinkID) -> Set<PeerID> { claimantsByLink[link] ?? [] }

    /// Whether a peer has announced itself unrelayed on a link.
    func hasClaimants(on link: MeshLinkID) -> Bool { claimantsByLink[link] != nil }

    /// The peer that has proven to be at the other end of a link.
    func provenNeighbour(on link: MeshLinkID) -> PeerID? { provenNeighboursByLink[link] }

    /// Whether a peer has proven its key on a link.
    func isNeighbour(_ id: PeerID) -> Bool { records[id]?.isNeighbour ?? false }

    /// Records an unrelayed announcement of a known peer on a link (section 4). The announcement may be replayed, so it makes no
    /// neighbour.
    mutating func recordClaim(of id: PeerID, on link: MeshLinkID) -> ClaimUpdate {
        guard var record = records[id], record.signingKey != nil, !record.links.claimed.contains(link),
            claimants(on: link).count < Self.maximumClaimCountPerLink
        else { return .unchanged }
        let wasClaimant = record.claimsToBeNeighbour
        record.links.claimed.insert(link)
        claimantsByLink[link, default: []].insert(id)
        records[id] = record
        guard !wasClaimant, let peer = peer(id) else { return .newLink }
        return .newClaimant(peer)
    }

    /// Records that a peer has proven its key on a link. The first one is its neighbour until the link is closed: a link has one
    /// other end.
    /// - Returns: whether the peer became the neighbour on this link with this call.
    mutating func prove(_ id: PeerID, on link: MeshLinkID) -> Bool {
        challenges.finish(id, on: link)
        guard provenNeighboursByLink[link] == nil, records[id]?.links.proven.insert(link).inserted == true else { return false }
        records[id]?.links.claimed.insert(link)
        claimantsByLink[link, default: []].insert(id)
        provenNeighboursByLink[link] = id
        return true
    }

    /// The links at whose other ends a peer is: where it has proven its key, or has announced itself unrelayed and no other peer has
    /// proven a key.
    func neighbourLinks(of id: PeerID) -> Set<MeshLinkID> {
        (records[id]?.links.claimed ?? []).filter { (provenNeighbour(on: $0) ?? id) == id }
    }

    // MARK: Challenges

    /// Whether a peer that claims to be at the other end of a link is able to prove it there.
    func mayBeChallenged(_ id: PeerID, on link: MeshLinkID) -> Bool {
        guard let record = records[id], record.links.claimed.contains(link), provenNeighbour(on: link) == nil else {
            return false
        }
        // Phones do not sign their answers: their sessions prove where they are.
        guard let capabilities = record.announcement.capabilities else { return false }
        return capabilities.contains(.fileOffers) || capabilities.contains(.bundles)
    }

    /// Starts to challenge a peer, see ``NeighbourChallenges/start(_:on:nonce:now:)``.
    mutating func challenge(
        _ id: PeerID, on link: MeshLinkID, nonce: [UInt8], now: MonotonicInstant
    ) -> NeighbourChallenges.Challenge? {
        challenges.start(id, on: link, nonce: nonce, now: now)
    }

    /// Whether an answer with this number is expected from a peer on a link.
    func isChallenged(_ id: PeerID, on link: MeshLinkID, nonce: [UInt8]) -> Bool {
        challenges.isExpected(nonce, from: id, on: link)
    }

    /// The challenges that are to be sent again, because they or their answers were lost.
    mutating func retransmittedChallenges(now: MonotonicInstant) -> [NeighbourChallenges.Challenge] {
        challenges.retransmissions(now: now)
    }

    /// Whether there is a link over which the peer was heard.
    func isReachable(_ id: PeerID) -> Bool {
        guard let links = records[id]?.links else { return false }
        return !links.claimed.isEmpty || links.discovery != nil || links.reverseRoute != nil
    }

    // MARK: Entries

    /// Removes a closed link.
    /// - Returns: the announced peers that used it, in ascending order.
    mutating func removeLink(_ link: MeshLinkID) -> [MeshPeer] {
        challenges.removeLink(link)
        provenNeighboursByLink[link] = nil
        // Closed links are counted together, so that one that comes and goes is not several.
        var changed = claimantsByLink.removeValue(forKey: link) ?? []
        for id in changed {
            records[id]?.links.claimed.remove(link)
            records[id]?.links.proven.remove(link)
        }
        for id in peersByRoute[link] ?? [] {
            if records[id]?.links.discovery == link { changed.insert(id) }
            changeRoutes(of: id) { $0.removeRoute(link) }
        }
        return changed.sorted().compactMap { peer($0) }
    }

    /// Adds a peer without any further information.
    /// - Parameter link: the link over which it became known; nil where this node looks for it.
    mutating func insert(_ id: PeerID, from link: MeshLinkID? = nil, publicMessageLimiter: TokenBucket, now: MonotonicInstant) {
        records[id] = PeerRecord(
            links: PeerRecord.LinkEvidence(), lastHeard: now, isContact: pins.contacts[id] != nil,
            publicMessageLimiter: publicMessageLimiter)
        changeRoutes(of: id) { $0.discovery = link }
    }

    /// Changes the links over which a known peer is reached.
    private mutating func changeRoutes(of id: PeerID, _ change: (inout PeerRecord.LinkEvidence) -> Void) {
        guard let before = records[id]?.links else { return }
        var links = before
        change(&links)
        for link in before.routes.subtracting(links.routes) {
            peersByRoute[link]?.remove(id)
            if peersByRoute[link]?.isEmpty == true { peersByRoute[link] = nil }
        }
        for link in links.routes.subtracting(before.routes) { peersByRoute[link, default: []].insert(id) }
        records[id]?.links = links
    }

    /// The user's contacts with their signing keys. They stay known, whatever others announce.
    mutating func setContacts(_ contacts: [PeerID: SigningPublicKey]) {
        pins.contacts = contacts
        for id in records.keys {
            records[id]?.isContact = contacts[id] != nil
            // Announced by another peer, under the contact's id.
            if let key = contacts[id], let announced = records[id]?.signingKey, announced != key {
                records[id]?.signingKey = key
                records[id]?.announcement.timestamp = 0
            }
        }
    }

    func isContact(_ id: PeerID) -> Bool { pins.contacts[id] != nil }

    /// The peer to remove when the table is full (R6), among those of the link over which most became known: first one that never
    /// announced itself, because any sender id can be put on a packet; then one without a session; then the one that was silent
    /// for longest. Neighbours and contacts stay, and so do peers of links with fewer. A hurried user may have answered many of
    /// them, so contacts stay only while they take no more than half of the table.
    func evictionCandidate(excluding isNeeded: (PeerID) -> Bool, hasSession: (PeerID) -> Bool = { _ in false }) -> PeerID? {
        typealias Candidate = (id: PeerID, rank: Int, lastHeard: MonotonicInstant)
        var (others, contacts): ([MeshLinkID?: [Candidate]], [MeshLinkID?: [Candidate]]) = ([:], [:])
        var contactCount = 0
        // Each record is looked at once: a flood of announcements makes this run often.
        for (id, record) in records {
            if record.isContact { contactCount += 1 }
            guard !record.isNeighbour, !isNeeded(id) else { continue }
            let candidate = (id, record.agreementKey == nil ? 0 : hasSession(id) ? 2 : 1, record.lastHeard)
            if record.isContact {
                contacts[record.links.discovery, default: []].append(candidate)
            } else {
                others[record.links.discovery, default: []].append(candidate)
            }
        }
        let candidates = contactCount > Self.capacity / 2 ? others.merging(contacts, uniquingKeysWith: +) : others
        // The smaller number of equal ones, so that the same peers lead to the same candidate.
        let largest = candidates.max {
            ($0.value.count, $1.key?.rawValue ?? 0) < ($1.value.count, $0.key?.rawValue ?? 0)
        }
        return largest?.value.min { ($0.rank, $0.lastHeard, $0.id) < ($1.rank, $1.lastHeard, $1.id) }?.id
    }

    /// Removes a peer; its pinned key stays.
    /// - Returns: whether it had announced itself.
    mutating func remove(_ id: PeerID) -> Bool {
        let wasAnnounced = peer(id) != nil
        for link in records[id]?.links.proven ?? [] { provenNeighboursByLink[link] = nil }
        for link in records[id]?.links.claimed ?? [] {
            claimantsByLink[link]?.remove(id)
            if claimantsByLink[link]?.isEmpty == true { claimantsByLink[link] = nil }
        }
        changeRoutes(of: id) { $0 = PeerRecord.LinkEvidence() }
        records[id] = nil
        challenges.removePeer(id)
        return wasAnnounced
    }

    /// Peers that were silent for too long, in ascending order.
    func expired(now: MonotonicInstant) -> [PeerID] {
        records.compactMap { id, record in now - record.lastHeard > Self.lifetime ? id : nil }.sorted()
    }

    /// Spends one message to everyone from a peer's budget.
    /// - Returns: false when the message must be dropped.
    mutating func admitPublicMessage(from id: PeerID, now: MonotonicInstant) -> Bool {
        records[id]?.publicMessageLimiter.consume(now: now) ?? false
    }

    // MARK: Announcements

    /// How an announced key relates to the one that is pinned for the peer (K2).
    func pinVerdict(on key: SigningPublicKey, of id: PeerID) -> KeyPins.Verdict { pins.verdict(on: key, of: id) }

    /// Whether the pinned key was stated inside a session, or is that of a contact.
    func hasProvenSigningKey(_ id: PeerID) -> Bool { pins.isProven(id) }

    /// Pins the key of a valid announcement. The peer must have a record.
    mutating func pin(_ key: SigningPublicKey, for id: PeerID, now: MonotonicInstant) {
        pins.insert(key, for: id, from: records[id]?.links.discovery) { [records] in records[$0] != nil }
        records[id]?.signingKey = key
        records[id]?.lastHeard = now
    }

    /// Records an announcement under a peer's id that is signed with another key than the pinned one. Neither key is proven.
    mutating func contest(_ id: PeerID, by announcement: MeshFrame) { records[id]?.conflictingAnnouncement = announcement }

    /// Replaces the closed link over which a peer became known.
    mutating func setDiscoveryLink(_ link: MeshLinkID, of id: PeerID) {
        changeRoutes(of: id) { $0.discovery = link }
    }

    /// Applies a valid announcement.
    /// - Returns: false for one that is not newer than the last, which changes nothing (D5).
    mutating func apply(
        _ announcement: MeshAnnouncement, name: DisplayName, agreementKey: AgreementPublicKey, timestamp: UInt64,
        from id: PeerID, now: MonotonicInstant
    ) -> Bool {
        guard var record = records[id], timestamp > record.announcement.timestamp else { return false }
        record.announcement.timestamp = timestamp
        record.announcement.received = now
        record.announcement.name = name
        record.agreementKey = agreementKey
        record.announcement.capabilities = announcement.capabilities
        records[id] = record
        return true
    }

    mutating func setHops(_ hops: Int, of id: PeerID) { records[id]?.announcement.hops = hops }

    /// Lowers the distance of a peer, after another copy of its latest announcement came over fewer hops.
    mutating func lowerHops(to hops: Int, of id: PeerID, announcedAt timestamp: UInt64) {
        guard let announcement = records[id]?.announcement, announcement.timestamp == timestamp else { return }
        records[id]?.announcement.hops = min(hops, announcement.hops ?? hops)
    }

    /// Records the signed leave of a peer, before it is removed. A peer that was not announced has none.
    mutating func recordLeave(of id: PeerID, at timestamp: UInt64) {
        guard let key = records[id]?.signingKey else { return }
        leaves[id] = Leave(timestamp: timestamp, signingKey: key)
        guard leaves.count > Self.capacity else { return }
        if let oldest = leaves.min(by: { $0.value.timestamp < $1.value.timestamp }) { leaves[oldest.key] = nil }
    }

    /// Whether a peer has left after this time. A leave counts for announcements of its signer alone: with another key it was not
    /// the peer's.
    func hasLeft(_ id: PeerID, since timestamp: UInt64, signingKey: SigningPublicKey) -> Bool {
        guard let leave = leaves[id] else { return false }
        return leave.timestamp >= timestamp && leave.signingKey == signingKey
    }

    /// Whether an announcement says what the peer has announced less than a second ago. Some apps answer each peer that they
    /// discover with one: their signatures would use up the rate of what the peer has to say.
    func isRepetition(
        _ announcement: MeshAnnouncement, name: DisplayName, of id: PeerID, on link: MeshLinkID, isUnrelayed: Bool,
        now: MonotonicInstant
    ) -> Bool {
        guard let record = records[id], let last = record.announcement.received else { return false }
        return now - last < Self.announcementInterval && (!isUnrelayed || record.links.claimed.contains(link))
            && record.conflictingAnnouncement == nil && record.announcement.name == name
            && record.announcement.capabilities == announcement.capabilities
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
        changeRoutes(of: id) { $0.reverseRoute = link }
        records[id]?.lastHeard = now
    }

    /// Whether a peer has stated the same in the current session before.
    func hasStated(_ state: MeshPeerState, signingKey: SigningPublicKey, _ id: PeerID) -> Bool {
        records[id].map { $0.sessionState == state && $0.signingKey == signingKey } ?? false
    }

    /// Applies the peer's statement inside the current session, which outranks its announcements.
    /// - Returns: the announcement that turned out to be the peer's own instead of the current one.
    mutating func apply(_ state: MeshPeerState, signingKey: SigningPublicKey, of id: PeerID) -> MeshFrame? {
        guard var record = records[id] else { return nil }
        let isChanged = record.signingKey != signingKey
        let genuine = isChanged ? record.conflictingAnnouncement : nil
        // An announcement with another key was not the peer's.
        if isChanged { (record.announcement.timestamp, record.announcement.capabilities) = (0, nil) }
        record.conflictingAnnouncement = nil
        record.signingKey = signingKey
        record.sessionState = state
        records[id] = record
        pins.insert(signingKey, for: id, isProven: true, from: record.links.discovery) { [records] in records[$0] != nil }
        return genuine
    }

    static let capacity = 1024
    private static let announcementInterval = Duration.seconds(1)
    /// Time after which a silent peer is removed: longer than the interval between two announcements of most phones whose screen
    /// is off.
    private static let lifetime = Duration.seconds(180)
    /// Peers that may claim to be at the other end of one link. More than one can be right where a node was replaced.
    private static let maximumClaimCountPerLink = 8
}
