internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

// The links that this node opens, for an invitation or to a member, from the handshake to their end.
extension Session {
    /// Connects to a member, directly or through a relay.
    func perform(_ attempt: SessionRoster.ConnectionAttempt) async {
        let member = attempt.member
        // The member's program has restarted, or has removed this node, or its name is that of another peer: both users are asked.
        let isRenewal = asksUser && !remembers(member.fingerprint)
        if isRenewal {
            // Another attempt asks already.
            guard state.withLock({ $0.renewals.insert(member.id).inserted }) else { return failed(attempt, isTried: false) }
        }
        defer { if isRenewal { state.withLock { _ = $0.renewals.remove(member.id) } } }
        if isRenewal, reasonNotToInvite(member.id, now: node.settings.clock()) != nil { return failed(attempt) }
        let link: (any StreamLink)?
        switch attempt {
        case .connect:
            let zones = node.linkLocalZones
            link = try? await node.connect(toFirstOf: member.addresses.flatMap { $0.destinations(zones: zones) })
        case .relay(_, let relay):
            link = openRelay(to: member.id, through: relay)
        }
        guard let link else { return failed(attempt) }
        let outcome = Promise<Result<PeerID, SessionError>>()
        let asks = room?.admission == .ask
        let context = asks ? [UInt8(clamping: members.count + 1)] : []
        func invitation(_ timeout: Duration) -> SessionFrame { .invite(id, timeout: timeout, proof: [], context: context) }
        if isRenewal {
            let result = await invite(
                over: link, invitation(SessionQuestions.timeout), room: asks ? room : nil, expected: member.id, as: .renewal,
                timeout: SessionQuestions.timeout)
            if case .success = result.outcome { return }
            return failed(attempt, isAnswered: result.isInvited)
        }
        let outgoingLink = OutgoingSessionLink(
            invitation: invitation(.seconds(10)), secret: nil, room: asks ? room : nil,
            questions: asksUser ? questions : nil, expected: member.id, voucher: announcer(of: member.id), purpose: .member,
            outcome: outcome)
        await follow(node.makeDriver(link, .initiator), link, outgoingLink)
        if case .success? = outcome.current { return }
        failed(attempt, isAnswered: outgoingLink.invited.current != nil)
    }

    /// The member that has announced a peer, and so vouches for its key.
    func announcer(of id: PeerID) -> PeerID? { state.withLock { $0.members.roster.announcer(of: id) } }

    /// - Parameters:
    ///   - isAnswered: whether the member was reached, and has not agreed.
    ///   - isTried: whether it was tried to reach the member.
    private func failed(_ attempt: SessionRoster.ConnectionAttempt, isAnswered: Bool = false, isTried: Bool = true) {
        let now = node.settings.clock()
        update { state in
            state.members.roster.recordFailure(
                of: attempt.member.id, through: attempt.relay, isAnswered: isAnswered, isTried: isTried, now: now)
        }
    }

    /// Follows a link that this node has opened, for an invitation or to a member, until it ends.
    func follow(_ driver: LinkDriver, _ link: any StreamLink, _ outgoingLink: OutgoingSessionLink) async {
        guard link is RelayedLink else { return await handleEvents(of: driver, link, outgoingLink) }
        await withDiscardingTaskGroup { group in
            // A relay that has lost the member as well must not hold up the next attempt for longer than an unreachable address
            // would.
            group.addTask { [timeout = node.settings.limits.connectTimeout] in
                let isAnswered = await outgoingLink.invited.isFulfilled(within: timeout)
                if !isAnswered, !Task.isCancelled { driver.cut() }
            }
            await handleEvents(of: driver, link, outgoingLink)
            group.cancelAll()
        }
    }

