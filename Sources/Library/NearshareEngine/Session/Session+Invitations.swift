public import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces

// The invitations by the program and into a room: where a peer is reached, and how long its answer is awaited.
extension Session {
    /// Invites a peer, and waits for the answer. A peer that joins at the same moment as too many others may step back after this
    /// call has returned, which ``Session/Change/left(_:lost:)`` reports.
    /// - Parameters:
    ///   - context: bytes for the invited program, none by default: at most 1,024 bytes.
    ///   - secret: at least one byte, proven to the other side and not sent; see ``InvitationPolicy/secret(_:)``. nil for none.
    ///   - timeout: bound on the whole call, in which this node connects and the other user answers: 1 to 600 seconds, by default
    ///     30. An answer that is on its way is awaited for 2 seconds more.
    /// - Returns: the new member's identifier, once both sides agree.
    /// - Throws: ``SessionError``, of these cases:
    ///   - ``SessionError/declined`` and ``SessionError/timedOut(_:)``: the other user or program has declined, or has not answered.
    ///   - ``SessionError/full``: there or here; at once where the members and the open invitations reach this node's limit.
    ///   - ``SessionError/untrusted(_:)``: one end does not trust the other's key.
    ///   - ``SessionError/unavailable(_:)``: the peer cannot be reached, cannot answer now, or was removed by the founder. It
    ///     cannot answer either where it was invited five times within a minute and has not accepted; an invitation that was
    ///     cancelled counts.
    ///   - ``SessionError/incompatible(_:)`` and ``SessionError/invalidParameter(_:)``.
    ///   - ``SessionError/cancelled``: the task was cancelled, which withdraws the invitation. A peer whose acceptance has arrived
    ///     before is a member, and its identifier is returned. One that has accepted, and learns of the withdrawal afterwards,
    ///     leaves the session.
    ///   - The reason of ``ended``.
    public func invite(
        _ destination: PeerDestination, context: [UInt8] = [], secret: [UInt8]? = nil, timeout: Duration = .seconds(30)
    ) async throws(SessionError) -> PeerID {
        try checkInvitation(context: context, secret: secret, timeout: timeout)
        return try await connectAndInvite(context, secret: secret, to: destination, timeout: timeout)
    }

    /// Checks the arguments of an invitation, and that this session can invite.
    package func checkInvitation(context: [UInt8], secret: [UInt8]?, timeout: Duration) throws(SessionError) {
        guard context.count <= SessionFrame.maximumContextByteCount else {
            throw .invalidParameter(
                "the context of the invitation has \(context.count) bytes; the limit is \(SessionFrame.maximumContextByteCount)"
            )
        }
        guard secret?.isEmpty != true else { throw .invalidParameter("the secret of an invitation is empty") }
        guard (.seconds(1)...SessionFrame.maximumTimeout).contains(.seconds(timeout.components.seconds)) else {
            throw .invalidParameter(
                "the timeout of an invitation must be 1 to \(SessionFrame.maximumTimeout.components.seconds) seconds")
        }
        if let refusal = state.withLock(\.refusal) { throw refusal }
    }

    /// Invites a peer that advertises the room of this session.
    func inviteIntoRoom(_ destination: PeerDestination) async throws(SessionError) -> PeerID {
        let timeout = room?.timeout ?? .seconds(10)
        let now = node.settings.clock()
        if let id = destination.id, let reason = reasonNotToInvite(id, now: now) { throw reason }
        let count: UInt8? = state.withLock { state in
            let roster = state.members.roster
            return roster.isIncomplete(now: now) ? nil : UInt8(clamping: roster.memberIDs.count + 1)
        }
        guard let count else { throw .unavailable("this node has just joined the room, and does not know all members yet") }
        // The link adds whether this session remembers the peer's key.
        return try await connectAndInvite([count], room: room, to: destination, timeout: timeout)
    }

    /// The reason for which the session itself does not invite a peer at present, so that no user is asked in vain; nil for none.
    func reasonNotToInvite(_ id: PeerID, now: MonotonicInstant) -> SessionError? {
        if questions.asks(about: id) || questions.isPaused(about: id, now: now) { return Self.questionElsewhere }
        if state.withLock({ $0.members.hasDeclined(id) }) { return Self.declinedKey(of: id) }
        return questions.isDeclined(by: id, now: now) ? Self.declinedByUser(of: id) : nil
    }

