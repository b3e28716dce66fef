public import NearshareBase

extension Session {
    /// Waits until a member can be reached, directly or through another member: streams and files can be sent from then on.
    ///
    /// A program that has just accepted an invitation calls this, because the inviting peer has yet to decide about this node's
    /// key. While this node leaves, the call goes on, until ``leave(waiting:)`` has ended the session.
    /// - Throws: ``SessionError/notConnected(_:)`` when the peer is not in the session, or leaves it, also by being out of reach for
    ///   too long; ``SessionError/invalidParameter(_:)`` for this node; the reason of ``ended``; cancelled.
    public func waitUntilConnected(to member: PeerID) async throws(SessionError) {
        if Task.isCancelled { throw .cancelled }
        guard let outcome = await progress.waitForValue({ self.connectionOutcome(for: member) }) else { throw .cancelled }
        try outcome.get()
    }

    /// - Returns: nil while the member is in the session and is not reached.
    private func connectionOutcome(for member: PeerID) -> Result<Void, SessionError>? {
        state.withLock { state in
            if let end = state.end { return .failure(end) }
            guard member != node.id else { return .failure(.thisNode) }
            guard state.members.roster.member(member) != nil else { return .failure(.notConnected(member)) }
            return state.members.roster.state(of: member).isConnected ? .success(()) : nil
        }
    }
}