    private func handleEvents(
        of driver: LinkDriver, _ link: any StreamLink, _ outgoingLink: OutgoingSessionLink
    ) async {
        let end = state.withLock { state in
            if !state.isOver { state.outgoing.insert(driver, outgoingLink) }
            return state.end
        }
        if let end {
            outgoingLink.outcome.fulfil(.failure(end))
            driver.close(.goingAway)
        }
        defer { state.withLock { $0.outgoing.remove(driver) } }
        await node.run(driver) { [self] in
            var known = LinkPeerInfo(link.remote)
            var open = OpenInvitations()
            // The links to the peer before the invitation.
            var earlierLinks: [SessionLink] = []
            for await event in driver.events {
                known.learn(from: event)
                switch event {
                case .established(let peer, let handshake):
                    earlierLinks = linksTo(peer.id)
                    if let failure = sendInvitation(to: peer, at: link.remote, handshake, on: driver, outgoingLink) {
                        outgoingLink.outcome.fulfil(.failure(failure))
                        driver.close(.goingAway)
                    }
                case .shortCode(let code):
                    open.setShortCode(code)
                    // A link that is being closed, to a peer that is not invited, causes no question.
                    guard outgoingLink.invited.current != nil, let peer = known.peer(node.settings) else { continue }
                    let peerInfo = known
                    node.start { [self] in
                        await joinWhenTrusted(peer, shortCode: code, over: link, driver, peerInfo, outgoingLink)
                    }
                case .session(.share(id, let share)):
                    guard let invitation = outgoingLink.invitation(answering: share, now: node.settings.clock()) else {
                        abandon(driver, outgoingLink, because: Self.unprovenSecret)
                        continue
                    }
                    driver.send(invitation)
                case .session(.confirm(id, let proof)):
                    if !outgoingLink.confirm(proof) { abandon(driver, outgoingLink, because: Self.unprovenSecret) }
                case .session(.accept(id)):
                    guard outgoingLink.isProven else {
                        abandon(driver, outgoingLink, because: Self.unprovenSecret)
                        continue
                    }
                    let peerInfo = known
                    let queuedFrames = outgoingLink.recordAcceptance { joinOrWithdraw(driver, link, peerInfo) }
                    for (frame, sessionLink) in queuedFrames { handle(frame, from: sessionLink) }
                case .session(.refuse(id, let reason)):
                    await handleRefusal(reason, by: known.proven, on: driver, outgoingLink, earlierLinks: earlierLinks)
                case .session(let frame):
                    if let sessionLink = outgoingLink.linkOrQueue(frame) { handle(frame, from: sessionLink) }
                case .invited(let offer, let expiry):
                    handle(
                        offer, until: expiry, on: driver, from: known, invitations: &open, link: await outgoingLink.joinedLink)
                case .invitationEnded(let id, let outcome): open.end(id, outcome)
                case .closed(let end):
                    open.endAll()
                    if !outgoingLink.isAgreed, end == .closure(.closed(by: .remote, .verificationFailed)) {
                        outgoingLink.recordDecline(now: node.settings.clock())
                    }
                    outgoingLink.endQuestion()
                    if let sessionLink = outgoingLink.end() { remove(sessionLink, after: end) }
                    guard !outgoingLink.isAgreed else { break }
                    // The peer does not wait for the decision for ever.
                    let failure =
                        outgoingLink.awaitsTrust ? .untrusted(Self.unansweredQuestion) : SessionError(end)
                    outgoingLink.outcome.fulfil(.failure(failure))
                case .greeted, .verificationRequested, .verificationAnswered, .hotspot: break
                }
            }
        }
    }

    /// Sends the first frames on a link to a peer with a proven key.
    /// - Returns: the reason where the peer is not invited on this link.
    private func sendInvitation(
        to peer: AuthenticatedPeer, at remote: LinkAddress, _ handshake: HandshakeResult, on driver: LinkDriver,
        _ outgoingLink: OutgoingSessionLink
    ) -> SessionError? {
        let rejectionReason = outgoingLink.rejectionReason(to: peer, at: remote, node.settings) ?? removal(of: peer)
        // The program's own invitation of a peer that is not a member asks again.
        let mayRemember = outgoingLink.mayAskUser && (outgoingLink.purpose != .program || isMember(peer.id))
        if mayRemember { forgetVoucherOnNameClash(of: peer) }
        let isRemembered = mayRemember && remembers(peer.fingerprint)
        if let rejectionReason { return rejectionReason }
        // Before the other user is asked. Where another member vouches for the key, none is.
        if outgoingLink.mayAskUser, !isRemembered, outgoingLink.purpose != .program,
            state.withLock({ $0.members.hasDeclined(peer.id) })
        {
            return Self.declinedKey(of: peer.id)
        }
        if outgoingLink.purpose == .member, outgoingLink.mayAskUser, !isRemembered { return Self.forgotten }
        guard outgoingLink.beginInvitation(of: peer.id, isRemembered: isRemembered, now: node.settings.clock()) else {
            return Self.questionElsewhere
        }
        // The question on another link was answered meanwhile: this one would ask both users once more.
        if !isRemembered, mayRemember, remembers(peer.fingerprint) { return Self.questionElsewhere }
        if outgoingLink.mayAskUser, room == nil { driver.send(SessionFrame.statement(id, isRemembered: isRemembered)) }
        driver.send(
            outgoingLink.frame(on: handshake.handshakeHash, random: node.settings.random, isRemembered: isRemembered))
        outgoingLink.invited.fulfil()
        return nil
    }

