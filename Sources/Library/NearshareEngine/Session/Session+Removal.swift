public import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect

extension Session {
    /// Removes a member for good: its session ends with ``SessionError/removed``, and no member admits it again. Messages to it
    /// that it has not read are lost (``Change/left(_:lost:)``).
    ///
    /// Members that are out of reach are told when they are back. The removal holds as long as the session, and among members
    /// that were connected with the founder since. The founder may remove members also while it leaves.
    /// - Throws: ``SessionError/invalidParameter(_:)`` when this node is not the ``founder``, and for this node;
    ///   ``SessionError/notConnected(_:)`` when the peer is not in the session; ``SessionError/unavailable(_:)`` when 64 members
    ///   were removed; the reason of ``ended``.
    public func remove(_ member: PeerID) throws(SessionError) {
        try removal.withLock { _ throws(SessionError) in try removeAlone(member) }
    }

    /// Removes a member while no other thread does: the frame is made of a copy of the roster, because it has to be sent before
    /// the change closes the links.
    private func removeAlone(_ member: PeerID) throws(SessionError) {
        let now = node.settings.clock()
        let prepared: Result<SessionFrame?, SessionError> = state.withLock { state in
            var roster = state.members.roster
            if let end = state.end { return .failure(end) }
            guard roster.isFounder else { return .failure(.invalidParameter("only the founder of a session removes members")) }
            guard member != node.id else { return .failure(.thisNode) }
            guard roster.member(member) != nil else { return .failure(.notConnected(member)) }
            guard roster.canRemove else {
                return .failure(.unavailable("too many members were removed; start another session"))
            }
            roster.remove(member, now: now)
            return .success(roster.founderFrame)
        }
        guard let frame = try prepared.get() else { return }
        // Before the links of the removed member are closed: it is told as well.
        for link in links { link.driver.send(frame) }
        update { $0.members.roster.remove(member, now: now) }
        // Members without a link get one, and the frame with it.
        let isDue = state.withLock { state in
            state.members.roster.memberIDs.reduce(false) { state.members.roster.demandLink(to: $1) || $0 }
        }
        if isDue { timer.wake() }
    }

    /// Ends the session on this node when its founder has refused a link because of a removal.
    func endIfFounder(_ fingerprint: Fingerprint) {
        if state.withLock({ $0.members.roster.founder?.fingerprint == fingerprint }) { end(.removed) }
    }

    /// The error of an invitation of a peer that the founder has removed.
    func removal(of peer: AuthenticatedPeer) -> SessionError? {
        isRemoved(peer.fingerprint) ? Self.removed(peer) : nil
    }

    static func removed(_ peer: AuthenticatedPeer) -> SessionError {
        .unavailable("the founder has removed \(peer.id.hex) from the session; start another one")
    }

    /// Whether the founder has removed the member with this key.
    func isRemoved(_ fingerprint: Fingerprint) -> Bool {
        state.withLock { $0.members.roster.isRemoved(fingerprint) }
    }
}