    /// Connects to a peer and invites it, at one address after the other, until it has answered.
    /// - Parameter context: the bytes that the invitation carries.
    private func connectAndInvite(
        _ context: [UInt8], secret: [UInt8]? = nil, room: Room? = nil, to destination: PeerDestination, timeout: Duration
    ) async throws(SessionError) -> PeerID {
        let deadline = node.settings.clock() + timeout
        // A member has its slot already.
        let needsSlot = !(destination.id.map { isMember($0) } ?? false)
        let refusal: SessionError? = state.withLock { state in
            if let refusal = state.refusal { return refusal }
            guard needsSlot else { return nil }
            let count = state.members.roster.others.count
            return state.outgoing.reserveInvitation(memberCount: count, limit: settings.memberLimit) ? nil : .full
        }
        if let refusal { throw refusal }
        defer { if needsSlot { state.withLock { $0.outgoing.releaseInvitation() } } }
        var addresses = destination.addresses
        var hasRepeated = false
        while true {
            let link: any StreamLink
            do {
                link = try await node.connect(toFirstOf: addresses, until: deadline)
            } catch {
                if Task.isCancelled { throw .cancelled }
                throw state.withLock(\.end) ?? SessionError(error)
            }
            let rest = deadline - node.settings.clock()
            // Whole seconds, rounded up: the peer does not give up first.
            let seconds = min(rest + .nanoseconds(999_999_999), SessionFrame.maximumTimeout).components.seconds
            let invitation = SessionFrame.invite(id, timeout: .seconds(max(seconds, 1)), proof: [], context: context)
            // One that accepts connections and says nothing leaves time for the others.
            let share = max(rest / max(addresses.count, 1), Self.minimumAddressTime)
            let (outcome, isInvited) = await invite(
                over: link, invitation, secret: secret, room: room, expected: destination.id,
                as: room == nil ? .program : .room, timeout: rest, handshakeTimeout: share)
            switch outcome {
            case .success(let id):
                if let service = destination.announcedService { node.findMembers(of: self, for: service) }
                return id
            case .failure(let error):
                // The peer's program has restarted. This node has forgotten its answers about the peer by now: both users are asked.
                if isInvited, !hasRepeated, error == SessionError(.unremembered) {
                    (hasRepeated, addresses) = (true, [link.remote])
                    continue
                }
                // Any host can announce an address of the peer: it may be at another one (D1).
                addresses.removeAll { $0 == link.remote }
                if isInvited || addresses.isEmpty || error == Self.questionElsewhere || deadline <= node.settings.clock() {
                    throw error
                }
            }
        }
    }

    /// Time that the handshake at one address of a peer has at least, as far as the invitation has it.
    private static let minimumAddressTime = Duration.seconds(1)

    /// Invites the peer at the other end of a link.
    /// - Parameters:
    ///   - timeout: bound on the handshake and the answer.
    ///   - handshakeTimeout: bound on the handshake alone, beside that of every link; nil for none.
    /// - Returns: the outcome, and whether the peer could receive the invitation.
    func invite(
        over link: any StreamLink, _ invitation: SessionFrame, secret: [UInt8]? = nil, room: Room?, expected: PeerID?,
        as purpose: OutgoingSessionLink.Purpose, timeout: Duration, handshakeTimeout: Duration? = nil
    ) async -> (outcome: Result<PeerID, SessionError>, isInvited: Bool) {
        let outcome = Promise<Result<PeerID, SessionError>>()
        let driver = node.makeDriver(link, .initiator)
        let outgoingLink = OutgoingSessionLink(
            invitation: invitation, secret: secret, room: room, questions: asksUser ? questions : nil, expected: expected,
            voucher: nil, purpose: purpose, outcome: outcome)
        guard node.start({ await self.follow(driver, link, outgoingLink) }) else {
            link.close()
            return (.failure(.left), true)
        }
        if asksUser, let expected { recordQuestion(about: expected, until: node.settings.clock() + timeout + Self.answerGrace) }
        defer { if let expected { recordQuestion(about: expected, until: nil) } }
        let deadline = node.settings.clock() + timeout
        await withTimeout(min(timeout, handshakeTimeout ?? timeout)) {
            await firstResult(of: { _ = await outgoingLink.invited.value }, { _ = await outcome.value })
        }
        let isInvited = outgoingLink.invited.current != nil
        if !isInvited, let failure = outcome.current { return (failure, false) }
        let rest = isInvited ? deadline - node.settings.clock() + Self.answerGrace : .zero
        if let result = await Self.first(outcome, within: rest) { return (result, isInvited) }
        let awaitsTrust = outgoingLink.awaitsTrust
        // One decision: a peer that has been accepted here is a member, and any other one never becomes it by this invitation.
        guard outgoingLink.withdraw() else { return (await outcome.eventualValue ?? .failure(.left), true) }
        // Another member has invited the peer meanwhile.
        if case .success(let id)? = outcome.current { return (.success(id), true) }
        if !Task.isCancelled { outgoingLink.recordUnanswered(now: node.settings.clock()) }
        driver.send(.withdraw(id))
        // Not as done: the peer's acceptance may be on its way, and a link that is closed with unread bytes loses the last frames.
        driver.close(.goingAway)
        if Task.isCancelled { return (.failure(.cancelled), true) }
        guard isInvited else { return (.failure(.timedOut("the peer at \(link.remote) did not answer in time")), false) }
        return (
            .failure(
                awaitsTrust ? .untrusted(Self.unansweredQuestion) : .timedOut("the invitation was not answered in time")),
            true
        )
    }

    /// Records that a user is being asked about a member, which is not given up meanwhile.
    /// - Parameter expiry: nil when the question is over.
    func recordQuestion(about id: PeerID, until expiry: MonotonicInstant?) {
        update { $0.members.roster.recordQuestion(about: id, until: expiry) }
    }

    /// Waits for an event.
    /// - Returns: nil at the timeout, or when the task is cancelled.
    private static func first<Value>(_ event: Promise<Value>, within time: Duration) async -> Value? {
        await withTimeout(time) { await event.value } ?? nil
    }

    /// Additional time for the answer to arrive.
    static var answerGrace: Duration { .seconds(2) }
}