    /// Decides about the key of a peer that this node has invited, and joins with the peer once it has accepted.
    private func joinWhenTrusted(
        _ peer: Peer, shortCode: ShortAuthenticationDigits, over link: any StreamLink, _ driver: LinkDriver,
        _ known: LinkPeerInfo, _ outgoingLink: OutgoingSessionLink
    ) async {
        // Where this node remembers the peer, another member may have announced it since.
        let voucher = outgoingLink.voucher ?? (outgoingLink.isRemembered ? announcer(of: peer.id) : nil)
        let check = IdentityCheck(peer: peer, shortCode: shortCode.description, voucher: voucher)
        let decision: KeyDecision = await firstResult(
            of: { await self.decide(about: check, on: outgoingLink, at: link.remote) },
            { () -> KeyDecision in
                // The user's answer is no longer needed.
                await outgoingLink.waitUntilSettled()
                return .postponed(Self.questionElsewhere)
            })
        switch decision {
        case .trusted:
            if outgoingLink.roomAsksUser { driver.send(.confirm(id, proof: SessionRoom.agreement)) }
            let queuedFrames = outgoingLink.recordTrust(true) { joinOrWithdraw(driver, link, known) }
            // The link may have ended while a user was deciding.
            if outgoingLink.isOver, let sessionLink = outgoingLink.link { remove(sessionLink) }
            for (frame, sessionLink) in queuedFrames { handle(frame, from: sessionLink) }
        case .untrusted:
            _ = outgoingLink.recordTrust(false) { joinOrWithdraw(driver, link, known) }
            abandon(driver, outgoingLink, because: Self.unconfirmedCode)
        case .postponed(let reason):
            guard !outgoingLink.isOver else { return }
            outgoingLink.outcome.fulfil(.failure(reason))
            driver.send(.withdraw(id))
            driver.close(.goingAway)
        }
    }

    /// Adds a link to the session whose peer has accepted; where that fails, withdraws the invitation.
    private func joinOrWithdraw(
        _ driver: LinkDriver, _ link: any StreamLink, _ known: LinkPeerInfo
    ) -> Result<SessionLink, SessionError> {
        let joined = join(driver, link, known, isInitiator: true)
        if case .failure(let reason) = joined {
            // The peer has accepted, and would be a member of a session without others.
            if reason == .full { driver.send(.refuse(id, .full)) }
            driver.send(.withdraw(id))
            driver.close(.goingAway)
        }
        return joined
    }

    /// - Parameter earlierLinks: the links to the peer before the invitation.
    private func handleRefusal(
        _ reason: SessionRefusal, by peer: AuthenticatedPeer?, on driver: LinkDriver, _ outgoingLink: OutgoingSessionLink,
        earlierLinks: [SessionLink]
    ) async {
        if reason == .unknown, outgoingLink.purpose == .program, let peer, await waitUntilMember(peer) {
            // The failure below has no effect then.
            outgoingLink.outcome.fulfil(.success(peer.id))
        }
        // Before the outcome, after which the peer is invited again. With a link that has joined since, both ends have agreed
        // meanwhile; an earlier one may be that of the program before. While a question is open, the other user may be about to
        // answer it, and this user's answer still counts.
        if reason == .unremembered, let peer, !questions.asks(about: peer.id),
            linksTo(peer.id).allSatisfy({ link in earlierLinks.contains { $0 === link } })
        {
            forget(peer.fingerprint)
        }
        if reason == .expired { outgoingLink.recordUnanswered(now: node.settings.clock()) }
        if reason == .untrusted { outgoingLink.recordDecline(now: node.settings.clock()) }
        outgoingLink.outcome.fulfil(.failure(SessionError(reason)))
        driver.close(.done)
        guard let peer else { return }
        if reason == .removed { endIfFounder(peer.fingerprint) }
        if reason == .full { recordRefusal(of: peer) }
    }

