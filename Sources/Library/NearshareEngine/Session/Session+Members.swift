internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

// The members and their links: joining, leaving, and what members say of each other.
extension Session {
    /// Announces this node's addresses, and tries the members without a direct link at once: its network has changed.
    func networkChanged(_ hosts: [String]) {
        let now = node.settings.clock()
        let port = node.listeningPort
        update { state in
            if let port { state.members.setInterfaceAddresses(hosts.map { .init(announcing: $0, port: port) }) }
            state.members.roster.recordNetworkChange(now: now)
        }
    }

    /// Records the addresses at which this node has found a peer: a member, which may have announced none yet, or one that may
    /// become a member. A peer that is not seen any more has no addresses.
    func recordFound(_ peer: PeerID, at addresses: [LinkAddress]) {
        let now = node.settings.clock()
        let found = addresses.filter { $0.medium == .network }.map { SessionMember.Address(host: $0.host, port: $0.port) }
        update { $0.members.roster.setDiscoveredAddresses(found, of: peer, now: now) }
    }

    /// Ends the session when the peer that has invited this node does not join it, unless there are other members, or it is a room.
    func cancelJoin(of peer: PeerID, because reason: SessionError) {
        let now = node.settings.clock()
        update { $0.members.roster.recordDeparture(of: peer, now: now) }
        if room == nil, members.isEmpty { end(reason) }
    }

    /// Removes a peer that has become a member by a link that has ended before the peer has joined by it. No effect where there are
    /// other links to the peer.
    /// - Returns: whether the peer was removed.
    func undoAdmission(by link: SessionLink) -> Bool {
        guard link.isAdmission, !link.isComplete.load(ordering: .acquiring) else { return false }
        let now = node.settings.clock()
        return update { state -> Bool in
            guard !state.isOver, state.members.roster.member(link.peer) != nil, state.members.links(to: link.peer).isEmpty
            else {
                return false
            }
            state.members.roster.recordDeparture(of: link.peer, now: now)
            return true
        }
    }

    /// Waits until a peer is a member, for ``answerGrace``: another member has invited it at the same time.
    /// - Returns: whether it is a member.
    func waitUntilMember(_ peer: AuthenticatedPeer) async -> Bool {
        let isMember = { @Sendable in
            self.state.withLock { !$0.isOver && $0.members.roster.member(peer.id)?.fingerprint == peer.fingerprint }
        }
        await withTimeout(Self.answerGrace) { await self.memberChange.wait { self.isOver || isMember() } }
        return isMember()
    }

    /// Records that a member has no room for this node.
    func recordRefusal(of peer: AuthenticatedPeer) {
        let now = node.settings.clock()
        update { state in
            guard state.members.roster.member(peer.id)?.fingerprint == peer.fingerprint else { return }
            state.members.roster.recordRefusal(of: peer.id, now: now)
        }
    }

    func isMember(_ id: PeerID) -> Bool { state.withLock { !$0.isOver && $0.members.roster.member(id) != nil } }

    // MARK: Joining

