internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

/// The members of a session with their channels and links, and the decisions about keys:
///
/// | keys | recorded | forgotten |
/// |---|---|---|
/// | `memberKeys` | when a link has joined | when the member has left, or has forgotten this node |
/// | `acceptedKeys` | at a yes of the user or the policy | at a no; when the peer has forgotten this node |
/// | `declinedKeys` | at a no of the user | at a yes |
struct SessionMembers {
    var roster: SessionRoster
    private var memberships: [PeerID: SessionMembership] = [:]
    /// Keys of present members: a member that reconnects is accepted without a question.
    private var memberKeys: [PeerID: Fingerprint] = [:]
    /// Keys that the user has declined, the latest last: a peer that tries again causes no further question. One for which another
    /// member vouches may be a member nevertheless.
    private var declinedKeys: [Fingerprint] = []
    /// Keys that the user or the policy has agreed to, the latest last, whatever became of the invitation: a peer whose user has
    /// agreed as well causes no further question.
    private var acceptedKeys: [Fingerprint] = []
    /// Limit on the keys of each kind. Recording one takes an answer of the user, or of the program in the user's place.
    private static let maximumAnsweredCount = 1024
    /// The time in which two members hear of each other from others. Within it, the refusal `unremembered` may only mean that the
    /// peer has not heard of this node yet.
    private static let announcementTime = Duration.seconds(5)
    /// Messages and streams that members did not receive.
    private(set) var lost = LostContent()
    /// This node's encoded metadata; nil before the program has set any.
    private var ownMetadata: [UInt8]?
    /// Members that may lack the latest metadata: no link to them has been open since it was set, or their last link was lost.
    private var metadataReceivers: Set<PeerID> = []
    /// This node's addresses, the latest first.
    private var addresses: [SessionMember.Address] = []
    /// The known addresses of this node's interfaces.
    private var interfaceAddresses: [SessionMember.Address] = []

    init(_ roster: SessionRoster) {
        self.roster = roster
    }

    // MARK: Members

    /// Whether the peer has the key of a present member.
    func isMemberKey(of peer: AuthenticatedPeer) -> Bool { memberKeys[peer.id] == peer.fingerprint }

    /// Whether the user has declined the key.
    func hasDeclined(_ fingerprint: Fingerprint) -> Bool { declinedKeys.contains(fingerprint) }

    /// Whether the user has declined a key with this id.
    func hasDeclined(_ id: PeerID) -> Bool { declinedKeys.contains { $0.peerID == id } }

    /// Records that the user has declined a key.
    mutating func recordDecline(of fingerprint: Fingerprint) {
        acceptedKeys.removeAll { $0 == fingerprint }
        guard !hasDeclined(fingerprint) else { return }
        declinedKeys = declinedKeys.suffix(Self.maximumAnsweredCount - 1) + [fingerprint]
    }

    /// Forgets a no, because the user has accepted an invitation of the key's owner.
    mutating func withdrawDecline(of fingerprint: Fingerprint) { declinedKeys.removeAll { $0 == fingerprint } }

    /// Whether the user or the policy has agreed to the key.
    func hasAccepted(_ fingerprint: Fingerprint) -> Bool { acceptedKeys.contains(fingerprint) }

    /// Records that the user or the policy has agreed to a key, for the rest of the session. The invitation may still fail: because
    /// there is no room, the link is lost, or the other user has not answered. Where the other end has not agreed, it says so when
    /// the two meet again, and both users are asked.
    mutating func recordAgreement(to fingerprint: Fingerprint) {
        withdrawDecline(of: fingerprint)
        guard !hasAccepted(fingerprint) else { return }
        acceptedKeys = acceptedKeys.suffix(Self.maximumAnsweredCount - 1) + [fingerprint]
    }

    /// Whether this node joins with a key without asking its user: it has agreed to the key before, or another member vouches for it.
    func remembers(_ fingerprint: Fingerprint) -> Bool {
        let id = fingerprint.peerID
        if memberKeys[id] == fingerprint || hasAccepted(fingerprint) { return true }
        return roster.member(id)?.fingerprint == fingerprint && roster.announcer(of: id) != nil
    }