    /// The decision about the key of a peer that this node invites.
    private enum KeyDecision: Sendable {
        case trusted
        case untrusted
        /// There is none on this link.
        case postponed(SessionError)
    }

    /// Decides about the key of a peer that this node invites, by the policy or the user.
    private func decide(
        about check: IdentityCheck, on outgoingLink: OutgoingSessionLink, at remote: LinkAddress
    ) async -> KeyDecision {
        func evaluated(asksAgain: Bool = false) async -> KeyDecision {
            let isTrusted = await evaluate(check, asksAgain: asksAgain)
            // A task that is cancelled has no answer.
            if Task.isCancelled { return .postponed(.cancelled) }
            return isTrusted ? .trusted : .untrusted
        }
        guard let proven = check.peer.proven else { return .untrusted }
        guard outgoingLink.mayAskUser else { return await evaluated(asksAgain: outgoingLink.purpose == .program) }
        if outgoingLink.isRemembered {
            forgetVoucherOnNameClash(of: proven, named: check.peer.name)
            return remembers(proven.fingerprint) ? await evaluated() : .postponed(Self.forgotten)
        }
        if outgoingLink.waitsToAsk(own: node.id, about: proven.id),
            await outgoingLink.isSettled(within: SessionQuestions.crossingTime) || Task.isCancelled
        {
            return .postponed(Self.questionElsewhere)
        }
        guard outgoingLink.purpose != .program else { return await evaluated(asksAgain: true) }
        if hasDeclined(check.peer) { return .untrusted }
        guard let prompt = node.promptLimiter.admit(check.peer, on: .link(remote)) else {
            // Until the limit permits another question, the peer's user is not asked in vain.
            questions.recordUnanswered(about: proven.id, now: node.settings.clock())
            return .postponed(Self.tooManyQuestions)
        }
        outgoingLink.recordShown()
        let decision = await evaluated()
        if case .trusted = decision { prompt.release() }
        return decision
    }

    private static let tooManyQuestions = SessionError.unavailable(
        "the user was asked about too many peers within a minute; the session asks about this one later")
    /// The failure of an invitation that states that this node remembers the peer. The peer has restarted since, or its name is
    /// that of another one: the next attempt asks.
    private static let forgotten = SessionError.unavailable(
        "the session does not remember the peer's key any more; both users are asked at the next attempt")
    static let questionElsewhere = SessionError.unavailable(
        "the user is being asked about the peer on another link, or has not answered in time; try again in a minute")
    static func declinedKey(of id: PeerID) -> SessionError {
        .untrusted("the user has declined the key of \(id.hex)")
    }
    static func declinedByUser(of id: PeerID) -> SessionError {
        .untrusted("the user of \(id.hex) has declined this machine's key")
    }
    private static let unconfirmedCode = "the short codes were not confirmed; the peer may be impersonating the one you invited"
    static let unansweredQuestion =
        "the peer has accepted, but the question whether its key is to be trusted was not answered in time; "
        + "read the session's identity questions, or choose another trust policy"
    private static let unprovenSecret = "the peer did not prove that it knows the secret of the room, or too many have not"

    private func abandon(_ driver: LinkDriver, _ outgoingLink: OutgoingSessionLink, because reason: String) {
        outgoingLink.outcome.fulfil(.failure(.untrusted(reason)))
        driver.send(.withdraw(id))
        driver.close(.verificationFailed)
    }

    /// Handles an offer on an outgoing link. Only a member may offer there.
    func handle(
        _ offer: TransferOffer, until expiry: MonotonicInstant, on driver: LinkDriver, from known: LinkPeerInfo,
        invitations open: inout OpenInvitations, link: SessionLink?
    ) {
        guard link != nil, let peer = known.peer(node.settings) else { return driver.decline(offer.id, because: .notAllowed) }
        // The program is not asked while this node goes.
        if state.withLock({ $0.undelivered != nil }) { return driver.decline(offer.id, because: .declined) }
        let invitation = node.makeInvitation(offer, from: peer, until: expiry, on: driver)
        follow(invitation.transfer, with: peer.id)
        open.insert(invitation, as: offer.id, known.shortCode)
        emit(invitation)
    }
}