    /// Adds a link to the session.
    /// - Parameter expiry: the latest time at which the other end agrees; nil when it has agreed already.
    /// - Returns: the reason where the link has not joined: the session is full or over, the founder has removed the peer, or the
    ///   link has ended.
    func join(
        _ driver: LinkDriver, _ link: any StreamLink, _ known: LinkPeerInfo, isInitiator: Bool,
        awaitedUntil expiry: MonotonicInstant? = nil
    ) -> Result<SessionLink, SessionError> {
        guard let peer = known.proven, let name = known.name, let handshake = known.handshake else {
            return .failure(Self.lostLink)
        }
        let now = node.settings.clock()
        let datagramTag = node.settings.randomInteger()
        let joined: Result<SessionLink, SessionError> = update { state in
            if let end = state.end { return .failure(end) }
            let isAdmission = state.members.roster.member(peer.id) == nil
            guard state.members.admit(peer, name: name, now: now) else {
                return .failure(state.members.roster.isRemoved(peer.fingerprint) ? Self.removed(peer) : .full)
            }
            if !state.members.hasChannel(to: peer.id) { addChannel(to: peer.id, &state) }
            if let expiry { state.members.roster.recordJoining(peer.id, until: expiry) }
            let added = state.members.addLink(to: peer.id) { channelLink in
                SessionLink(
                    peer: peer.id, driver: driver, remoteHost: link.remoteHost, localHost: link.localHost,
                    relay: (link as? RelayedLink)?.relay, isInitiator: isInitiator, isAdmission: isAdmission,
                    expiry: expiry, channelLink: channelLink, datagramTag: datagramTag, cipher: handshake.datagrams)
            }
            guard let added else { return .failure(Self.lostLink) }
            return .success(added)
        }
        guard case .success(let sessionLink) = joined else { return joined }
        driver.reserve()
        driver.streams.startAcceptingStreams()
        node.start { await self.followStreams(of: sessionLink) }
        driver.datagrams.read { self.handle(payload: $0, from: sessionLink.peer) }
        if isInitiator {
            // Safe: the empty name is within the limit.
            guard let stream = driver.openStream(.messages, StreamName("")!, with: sessionLink.peer) else {
                // The link ended in the meantime.
                remove(sessionLink)
                _ = undoAdmission(by: sessionLink)
                return .failure(Self.lostLink)
            }
            completeJoin(sessionLink)
            exchangeMessages(on: sessionLink, stream)
            // The link may break before the member has announced its addresses.
            if sessionLink.relay == nil { recordFound(peer.id, at: [link.remote]) }
        }
        return joined
    }

    private static let lostLink = SessionError.unavailable("the connection to the peer was lost while it was joining")

    /// Begins the exchange of reliable messages with a member.
    func addChannel(to member: PeerID, _ state: inout State) {
        state.members.recordDeliveries(inbox.drainDelivered())
        // Unread messages of a member that has left and returns stay bounded. 0 as the epoch means that none is known.
        let channel = MessageChannel(
            epoch: node.settings.randomInteger() | 1, limits: settings.channel, stale: inbox.waitingMessages(of: member))
        state.members.addChannel(channel, to: member)
    }

    /// Completes the joining of a link: both ends accept streams and transfers on it. Called before messages are exchanged, so that
    /// the program learns that a member is connected before it learns what it says.
    private func completeJoin(_ link: SessionLink) {
        link.isComplete.store(true, ordering: .releasing)
        let now = node.settings.clock()
        // Before the session's lock, which those of the node precede.
        let own = link.relay == nil ? node.listeningPort.map { (port: $0, hosts: node.interfaceAddresses) } : nil
        update { state in
            state.members.updateReachability(of: link.peer, now: now)
            if link.isInitiator, let relay = link.relay {
                state.members.roster.recordAttemptEnd(to: link.peer, through: relay)
            }
            state.slow.recordLink(to: link.peer, now: now)
            state.transfers.recordLink(to: link.peer)
            state.isReplaced = false
            guard let own else { return }
            if !own.hosts.isEmpty {
                state.members.setInterfaceAddresses(own.hosts.map { .init(announcing: $0, port: own.port) })
            }
            if let host = link.localHost { state.members.addAddress(SessionMember.Address(host: host, port: own.port)) }
        }
        // A member that was reached through others before has the same state as before.
        progress.notifyAll()
        let (founder, roster) = state.withLock { state in
            let roster = state.members.roster
            return (roster.founderFrame, link.relay == nil ? roster.rosterFrame : roster.ownEntryFrame)
        }
        // First: the entries of removed members are ignored.
        if let founder { link.driver.send(founder) }
        link.driver.send(roster)
        link.driver.measureRoundTripTime()
        if link.relay == nil, let datagrams {
            link.driver.send(.datagrams(id, port: datagrams.port, tag: link.datagramTag))
        }
        if state.withLock(\.isLeaving) { announceDeparture(on: link) }
    }