    /// Forgets the answers for a key, because the other end has forgotten its answers; and the member that vouches for the key, if it
    /// has done so for longer than ``announcementTime``.
    mutating func forget(_ fingerprint: Fingerprint, now: MonotonicInstant) {
        let id = fingerprint.peerID
        roster.forgetAnnouncer(of: id, olderThan: Self.announcementTime, now: now)
        if memberKeys[id] == fingerprint { memberKeys[id] = nil }
        acceptedKeys.removeAll { $0 == fingerprint }
    }

    /// Admits a peer, or accepts a member again.
    /// - Returns: false when the session is full, or the founder has removed the peer.
    mutating func admit(_ peer: AuthenticatedPeer, name: DisplayName, now: MonotonicInstant) -> Bool {
        let known = roster.member(peer.id)
        guard known != nil || !roster.isFull, !roster.isRemoved(peer.fingerprint) else { return false }
        if known?.fingerprint != peer.fingerprint {
            roster.admit(SessionMember(fingerprint: peer.fingerprint, name: name), now: now)
        }
        memberKeys[peer.id] = peer.fingerprint
        return true
    }

    /// The changes of the roster since the last call, and the links of the members that left.
    mutating func drainChanges() -> (changes: [Session.Change], removedLinks: [SessionLink]) {
        var removed: [SessionLink] = []
        let changes = roster.drainChanges().map { change -> Session.Change in
            switch change {
            case .joined(let member):
                if ownMetadata != nil { metadataReceivers.insert(member.id) }
                return .joined(Session.Member(member, in: self))
            case .state(let id, let state): return .state(id, state)
            case .left(let id):
                var membership = memberships.removeValue(forKey: id)
                let lost = membership?.channel.unacknowledgedCount ?? 0
                removed += membership?.links ?? []
                self.lost.record(messages: lost, of: id)
                for link in membership?.links ?? [] { recordUndeliveredStreams(of: link) }
                memberKeys[id] = nil
                metadataReceivers.remove(id)
                membership?.settleReceipts()
                return .left(id, lost: lost)
            }
        }
        return (changes, removed)
    }

    /// The frames with news for other members, and the links over which they are sent.
    mutating func drainUpdates(now: MonotonicInstant) -> [(link: SessionLink, frame: SessionFrame)] {
        guard roster.areUpdatesDue(now: now) else { return [] }
        // The other end of a link that is not complete may be waiting for its user.
        let direct = memberships.compactMapValues { membership in
            let links = membership.links.filter { $0.relay == nil }
            return links.last { $0.isComplete.load(ordering: .acquiring) } ?? links.last
        }
        return roster.drainUpdates(for: Array(direct.keys), now: now).compactMap { member, frame in
            direct[member].map { ($0, frame) }
        }
    }

    // MARK: Metadata

    func metadata(of member: PeerID) -> StructuredValue? { memberships[member]?.metadata }

    mutating func setOwnMetadata(_ encoded: [UInt8]) {
        ownMetadata = encoded
        for index in memberships.values.indices { memberships.values[index].channel.setMetadata(encoded) }
        metadataReceivers = Set(roster.memberIDs)
    }

    /// Sends this node's metadata over the links of its channels, and asks for links to members without one.
    /// - Returns: the links to wake, and whether connection attempts may be due.
    mutating func sendMetadata() -> (links: [SessionLink], needsLinks: Bool) {
        var wakened: [SessionLink] = []
        var needsLinks = false
        for id in metadataReceivers.sorted() {
            let links = links(to: id)
            if links.isEmpty {
                if roster.state(of: id).isConnected, roster.demandLink(to: id) { needsLinks = true }
            } else {
                metadataReceivers.remove(id)
                wakened += links
            }
        }
        return (wakened, needsLinks)
    }

    // MARK: Addresses

    /// Announces an address under which this node was reached.
    mutating func addAddress(_ address: SessionMember.Address) {
        addresses = Array(([address] + addresses.filter { $0 != address }).prefix(SessionMember.maximumAddressCount))
        announceAddresses()
    }

    /// Announces the addresses of this node's interfaces. Those under which it was reached come first, as long as it has them.
    mutating func setInterfaceAddresses(_ new: [SessionMember.Address]) {
        interfaceAddresses = new
        announceAddresses()
    }

