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
        /// The session of the only invitation that a link may carry, answered or not.
        var invited: SessionID?
        /// The invitation was withdrawn, or the link has ended.
        var isOver = false
    }

    let driver: LinkDriver
    let link: any StreamLink
    /// Fulfilled when the invitation is withdrawn, or the link has ended.
    let over = Promise<Bool>()
    /// Records that the link belongs to a member, whose place does not count for its address.
    let recordMember: @Sendable (PeerID) -> Void
    let shortCode = Promise<ShortAuthenticationDigits?>()
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
    /// - Returns: false for all but the first of the link.
    func claimInvitation(into session: SessionID) -> Bool {
        state.withLock { state in
            guard state.invited == nil else { return false }
            state.invited = session
            return true
        }
    }

    func attach(_ invitation: SessionInvitation) {
        state.withLock { $0.invitation = invitation }
    }

    private var invitation: SessionInvitation? { state.withLock { $0.invitation } }

    func shortCodeIsReady(_ code: ShortAuthenticationDigits) {
        shortCode.fulfil(code)
        invitation?.shortCodeIsReady(code)
    }

    /// Ends the invitation that the peer has withdrawn, also while the trust policy decides about an accepted one. No effect for
    /// another session, and once the link has joined.
    func withdraw(_ session: SessionID) {
        let isWithdrawn = state.withLock { state in
            guard state.invited == session, state.joined == nil else { return false }
            state.isOver = true
            return true
        }
        guard isWithdrawn else { return }
        over.fulfil(true)
        invitation?.end(.unavailable("the invitation was withdrawn"))
    }

    /// Ends the invitation at its expiry. No effect once it is answered.
    func expire() {
        invitation?.end(.timedOut("the invitation was not answered in time"))
    }

    /// Adds the link to the session, and sends the acceptance.
    /// - Returns: false when the invitation or the session is over, or the session is full.
    func join(_ session: Session, _ known: LinkPeerInfo) -> Bool {
        guard !state.withLock(\.isOver) else { return false }
        guard let sessionLink = session.join(driver, link, known, isInitiator: false) else {
            driver.send(.refuse(session.id, session.isOver ? .declined : .full))
            return false
        }
        let isOver = state.withLock { state in
            if !state.isOver { state.joined = (session, sessionLink) }
            return state.isOver
        }
        if isOver {
            // The link ended, or the invitation was withdrawn, while the link was being added.
            session.remove(sessionLink)
            driver.close(.goingAway)
            return false
        }
        if sessionLink.relay == nil { recordMember(sessionLink.peer) }
        driver.send(.accept(session.id))
        return true
    }

    /// Records that the link has ended, and ends its invitation.
    func end() {
        shortCode.fulfil(nil)
        invitation?.end(.unavailable("the connection to the inviting peer was lost"))
        let joined = state.withLock { state in
            state.isOver = true
            return state.joined
        }
        over.fulfil(true)
        if let (session, sessionLink) = joined { session.remove(sessionLink) }
    }
}

extension Node {
    /// Handles a session frame on an incoming link.
    func receive(
        _ frame: SessionFrame, on incoming: IncomingSessionLink, _ known: LinkPeerInfo, _ waiting: Listener.Continuations?
    ) {
        if let (session, sessionLink) = incoming.joined { return session.handle(frame, from: sessionLink) }
        switch frame {
        case .invite(let id, let timeout, let proof, let context):
            guard incoming.claimInvitation(into: id), let peer = known.peer(settings), let handshake = known.handshake else {
                return incoming.driver.send(.refuse(id, .declined))
            }
            let expiry = settings.clock() + timeout
            if let session = session(id), session.isMember(peer.id) {
                incoming.driver.reserve(until: expiry)
                start { await self.readmit(peer, on: incoming, into: session, known) }
                return
            }
            guard let waiting, settings.acceptsSessions, session(id) == nil else {
                let isRemoved = session(id)?.isRemoved(peer.fingerprint) == true
                return incoming.driver.send(.refuse(id, isRemoved ? .removed : .unknown))
            }
            guard let prompt = promptLimiter.admit(peer, on: .link(incoming.link.remote)) else {
                return incoming.driver.send(.refuse(id, .declined))
            }
            let invitation = SessionInvitation(
                peer: peer, session: id, context: context, proof: proof, handshakeHash: handshake.handshakeHash,
                prompt: prompt,
                join: { [self] settings, asksTrust throws(SessionError) in
                    prompt.release()
                    let session = makeSession(id, settings)
                    if asksTrust {
                        start { await self.joinWhenTrusted(peer, on: incoming, into: session, known) }
                        return session
                    }
                    guard incoming.join(session, known) else {
                        defer { if session.members.isEmpty { session.end() } }
                        if incoming.isOver {
                            throw .unavailable("the invitation is over: it was withdrawn, or its link has ended")
                        }
                        throw session.isOver ? .left : .full
                    }
                    return session
                },
                refuse: { [self] in
                    incoming.driver.reserve(until: settings.clock())
                    incoming.driver.send(.refuse(id, $0))
                })
            incoming.driver.reserve(until: expiry)
            incoming.attach(invitation)
            if let code = known.shortCode { invitation.shortCodeIsReady(code) }
            waiting.sessions.yield(invitation)
            start { await Self.expire(incoming, at: expiry, self.settings) }
        case .withdraw(let id): incoming.withdraw(id)
        default: break
        }
    }

    /// Joins a session, once the inviting peer's key is trusted.
    private func joinWhenTrusted(
        _ peer: Peer, on incoming: IncomingSessionLink, into session: Session, _ known: LinkPeerInfo
    ) async {
        if await isTrusted(peer, on: incoming, in: session, voucher: nil), incoming.join(session, known) { return }
        if session.members.isEmpty { session.end() }
    }

    /// Accepts a link that another member of the session has opened.
    private func readmit(
        _ peer: Peer, on incoming: IncomingSessionLink, into session: Session, _ known: LinkPeerInfo
    ) async {
        guard await isTrusted(peer, on: incoming, in: session, voucher: session.announcer(of: peer.id)) else { return }
        _ = incoming.join(session, known)
    }

    /// Decides whether a peer's key is trusted, and refuses the peer otherwise.
    /// - Returns: false also when the invitation ends before the decision.
    private func isTrusted(
        _ peer: Peer, on incoming: IncomingSessionLink, in session: Session, voucher: PeerID?
    ) async -> Bool {
        guard let code = await incoming.shortCode.value ?? nil else { return false }
        let isTrusted: Bool? = await firstResult(
            of: { await session.judge(IdentityCheck(peer: peer, shortCode: code, voucher: voucher)) },
            {
                // The user's answer is no longer needed.
                _ = await incoming.over.value
                return nil
            })
        if isTrusted == false { incoming.driver.send(.refuse(session.id, .untrusted)) }
        return isTrusted == true
    }

    /// Ends an unanswered invitation at its expiry, unless its link ends before.
    private static func expire(_ incoming: IncomingSessionLink, at expiry: MonotonicInstant, _ settings: NodeSettings) async {
        let isOver = await incoming.over.isFulfilled(within: expiry - settings.clock())
        if !isOver, !Task.isCancelled { incoming.expire() }
    }
}