    /// Removes a link that has ended.
    /// - Parameter end: the reason, where the link had one of its own.
    func remove(_ link: SessionLink, after end: LinkEnd? = nil) {
        let now = node.settings.clock()
        let isReplaced = update { state -> Bool in
            let wasMember = state.members.links(to: link.peer).contains { $0 === link }
            state.members.remove(link, now: now)
            // A member may also close links to an earlier state of this program; then there is a newer link.
            guard wasMember, end == .closure(.closed(by: .remote, .replaced)), state.members.links(to: link.peer).isEmpty else {
                return false
            }
            state.members.roster.recordReplacement(of: link.peer, now: now)
            guard state.members.links.isEmpty, !state.members.roster.isFounder else { return false }
            state.isReplaced = true
            return room == nil || state.isKeyShared
        }
        // One member alone cannot end the session: not while there are other links, where this node is the founder, or in a room, which
        // any peer may join. There, the other program has to be seen as well.
        if isReplaced { return self.end(Self.replacedError) }
        // Another link may have to take over; updates that the old one did not carry are in the whole roster.
        let others = linksTo(link.peer)
        if link.relay == nil, let other = others.last(where: { $0.relay == nil }) {
            other.driver.send(state.withLock { $0.members.roster.rosterFrame })
        }
        for other in others { other.wake() }
        // A leave waits for the answer on each link.
        if state.withLock(\.isLeaving) { progress.notifyAll() }
    }

    /// Records whether another program advertises the room of this session with this node's id. The session ends where one does, and
    /// the members say that it has taken this program's place.
    func recordSharedKey(isShared: Bool = true) {
        let isReplaced = state.withLock { state in
            state.isKeyShared = isShared
            return isShared && !state.isOver && state.isReplaced && state.members.links.isEmpty
        }
        if isReplaced { end(Self.replacedError) }
    }

    private static let replacedError = SessionError.unavailable(
        "another program with this node's key has joined the session in its place; give each program an identity of its own")

    var isOver: Bool { state.withLock(\.isOver) }

    func linksTo(_ member: PeerID) -> [SessionLink] { state.withLock { $0.members.links(to: member) } }

    /// The links to a member over which both ends have agreed to join.
    func completeLinksTo(_ member: PeerID) -> [SessionLink] {
        linksTo(member).filter { $0.isComplete.load(ordering: .acquiring) }
    }

    /// Handles a session frame of a member.
    func handle(_ frame: SessionFrame, from link: SessionLink) {
        let now = node.settings.clock()
        switch frame {
        case .roster(id, let members):
            update { state in
                // The last frames of a member that has left, or of one that this node has left, count for nothing.
                guard state.members.roster.member(link.peer) != nil else { return }
                state.members.roster.receive(members, from: link.peer, now: now)
            }
        case .leave(id):
            update { $0.members.roster.recordDeparture(of: link.peer, now: now) }
        case .leaving(id, isDone: false):
            guard link.departure.withLock({ $0.receiveAnnouncement() }) else { return }
            node.start { await self.answerDeparture(on: link) }
        case .leaving(id, isDone: true):
            link.departure.withLock { $0.receiveAnswer() }
            progress.notifyAll()
        case .founder(id, let founder, let removed):
            let isRemoved = update {
                $0.members.roster.receive(founder, removed: removed, from: link.peer, now: now)
            }
            if isRemoved { end(.removed) }
        case .datagrams(id, let port, let tag): datagrams?.learn(link, port: port, tag: tag)
        default: break
        }
    }

    // MARK: Streams

    /// Handles the streams that the peer opens.
    private func followStreams(of link: SessionLink) async {
        var hasMessages = link.isInitiator
        for await (streamID, purpose, name) in link.driver.streams.opened {
            let stream = ByteStream(streamID, name, link.driver.streams, with: link.peer)
            defer {
                link.driver.streams.recordHandledStream()
                // A leave waits for it.
                if state.withLock(\.isLeaving) { progress.notifyAll() }
            }
            switch purpose {
            case .bytes: emit(stream)
            case .messages:
                guard !hasMessages else {
                    link.driver.closeForViolation(MalformedInput("session: a second message stream on one link"))
                    continue
                }
                hasMessages = true
                completeJoin(link)
                exchangeMessages(on: link, stream)
            case .relay: handleRelay(stream, from: link)
            }
        }
    }
}
