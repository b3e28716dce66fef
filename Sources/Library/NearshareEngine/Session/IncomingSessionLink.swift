internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

/// An incoming link that may join a session.
final class IncomingSessionLink: Sendable {
    private struct State {
        var joined: (Session, SessionLink)?
        weak var invitation: SessionInvitation?
        /// Whether the link has brought an invitation for the program.
        var hasInvitation = false
        /// The session of the only invitation that a link may carry, answered or not.
        var invited: SessionID?
        /// The latest time at which the inviting peer agrees to an acceptance.
        var expiry: MonotonicInstant?
        /// The statement before an invitation into a session without a room: whether the inviting peer remembers this node's key.
        var statement: (session: SessionID, isRemembered: Bool)?
        /// The peer has sent its only share.
        var hasShare = false
        /// The room to which the peer's share belongs, and the proofs of its secret.
        var proofs: (session: SessionID, proofs: SessionRoom.Proofs)?
        /// Called when the inviting user declines.
        var onDecline: (@Sendable () -> Void)?
        /// The invitation was withdrawn, or the link has ended.
        var isOver = false
    }

    let driver: LinkDriver
    let link: any StreamLink
    /// Fulfilled when the invitation is withdrawn, or the link has ended.
    let over = Promise<Void>()
    /// Records that the link belongs to a member, whose slot does not count for its address.
    let recordMember: @Sendable (PeerID) -> Void
    let shortCode = Promise<ShortAuthenticationDigits?>()
    /// Fulfilled when the inviting peer of a room has agreed to this node's key.
    private let peerAgreement = Promise<Void>()
    private let state = Mutex(State())

    init(
        _ driver: LinkDriver, _ link: any StreamLink, recordMember: @escaping @Sendable (PeerID) -> Void
    ) {
        self.recordMember = recordMember
        self.driver = driver
        self.link = link
    }

    var joined: (Session, SessionLink)? { state.withLock { $0.joined } }
    /// Whether the invitation was withdrawn, or the link has ended.
    var isOver: Bool { state.withLock(\.isOver) }

    /// Records an invitation into a session.
    /// - Parameter expiry: the latest time at which the inviting peer agrees to an acceptance.
    /// - Returns: false for all but the first of the link.
    func claimInvitation(into session: SessionID, until expiry: MonotonicInstant) -> Bool {
        state.withLock { state in
            guard state.invited == nil else { return false }
            (state.invited, state.expiry) = (session, expiry)
            return true
        }
    }

    /// Answers the peer's share for the proof of a room's secret.
    /// - Parameters:
    ///   - session: the session of the room.
    ///   - makeExchange: called for the first share of the link only, because it takes time.
    /// - Returns: the share of this end; nil for one that is not valid, and for all but the first.
    func share(
        answering share: [UInt8], in session: SessionID, with makeExchange: () -> SessionRoom.SecretExchange?
    ) -> [UInt8]? {
        let isFirst = state.withLock { state in
            guard !state.hasShare, state.invited == nil else { return false }
            state.hasShare = true
            return true
        }
        guard isFirst, let exchange = makeExchange(), let proofs = exchange.proofs(with: share, isInitiator: false) else {
            return nil
        }
        state.withLock { $0.proofs = (session, proofs) }
        return exchange.share
    }

    /// Checks the peer's proof of a room's secret, which it can send once.
    /// - Returns: the proof of this end; nil for a wrong proof, and for one of another room's secret.
    func confirmation(of proof: [UInt8], in room: Room, now: MonotonicInstant) -> [UInt8]? {
        guard let (session, proofs) = state.withLock({ $0.proofs.take() }), session == room.credentials.session,
            room.consumeGuess(now: now), constantTimeEqual(proofs.initiator, proof)
        else { return nil }
        room.refundGuess()
        return proofs.responder
    }

    func attach(_ invitation: SessionInvitation) {
        state.withLock { state in
            state.invitation = invitation
            state.hasInvitation = true
        }
    }

    private var invitation: SessionInvitation? { state.withLock { $0.invitation } }

    func setShortCode(_ code: ShortAuthenticationDigits) {
        shortCode.fulfil(code)
        invitation?.setShortCode(code)
    }

    /// Ends the invitation that the peer has withdrawn, also while the trust policy decides about an accepted one. No effect for
    /// another session, and once the link has joined.
    /// - Returns: whether there was such an invitation.
    func withdraw(_ session: SessionID) -> Bool {
        let isWithdrawn = state.withLock { state in
            guard state.invited == session, state.joined == nil else { return false }
            state.isOver = true
            return true
        }
        guard isWithdrawn else { return false }
        over.fulfil()
        invitation?.end(.unavailable("the invitation was withdrawn"))
        return true
    }