    private mutating func announceAddresses() {
        let reached = addresses.filter {
            interfaceAddresses.isEmpty || interfaceAddresses.contains($0) || IPAddress.isLoopback(host: $0.host)
        }
        let all = reached + interfaceAddresses.filter { !reached.contains($0) }
        roster.setAddresses(Array(all.prefix(SessionMember.maximumAddressCount)))
    }

    // MARK: Links

    var links: [SessionLink] { memberships.values.flatMap(\.links) }

    func links(to member: PeerID) -> [SessionLink] { memberships[member]?.links ?? [] }

    /// Adds a link to a member's channel.
    /// - Returns: nil when the member has no channel.
    mutating func addLink(to member: PeerID, _ make: (MessageChannel.LinkID) -> SessionLink) -> SessionLink? {
        guard var membership = memberships[member] else { return nil }
        let link = make(membership.channel.attach())
        membership.links.append(link)
        memberships[member] = membership
        return link
    }

    /// Removes a link that has ended.
    mutating func remove(_ link: SessionLink, now: MonotonicInstant) {
        guard let membership = memberships[link.peer], memberships[link.peer]?.remove(link) == true else { return }
        recordUndeliveredStreams(of: link)
        updateReachability(of: link.peer, now: now)
        if !membership.channel.isEmpty { roster.demandLink(to: link.peer) }
        // The link may have been lost with the latest metadata on its way.
        if ownMetadata != nil, links(to: link.peer).isEmpty { metadataReceivers.insert(link.peer) }
    }

    private mutating func recordUndeliveredStreams(of link: SessionLink) {
        lost.record(streams: link.driver.streams.undeliveredCount, of: link.peer)
    }

    /// The number of streams to a member of which written bytes are not known to have arrived, those of ended links included.
    func undeliveredStreamCount(of member: PeerID) -> Int {
        links(to: member).reduce(lost.streamCount(of: member)) { $0 + $1.driver.streams.undeliveredCount }
    }

    /// Removes all links, and the messages of all channels, which stay for receipts.
    /// - Returns: the links.
    mutating func removeLinks() -> [SessionLink] {
        let all = links
        for link in all { _ = memberships[link.peer]?.remove(link) }
        for index in memberships.values.indices { memberships.values[index].channel.discardMessages() }
        return all
    }

    /// Records in the roster how a member is reached, by its links.
    mutating func updateReachability(of member: PeerID, now: MonotonicInstant) {
        let all = links(to: member)
        // Over others nothing arrives yet: their other end may not even agree.
        let links = all.filter { $0.isComplete.load(ordering: .acquiring) }
        if links.contains(where: { $0.relay == nil }) {
            roster.recordConnection(to: member, via: nil, now: now)
        } else if let relay = links.last?.relay {
            roster.recordConnection(to: member, via: relay, now: now)
        } else {
            roster.recordDisconnection(of: member, joiningUntil: all.compactMap(\.expiry).max(), now: now)
        }
    }

    /// The relayed links that this node closes once they are idle: to members with a direct link and a higher id.
    func idleRelayCandidates(of own: PeerID) -> [SessionLink] {
        memberships.filter { id, _ in own < id && roster.state(of: id) == .connected(via: nil) }
            .values.flatMap(\.links).filter { $0.relay != nil }
    }

    // MARK: Messages

    /// Changes a membership in its place. Called for each message and each batch of frames, for which an assignment through the
    /// subscript of the dictionary would copy the channel, with about twenty references.
    @discardableResult
    private mutating func updateMembership<Result>(of member: PeerID, _ body: (inout SessionMembership) -> Result) -> Result? {
        guard let index = memberships.index(forKey: member) else { return nil }
        return body(&memberships.values[index])
    }

    // Called for each message: a look at the value would copy the channel.
    func hasChannel(to member: PeerID) -> Bool { memberships.keys.contains(member) }

    mutating func addChannel(_ channel: MessageChannel, to member: PeerID) {
        var membership = SessionMembership(channel: channel)
        if let ownMetadata { membership.channel.setMetadata(ownMetadata) }
        memberships[member] = membership
    }

