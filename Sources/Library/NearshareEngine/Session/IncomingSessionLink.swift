internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

/// An incoming link that may join a session.
final class IncomingSessionLink: Sendable {
    private struct WeakInvitation: Sendable {
        weak var invitation: SessionInvitation?
    }

    private struct State {
        var joined: (Session, SessionLink)?
        var invitation: WeakInvitation?
        /// The time at which the invitation expires.
        var expiry: MonotonicInstant?
        /// At most one invitation is accepted on a link, answered or not.
        var isInvited = false
        var isOver = false
    }

    let driver: LinkDriver
    let link: any StreamLink
    let linkEnd: Promise<TransferOutcome>
    /// Records that the link belongs to a member, whose place does not count for its address.
    let recordMember: @Sendable (PeerID) -> Void
    let shortCode = Promise<ShortAuthenticationDigits?>()
    private let state = Mutex(State())

    init(
        _ driver: LinkDriver, _ link: any StreamLink, _ linkEnd: Promise<TransferOutcome>,
        recordMember: @escaping @Sendable (PeerID) -> Void
    ) {
        self.recordMember = recordMember
        self.driver = driver
        self.link = link
        self.linkEnd = linkEnd
    }

    var joined: (Session, SessionLink)? { state.withLock { $0.joined } }

    /// - Returns: true for the first invitation of the link only.
    func mayInvite() -> Bool {
        state.withLock { state in
            defer { state.isInvited = true }
            return !state.isInvited
        }
    }

    func await(_ invitation: SessionInvitation, until expiry: MonotonicInstant) {
        state.withLock { state in
            state.invitation = WeakInvitation(invitation: invitation)
            state.expiry = expiry
        }
    }

    private var invitation: SessionInvitation? { state.withLock { $0.invitation?.invitation } }

    func shortCodeIsReady(_ code: ShortAuthenticationDigits) {
        shortCode.fulfil(code)
        invitation?.shortCodeIsReady(code)
    }

    /// Ends the invitation: the peer has withdrawn it, or it has expired. A late timer has no effect.
    func withdraw(now: MonotonicInstant) {
        let isLate = state.withLock { $0.expiry }.map { now >= $0 } ?? true
        invitation?.end(
            isLate ? .timedOut("the invitation was not answered in time") : .unavailable("the invitation was withdrawn"))
    }

    /// Adds the link to the session, and sends the acceptance.
    func join(_ session: Session, _ known: LinkPeerInfo) -> Bool {
        guard let sessionLink = session.join(driver, link, known, isInitiator: false) else {
            driver.send(.refuse(session.id, .full))
            return false
        }
        let isOver = state.withLock { state in
            state.joined = (session, sessionLink)
            return state.isOver
        }
        // The link ended while it was being added.
        if isOver { session.remove(sessionLink) }
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
            guard incoming.mayInvite(), let peer = known.peer(settings), let handshake = known.handshake else {
                return incoming.driver.send(.refuse(id, .declined))
            }
            let expiry = settings.clock() + timeout
            if let session = session(id), session.isMember(peer.id) {
                incoming.driver.reserve(until: expiry)
                start { await self.readmit(peer, on: incoming, into: session, known) }
                return
            }
            guard let waiting, settings.acceptsSessions, session(id) == nil else {
                return incoming.driver.send(.refuse(id, .unknown))
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
                        if session.members.isEmpty { session.end() }
                        throw .full
                    }
                    return session
                },
                refuse: { [self] in
                    incoming.driver.reserve(until: settings.clock())
                    incoming.driver.send(.refuse(id, $0))
                })
            incoming.driver.reserve(until: expiry)
            incoming.await(invitation, until: expiry)
            if let code = known.shortCode { invitation.shortCodeIsReady(code) }
            waiting.sessions.yield(invitation)
            start { await Self.expire(incoming, at: expiry, self.settings) }
        case .withdraw: incoming.withdraw(now: settings.clock())
        default: break
        }
    }

    /// Joins a session, once the inviting peer's key is trusted.
    private func joinWhenTrusted(
        _ peer: Peer, on incoming: IncomingSessionLink, into session: Session, _ known: LinkPeerInfo
    ) async {
        if let code = await incoming.shortCode.value ?? nil {
            let isTrusted = await withTaskGroup(of: Bool?.self) { group in
                group.addTask { await session.judge(IdentityCheck(peer: peer, shortCode: code, voucher: nil)) }
                group.addTask {
                    _ = await incoming.linkEnd.value
                    return nil
                }
                // The link has ended: the user's answer is no longer needed.
                defer { group.cancelAll() }
                return await group.next() ?? nil
            }
            if isTrusted == true, incoming.join(session, known) { return }
            if isTrusted == false { incoming.driver.send(.refuse(session.id, .untrusted)) }
        }
        if session.members.isEmpty { session.end() }
    }

    /// Accepts a link that another member of the session has opened.
    private func readmit(
        _ peer: Peer, on incoming: IncomingSessionLink, into session: Session, _ known: LinkPeerInfo
    ) async {
        guard let code = await incoming.shortCode.value ?? nil else { return }
        let voucher = session.announcer(of: peer.id)
        guard await session.judge(IdentityCheck(peer: peer, shortCode: code, voucher: voucher)) else {
            return incoming.driver.send(.refuse(session.id, .untrusted))
        }
        _ = incoming.join(session, known)
    }

    /// Ends an unanswered invitation at its expiry, unless its link ends before.
    private static func expire(_ incoming: IncomingSessionLink, at expiry: MonotonicInstant, _ settings: NodeSettings) async {
        let isTime = await withTaskGroup(of: Bool.self) { group in
            group.addTask {
                _ = await incoming.linkEnd.value
                return false
            }
            group.addTask {
                try? await Task.sleep(for: expiry - settings.clock())
                return true
            }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
        if isTime { incoming.withdraw(now: max(settings.clock(), expiry)) }
    }
}