    /// Handles a `confirm` of the inviting peer: before the invitation, its statement whether it remembers this node's key; after
    /// one into a room, its agreement to the key, whatever the value.
    func receiveConfirm(_ value: [UInt8], in session: SessionID) {
        let isAgreement = state.withLock { state in
            if state.invited == nil, let isRemembered = SessionFrame.isRemembered(in: value) {
                state.statement = (session, isRemembered)
            }
            return state.invited == session
        }
        if isAgreement { peerAgreement.fulfil() }
    }

    /// Whether the inviting peer remembers this node's key; nil where it has not said so before the invitation.
    func isRemembered(in session: SessionID) -> Bool? {
        state.withLock { state in state.statement.flatMap { $0.session == session ? $0.isRemembered : nil } }
    }

    /// Waits until the inviting peer of a room has agreed to this node's key.
    /// - Returns: false when it has not in time, or the link has ended before.
    func isAgreed(within time: Duration) async -> Bool {
        await firstResult(
            of: { await self.peerAgreement.isFulfilled(within: time) },
            { () -> Bool in
                _ = await self.over.value
                return false
            })
    }

    /// Ends the session that the program has joined when the inviting peer does not join it; in a room, only the membership.
    /// - Parameter frame: any frame of the peer.
    /// - Returns: false for another frame, and when the inviting peer has joined, or was a member before.
    func cancelJoin(_ session: Session, _ link: SessionLink, by frame: SessionFrame) -> Bool {
        let reason: SessionError
        switch frame {
        case .withdraw(session.id): reason = Self.withdrawn
        case .refuse(session.id, .full): reason = .full
        default: return false
        }
        guard state.withLock(\.hasInvitation) || session.room != nil, !link.isComplete.load(ordering: .acquiring) else {
            return false
        }
        // Another link to the inviting peer has joined: its invitation over this one has only ended.
        let isJoined = session.linksTo(link.peer).contains { $0 !== link && $0.isComplete.load(ordering: .acquiring) }
        if !isJoined { session.cancelJoin(of: link.peer, because: reason) }
        return true
    }

    private static let withdrawn = SessionError.unavailable(
        "the invitation was withdrawn: the inviting user has not confirmed this machine's key in time, or has cancelled")
    private static let closed = SessionError.unavailable("the inviting peer has left before both were members of the session")

    /// Ends the invitation at its expiry. No effect once it is answered.
    func expire() {
        invitation?.end(.timedOut("the invitation was not answered in time"))
    }

    /// Adds the link to the session, and sends the acceptance.
    /// - Returns: false when the invitation or the session is over, or the session is full.
    func join(_ session: Session, _ known: LinkPeerInfo) -> Bool {
        guard !state.withLock(\.isOver) else { return false }
        let expiry = state.withLock(\.expiry)
        let result = session.join(driver, link, known, isInitiator: false, awaitedUntil: expiry)
        guard case .success(let sessionLink) = result else {
            let isRemoved = known.proven.map { session.isRemoved($0.fingerprint) } ?? false
            driver.send(.refuse(session.id, session.isOver ? .unknown : isRemoved ? .removed : .full))
            return false
        }
        let isOver = state.withLock { state in
            if !state.isOver { state.joined = (session, sessionLink) }
            return state.isOver
        }
        if isOver {
            // The link ended, or the invitation was withdrawn, while the link was being added.
            session.remove(sessionLink)
            _ = session.undoAdmission(by: sessionLink)
            driver.close(.goingAway)
            return false
        }
        if sessionLink.relay == nil { recordMember(sessionLink.peer) }
        driver.send(.accept(session.id))
        return true
    }

    /// Sets the action for a no of the inviting user, who is asked as well. It ends the link with a reason of its own.
    func setDeclineAction(_ action: @escaping @Sendable () -> Void) { state.withLock { $0.onDecline = action } }

    /// Records that the link has ended, and ends its invitation.
    func end(_ reason: LinkEnd) {
        shortCode.fulfil(nil)
        invitation?.end(.unavailable("the connection to the inviting peer was lost"))
        let (joined, onDecline) = state.withLock { state in
            state.isOver = true
            return (state.joined, state.onDecline.take())
        }
        if joined == nil, reason == .closure(.closed(by: .remote, .verificationFailed)) { onDecline?() }
        over.fulfil()
        guard let (session, sessionLink) = joined else { return }
        session.remove(sessionLink, after: reason)
        // The peer has closed the link, and not lost it, before it has joined: the same as if it had withdrawn its invitation.
        guard case .closure(.closed(by: .remote, _)) = reason, session.undoAdmission(by: sessionLink) else { return }
        if session.room == nil, session.members.isEmpty { session.end(Self.closed) }
    }
}

