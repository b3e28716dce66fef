internal import Logging
internal import NearshareBase
internal import NearshareDirect
public import NearshareInterfaces

extension Node {
    /// Joins a room: the nodes on the network that join the same one are members of one session, whichever of them came first. It
    /// is left like any session, with ``Session/leave(waiting:)``.
    ///
    /// A node with another secret, or without one, is in another session: nothing reports it, because nothing of a secret can be
    /// seen from outside. A room with a secret and one without are different rooms of one name, and a node can be in both. Open and
    /// asking are one room, and all secrets are one as well: joining with a second one throws.
    ///
    /// Nodes that meet later, or again, merge their members, up to the limit of the settings. Those beyond it stay outside, alone or
    /// among themselves, and join as soon as there is room. No event reports that a node is outside: ``Session/members`` is empty
    /// then, or without the peers that it expects. While more nodes join than fit, one that is in another group may be listed
    /// without being connected, until the timeout of the settings. A room has no founder.
    ///
    /// Each node applies its own settings. Those of one room have the same limit of members, or they disagree about who is in it. A
    /// node with a shorter timeout removes members earlier, for all, and each decides by its own trust policy.
    /// - Parameters:
    ///   - name: 1 to 63 bytes of UTF-8. It is not secret.
    ///   - service: the type under which the node advertises itself, other than ``NearshareInterfaces/ServiceType/nearshare``.
    ///   - admission: the rule for peers that no member has admitted before.
    ///   - settings: the trust policy applies with ``RoomAdmission/ask`` only.
    /// - Returns: the session, at first without other members.
    /// - Throws: ``NodeError/invalidParameter(_:)`` for a wrong name or type, settings out of their bounds, or a room that this
    ///   node is in; ``NodeError/unavailable(_:)`` without discovery, when the node has stopped, and while another process takes
    ///   part in sessions with the identity of the user.
    public func join(
        _ name: String, for service: ServiceType, admission: RoomAdmission, settings: SessionSettings = SessionSettings()
    ) throws(NodeError) -> Session {
        do throws(SessionError) { try settings.check() } catch { throw .invalidParameter(error.description) }
        guard service != .nearshare else {
            throw .invalidParameter("a room needs a service type of its own, such as my-game")
        }
        let secret: [UInt8]? = if case .secret(let text) = admission { Array(text.utf8) } else { nil }
        if secret?.isEmpty == true { throw .invalidParameter("the secret of a room is empty") }
        guard let room = SessionRoom(name: name, service: service.name, secret: secret) else {
            throw .invalidParameter("the name of a room has 1 to \(SessionRoom.maximumNameByteCount) bytes")
        }
        guard session(room.session) == nil else { throw .invalidParameter("this node is in the room already") }
        let claim = try claimSessions()
        let changes = try browseNetwork(for: service)
        let (socket, advertisement) = try advertise(room, as: service)
        var settings = settings
        // The rule of the room has decided.
        if admission != .ask { settings.trust = .anyKey }
        let session = makeSession(
            room.session, settings, room: Room(room, admission, now: self.settings.clock()), claim: claim
        ).session
        let isStarted = start { [self] in
            await meet(in: session, room, changes, port: socket.port)
            close(socket, advertisement)
            session.releaseClaim()
        }
        if !isStarted {
            close(socket, advertisement)
            session.releaseClaim()
            throw Self.stoppedError
        }
        return session
    }

    private func advertise(
        _ room: SessionRoom, as service: ServiceType
    ) throws(NodeError) -> (socket: any StreamListener, advertisement: (any RunningAdvertisement)?) {
        let info = try DiscoveryInfo(checking: [SessionRoom.infoKey: room.session.hex])
        let record = PeerTXTRecord(id: id, name: name, acceptsMeshLinks: false, info: info)
        return try listenForMembers(advertising: record, as: service)
    }

    /// Withdraws the advertisement of a room that this node has left. The port stays while other sessions may have announced it.
    private func close(_ socket: any StreamListener, _ advertisement: (any RunningAdvertisement)?) {
        if let advertisement {
            advertisement.stop()
            state.withLock { $0.listeners.remove(advertisement) }
        }
        sessionPort.withLock { _ in if state.withLock(\.sessions.isEmpty) { remove(socket) } }
    }

    /// Invites the peers that advertise a room, until its session is over.
    /// - Parameter port: the one at which this node advertises itself.
    private func meet(in session: Session, _ room: SessionRoom, _ changes: NearbyChanges, port: UInt16) async {
        let peers = RoomPeers(own: id, port: port, room)
        await withDiscardingTaskGroup { group in
            group.addTask { [self] in
                do {
                    for try await event in changes.events {
                        for (peer, addresses) in peers.apply(event, now: settings.clock()) {
                            session.recordFound(peer, at: addresses)
                        }
                        session.recordSharedKey(isShared: peers.isKeyShared)
                        session.memberChange.notifyAll()
                    }
                } catch {
                    settings.log.error("discovery has ended; the room meets no more peers: \(error)")
                }
            }
            // A peer that does not answer delays no other one.
            for _ in 0..<Self.concurrentInvitationCount {
                group.addTask { [self] in await invitePeers(peers, into: session) }
            }
            _ = await session.ended
            group.cancelAll()
        }
    }

    private func invitePeers(_ peers: RoomPeers, into session: Session) async {
        while !session.isOver, !Task.isCancelled {
            let now = settings.clock()
            if let peer = peers.next(now: now, isMember: session.isMember) {
                var failure: SessionError?
                do throws(SessionError) {
                    _ = try await session.inviteIntoRoom(peer.destination)
                } catch {
                    settings.log.info("room: \(peer.id.hex): \(error)")
                    failure = error
                }
                peers.recordOutcome(outcome(for: peer.id, of: session, failure), of: peer.id, now: settings.clock())
                session.memberChange.notifyAll()
                continue
            }
            let deadline = peers.deadline(isMember: session.isMember)
            let change: @Sendable () async -> Void = {
                await session.memberChange.wait {
                    session.isOver || peers.deadline(isMember: session.isMember) != deadline
                }
            }
            if let deadline { await withTimeout(deadline - now, change) } else { await change() }
        }
    }

    private func outcome(for id: PeerID, of session: Session, _ failure: SessionError?) -> RoomCandidates.Outcome {
        if session.isMember(id) { return .member }
        let asks = session.room?.admission == .ask
        if session.questions.isPaused(about: id, now: settings.clock()) { return .unanswered }
        if asks, case .untrusted? = failure { return .declined }
        // The user of the peer is being asked on the peer's own link; earlier versions say that the user has declined.
        if asks, failure == SessionError(.busy) || failure == .declined { return .crossed }
        return .failed
    }

    private static let concurrentInvitationCount = 3
}