    func hasRoom(for member: PeerID, isUrgent: Bool) -> Bool { memberships[member]?.hasRoom(isUrgent: isUrgent) ?? true }

    func unacknowledgedCount(of member: PeerID) -> Int { memberships[member]?.channel.unacknowledgedCount ?? 0 }

    func unacknowledgedByteCount(of member: PeerID) -> Int {
        memberships[member]?.channel.unacknowledgedByteCount ?? 0
    }

    func queuedByteCount(of member: PeerID) -> Int { memberships[member]?.channel.queuedByteCount ?? 0 }

    var areAllMessagesDelivered: Bool { memberships.values.allSatisfy { $0.channel.isEmpty } }

    mutating func append(
        _ message: SessionMessage, isUrgent: Bool, for member: PeerID, expiry: MonotonicInstant? = nil
    ) -> (links: [SessionLink], isAlone: Bool, receipt: SentMessage.Receipt)? {
        updateMembership(of: member) { $0.append(message, isUrgent: isUrgent, for: member, expiry: expiry) } ?? nil
    }

    /// The next time at which a message may have to be dropped.
    var nextExpiry: MonotonicInstant? { memberships.values.compactMap(\.channel.nextExpiry).min() }

    /// Drops the messages that no link has carried in their time.
    /// - Returns: whether there were any.
    mutating func dropExpired(now: MonotonicInstant) -> Bool {
        var isAny = false
        for index in memberships.values.indices where memberships.values[index].channel.nextExpiry.map({ $0 <= now }) == true {
            if memberships.values[index].channel.dropExpired(now: now) { isAny = true }
        }
        return isAny
    }

    /// The state of a sent message.
    enum Delivery {
        case pending
        case delivered
        /// Dropped before a link carried it, or its receiver has left or restarted.
        case lost
    }

    func delivery(of receipt: SentMessage.Receipt) -> Delivery {
        let settled = receipt.settlement.current
        let channel = settled ?? memberships[receipt.member]?.channel
        return switch channel?.isAcknowledged(receipt.ticket, of: receipt.generation) {
        case true?: .delivered
        // Nothing more is acknowledged of what is settled.
        case false?: settled == nil ? .pending : .lost
        case nil: .lost
        }
    }

    mutating func receive(_ frames: [[UInt8]], on link: SessionLink) -> SessionMembership.Arrival? {
        let arrival = updateMembership(of: link.peer) { $0.receive(frames, on: link) }
        lost.record(messages: arrival?.lostCount ?? 0, of: link.peer)
        return arrival
    }

    mutating func nextBatch(for link: SessionLink, byteCount: Int) -> [UInt8]? {
        updateMembership(of: link.peer) { $0.nextBatch(for: link.channelLink, byteCount: byteCount) } ?? nil
    }

    /// Tells the channels which messages the program has received.
    mutating func recordDeliveries(_ messages: [Session.ReceivedMessage]) {
        for received in messages {
            updateMembership(of: received.sender) { $0.channel.recordDelivery(of: received.message, at: received.position) }
        }
    }

    /// Links with frames of their channels to send.
    var dueLinks: [SessionLink] { memberships.values.flatMap(\.dueLinks) }

    /// Makes all acknowledgements that are owed due at once.
    /// - Returns: the links to wake.
    mutating func sendOwedAcknowledgements() -> [SessionLink] {
        var links: [SessionLink] = []
        for index in memberships.values.indices { links += memberships.values[index].sendOwedAcknowledgement() }
        return links
    }
}

extension SessionMember.Address {
    /// An address of this node for other members: the zone of a link-local one means nothing to them.
    init(announcing host: String, port: UInt16) {
        self.init(host: String(host.prefix { $0 != "%" }), port: port)
    }

    /// The addresses to connect to. A link-local one may be on the link of any interface of this node.
    /// - Parameter zones: the interfaces of this node that have link-local addresses.
    func destinations(zones: [String]) -> [LinkAddress] {
        guard IPAddress(text: host)?.needsZone == true else { return [LinkAddress(host: host, port: port)] }
        return zones.map { LinkAddress(host: "\(host)%\($0)", port: port) }
    }
}