extension Node {
    /// Handles a session frame on an incoming link.
    func receive(
        _ frame: SessionFrame, on incoming: IncomingSessionLink, _ known: LinkPeerInfo, _ queues: Listener.Queues?
    ) {
        if let (session, sessionLink) = incoming.joined {
            if incoming.cancelJoin(session, sessionLink, by: frame) { return }
            return session.handle(frame, from: sessionLink)
        }
        switch frame {
        case .invite(let id, let timeout, let proof, let context):
            let expiry = settings.clock() + timeout
            guard incoming.claimInvitation(into: id, until: expiry + Session.answerGrace), let peer = known.peer(settings),
                let handshake = known.handshake
            else {
                return incoming.driver.send(.refuse(id, .declined))
            }
            let session = session(id)
            if let session, let room = session.room, room.credentials.secret != nil, !proof.isEmpty {
                // Also of a member: the peer may not know yet that it is one.
                guard let confirmation = incoming.confirmation(of: proof, in: room, now: settings.clock()) else {
                    settings.log.info("room: \(peer.id.hex) did not prove that it knows the secret, or too many have not")
                    return incoming.driver.send(.refuse(id, .declined))
                }
                incoming.driver.send(.confirm(id, proof: confirmation))
                incoming.driver.reserve(until: expiry)
                return acceptUnlessFull(peer, on: incoming, into: session, known, context)
            }
            // Both users are asked, or neither is.
            let isRemembered = statement(in: context, on: incoming, into: id, session)
            if let session, let proven = known.proven, session.asksUser, isRemembered != false {
                session.forgetVoucherOnNameClash(of: proven, named: peer.name)
            }
            let remembersPeer = session?.remembers(peer.fingerprint) == true
            // After the line above: where a roster that vouches for the peer arrives in between, the peer is refused and tries again.
            // The other way round this user would be asked, and the peer's would not.
            let isMember = session?.isMember(peer.id) == true
            if let session, isRemembered == true, isMember || session.room != nil, session.asksUser, !remembersPeer,
                !session.hasDeclined(peer)
            {
                return incoming.driver.send(.refuse(id, .unremembered))
            }
            if let session, isMember, !session.asksUser || isRemembered != false && remembersPeer {
                incoming.driver.reserve(until: expiry)
                start { await self.answerMember(peer, on: incoming, into: session, known) }
                return
            }
            if let session, let room = session.room {
                return answerRoomInvitation(of: peer, on: incoming, into: session, room, known, context)
            }
            if let session, isMember {
                return ask(
                    about: peer, on: incoming, into: session, known, context, isRemembered: isRemembered, timeout: timeout)
            }
            guard let queues, settings.acceptsSessions, session == nil else {
                let isRemoved = session?.isRemoved(peer.fingerprint) == true
                return incoming.driver.send(.refuse(id, isRemoved ? .removed : .unknown))
            }
            // This program has restarted, or has left the session: the other user has to be asked as well.
            if isRemembered == true { return incoming.driver.send(.refuse(id, .unremembered)) }
            guard let prompt = promptLimiter.admit(peer, on: .link(incoming.link.remote)) else {
                return incoming.driver.send(.refuse(id, .busy))
            }
            let invitation = SessionInvitation(
                peer: peer, session: id, context: context, proof: proof, handshakeHash: handshake.handshakeHash,
                prompt: prompt,
                join: { [self] settings, asksTrust throws(SessionError) in
                    prompt.release()
                    let claim: (any Sendable)?
                    do throws(NodeError) {
                        claim = try claimSessions()
                    } catch {
                        incoming.driver.endReservation()
                        incoming.driver.send(.refuse(id, .busy))
                        throw SessionError(error)
                    }
                    let (session, isNew) = makeSession(id, settings, claim: claim)
                    if asksTrust {
                        start {
                            await self.joinWhenTrusted(
                                peer, on: incoming, into: session, isNew: isNew, known, until: expiry)
                        }
                        return session
                    }
                    session.state.withLock { $0.members.withdrawDecline(of: peer.fingerprint) }
                    guard incoming.join(session, known) else {
                        // Another invitation into the same session may still be about to join.
                        defer { if isNew, session.members.isEmpty { session.end() } }
                        if incoming.isOver {
                            throw .unavailable("the invitation is over: it was withdrawn, or its link has ended")
                        }
                        throw session.isOver ? .left : .full
                    }
                    return session
                },
                refuse: {
                    incoming.driver.endReservation()
                    incoming.driver.send(.refuse(id, $0))
                })
            incoming.driver.reserve(until: expiry)
            incoming.attach(invitation)
            if let code = known.shortCode { invitation.setShortCode(code) }
            queues.sessions.enqueue(invitation)
            start { await Self.expire(incoming, at: expiry, self.settings) }
        case .share(let id, let share):
            guard let credentials = session(id)?.room?.credentials, let hash = known.handshake?.handshakeHash,
                let answer = incoming.share(
                    answering: share, in: id,
                    with: { credentials.exchange(on: hash, seed: settings.random(CPace.seedByteCount)) })
            else { return incoming.driver.send(.refuse(id, .unknown)) }
            incoming.driver.send(.share(id, answer))
        case .withdraw(let id):
            // The program may have accepted in this moment, on another thread.
            if !incoming.withdraw(id), let (session, sessionLink) = incoming.joined {
                _ = incoming.cancelJoin(session, sessionLink, by: frame)
            }
        case .confirm(let id, let value): incoming.receiveConfirm(value, in: id)
        default: break
        }
    }

    /// Whether an inviting peer says that it remembers this node's key, and joins without asking its user; nil where it does not say.
    private func statement(
        in context: [UInt8], on incoming: IncomingSessionLink, into id: SessionID, _ session: Session?
    ) -> Bool? {
        guard let room = session?.room else { return incoming.isRemembered(in: id) }
        return room.admission == .ask ? SessionRoom.isRemembered(in: context) : nil
    }

    /// Handles an invitation into a room without the proof of a secret.
    private func answerRoomInvitation(
        of peer: Peer, on incoming: IncomingSessionLink, into session: Session, _ room: Room, _ known: LinkPeerInfo,
        _ context: [UInt8]
    ) {
        switch room.admission {
        case .secret: incoming.driver.send(.refuse(session.id, .declined))
        case .open: acceptUnlessFull(peer, on: incoming, into: session, known, context)
        case .ask:
            ask(
                about: peer, on: incoming, into: session, known, context, isRemembered: SessionRoom.isRemembered(in: context),
                timeout: room.timeout)
        }
    }

    /// Asks the user about an inviting peer whose user is asked as well; the peer joins when both have agreed.
    /// - Parameter isRemembered: whether the peer remembers this node's key; nil from earlier versions.
    private func ask(
        about peer: Peer, on incoming: IncomingSessionLink, into session: Session, _ known: LinkPeerInfo, _ context: [UInt8],
        isRemembered: Bool?, timeout: Duration
    ) {
        if session.hasDeclined(peer) { return incoming.driver.send(.refuse(session.id, .untrusted)) }
        let questions = session.questions
        // First: an invitation of this node gives way only to a question.
        guard let prompt = promptLimiter.admit(peer, on: .link(incoming.link.remote)) else {
            return incoming.driver.send(.refuse(session.id, .busy))
        }
        if let refusal = questions.beginAnswer(about: peer.id, now: settings.clock()) {
            prompt.release()
            return incoming.driver.send(.refuse(session.id, refusal))
        }
        incoming.setDeclineAction { [clock = settings.clock] in questions.recordDecline(by: peer.id, now: clock()) }
        // The peer does not remember this node. Its answers are forgotten, so that this user is asked too.
        if isRemembered == false { session.forget(peer.fingerprint) }
        let expiry = settings.clock() + timeout
        incoming.driver.reserve(until: expiry)
        session.recordQuestion(about: peer.id, until: expiry)
        let isStarted = start { [self] in
            defer {
                questions.endAnswer(about: peer.id)
                session.recordQuestion(about: peer.id, until: nil)
            }
            guard
                await evaluateTrust(
                    in: peer, on: incoming, of: session, voucher: nil, until: expiry, lateRefusal: .expired)
            else { return }
            prompt.release()
            // Without a room, the inviting peer decides after this node. Earlier versions do not say that they have agreed.
            if isRemembered != nil, session.room != nil, await !incoming.isAgreed(within: expiry - settings.clock()) {
                if !incoming.isOver { refuseLate(peer, on: incoming, in: session, .expired) }
                return
            }
            // Without a room the context is the program's.
            if session.room == nil {
                _ = incoming.join(session, known)
                return
            }
            acceptUnlessFull(peer, on: incoming, into: session, known, context)
        }
        if !isStarted { questions.endAnswer(about: peer.id) }
    }

    /// Refuses an invitation that was not answered in time.
    private func refuseLate(
        _ peer: Peer, on incoming: IncomingSessionLink, in session: Session, _ reason: SessionRefusal
    ) {
        if reason == .expired { session.questions.recordUnanswered(about: peer.id, now: settings.clock()) }
        incoming.driver.send(.refuse(session.id, reason))
    }

    /// Accepts the invitation of a peer that the user or the room has admitted, unless too many peers would be in the session. Before
    /// that, this node leaves a smaller group for the peer's (`docs/PROTOCOL.md`, section 12.7).
    /// - Parameter context: the number of members of the peer's group; empty from earlier versions.
    private func acceptUnlessFull(
        _ peer: Peer, on incoming: IncomingSessionLink, into session: Session, _ known: LinkPeerInfo, _ context: [UInt8]
    ) {
        let count = Int(context.first ?? 1)
        let now = settings.clock()
        switch session.state.withLock({ $0.members.roster.mergeDecision(about: peer.id, inGroupOf: count, now: now) }) {
        case .refuse: return incoming.driver.send(.refuse(session.id, .full))
        case .stepBackAndMerge: session.stepBack()
        case .merge: break
        }
        _ = incoming.join(session, known)
    }

    /// Joins a session, once the inviting peer's key is trusted.
    /// - Parameter isNew: whether this invitation has made the session. Such a session ends with the invitation, unless there are
    ///   other members.
    private func joinWhenTrusted(
        _ peer: Peer, on incoming: IncomingSessionLink, into session: Session, isNew: Bool, _ known: LinkPeerInfo,
        until expiry: MonotonicInstant
    ) async {
        if await evaluateTrust(in: peer, on: incoming, of: session, voucher: nil, until: expiry), incoming.join(session, known)
        {
            return
        }
        if isNew, session.members.isEmpty { session.end() }
    }

    /// Answers the invitation of a member, which attaches another link to the session.
    private func answerMember(
        _ peer: Peer, on incoming: IncomingSessionLink, into session: Session, _ known: LinkPeerInfo
    ) async {
        let voucher = session.announcer(of: peer.id)
        guard await evaluateTrust(in: peer, on: incoming, of: session, voucher: voucher, until: nil) else { return }
        _ = incoming.join(session, known)
    }

    /// Decides whether a peer's key is trusted, and refuses the peer otherwise.
    /// - Parameters:
    ///   - expiry: an invitation without a decision until then is refused; nil to wait as long as the link does.
    ///   - lateRefusal: sent when `expiry` passes without a decision.
    /// - Returns: false also when the invitation ends before the decision.
    private func evaluateTrust(
        in peer: Peer, on incoming: IncomingSessionLink, of session: Session, voucher: PeerID?,
        until expiry: MonotonicInstant?, lateRefusal: SessionRefusal = .untrusted
    ) async -> Bool {
        guard let code = await incoming.shortCode.value ?? nil else { return false }
        let decision: Decision = await firstResult(
            of: { () -> Decision in
                let check = IdentityCheck(peer: peer, shortCode: code.description, voucher: voucher)
                let isTrusted = await session.evaluate(check)
                // A task that is cancelled has no answer.
                if Task.isCancelled { return .over }
                if session.isOver { return .sessionOver }
                return isTrusted ? .trusted : .untrusted
            },
            { () -> Decision in
                // nil when this task is cancelled.
                await session.ended == nil ? .over : .sessionOver
            },
            { [clock = settings.clock] () -> Decision in
                // The user's answer is no longer needed, or too late.
                guard let expiry else {
                    _ = await incoming.over.value
                    return .over
                }
                let isOver = await incoming.over.isFulfilled(within: expiry - clock())
                return isOver || Task.isCancelled ? .over : .late
            })
        switch decision {
        case .trusted: return true
        case .untrusted: incoming.driver.send(.refuse(session.id, .untrusted))
        case .late: refuseLate(peer, on: incoming, in: session, lateRefusal)
        case .sessionOver:
            // A node that stops tells its peers so itself.
            if !state.withLock(\.isShuttingDown) { incoming.driver.send(.refuse(session.id, .unknown)) }
        case .over: break
        }
        return false
    }

    /// The decision about an inviting peer's key.
    private enum Decision: Sendable {
        case trusted
        case untrusted
        /// There was no decision in time.
        case late
        /// The session has ended on this node.
        case sessionOver
        /// No decision is needed any more.
        case over
    }

    /// Ends an unanswered invitation at its expiry, unless its link ends before.
    private static func expire(_ incoming: IncomingSessionLink, at expiry: MonotonicInstant, _ settings: NodeSettings) async {
        let isOver = await incoming.over.isFulfilled(within: expiry - settings.clock())
        if !isOver, !Task.isCancelled { incoming.expire() }
    }
}
