internal import Logging
public import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

extension Session {
    /// Invites a peer, and waits for the answer. A peer that joins at the same moment as too many others may step back after this
    /// call has returned, which ``Session/Change/left(_:lost:)`` reports.
    /// - Parameters:
    ///   - context: bytes for the invited program, none by default: at most 1,024 bytes.
    ///   - secret: at least one byte, proven to the other side and not sent; see ``InvitationPolicy/secret(_:)``. nil for none.
    ///   - timeout: time in which the other user can answer: 1 to 600 seconds, by default 30. It begins when the peer is reached:
    ///     connecting to an address takes 5 seconds more at most.
    /// - Returns: the new member's identifier, once both sides agree.
    /// - Throws: ``SessionError``, of these cases:
    ///   - ``SessionError/declined`` and ``SessionError/timedOut(_:)``: the other user or program has declined, or has not answered.
    ///   - ``SessionError/full``: there or here; at once where the members and the open invitations reach this node's limit.
    ///   - ``SessionError/untrusted(_:)``: one end does not trust the other's key.
    ///   - ``SessionError/unavailable(_:)``: the peer cannot be reached, cannot answer now, or was removed by the founder.
    ///   - ``SessionError/incompatible(_:)`` and ``SessionError/invalidParameter(_:)``.
    ///   - ``SessionError/cancelled``: the task was cancelled, which withdraws the invitation.
    ///   - The reason of ``ended``.
    public func invite(
        _ destination: PeerDestination, context: [UInt8] = [], secret: [UInt8]? = nil, timeout: Duration = .seconds(30)
    ) async throws(SessionError) -> PeerID {
        try checkInvitation(context: context, secret: secret, timeout: timeout)
        let invitation = SessionFrame.invite(
            id, timeout: .seconds(timeout.components.seconds), proof: [], context: context)
        return try await connectAndInvite(invitation, secret: secret, to: destination, timeout: timeout)
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
        if let id = destination.id, questions.asks(about: id) || questions.isPaused(about: id, now: now) {
            throw Self.questionElsewhere
        }
        if let id = destination.id, state.withLock({ $0.members.hasDeclined(id) }) {
            throw Self.declinedKey(of: id)
        }
        if let id = destination.id, questions.isDeclined(by: id, now: now) { throw Self.declinedByUser(of: id) }
        let count: UInt8? = state.withLock { state in
            let roster = state.members.roster
            return roster.isIncomplete(now: now) ? nil : UInt8(clamping: roster.memberIDs.count + 1)
        }
        guard let count else { throw .unavailable("this node has just joined the room, and does not know all members yet") }
        // The link adds whether this session remembers the peer's key.
        let invitation = SessionFrame.invite(id, timeout: timeout, proof: [], context: [count])
        return try await connectAndInvite(invitation, room: room, to: destination, timeout: timeout)
    }

    /// Connects to a peer and invites it, at one address after the other, until it has answered.
    private func connectAndInvite(
        _ invitation: SessionFrame, secret: [UInt8]? = nil, room: Room? = nil, to destination: PeerDestination,
        timeout: Duration
    ) async throws(SessionError) -> PeerID {
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
                link = try await node.connect(toFirstOf: addresses)
            } catch {
                if Task.isCancelled { throw .cancelled }
                throw state.withLock(\.end) ?? SessionError(error)
            }
            let (outcome, isInvited) = await invite(
                over: link, invitation, secret: secret, room: room, expected: destination.id,
                as: room == nil ? .program : .room, timeout: timeout)
            switch outcome {
            case .success(let id): return id
            case .failure(let error):
                // The peer's program has restarted. This node has forgotten its answers about the peer by now: both users are asked.
                if isInvited, !hasRepeated, error == SessionError(.unremembered) {
                    (hasRepeated, addresses) = (true, [link.remote])
                    continue
                }
                // Any host can announce an address of the peer: it may be at another one (D1).
                addresses.removeAll { $0 == link.remote }
                if isInvited || addresses.isEmpty || error == Self.questionElsewhere { throw error }
            }
        }
    }

    /// Invites the peer at the other end of a link.
    /// - Returns: the outcome, and whether the peer could receive the invitation.
    private func invite(
        over link: any StreamLink, _ invitation: SessionFrame, secret: [UInt8]? = nil, room: Room?, expected: PeerID?,
        as purpose: OutgoingSessionLink.Purpose, timeout: Duration
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
        // The handshake has a timeout of its own; the other user has all of this one.
        await firstResult(of: { _ = await outgoingLink.invited.value }, { _ = await outcome.value })
        if outgoingLink.invited.current == nil, let failure = outcome.current { return (failure, false) }
        if let result = await Self.first(outcome, within: timeout + Self.answerGrace) { return (result, true) }
        let awaitsTrust = outgoingLink.awaitsTrust
        if !Task.isCancelled { outgoingLink.recordUnanswered(now: node.settings.clock()) }
        driver.send(.withdraw(id))
        driver.close(.done)
        if Task.isCancelled { return (.failure(.cancelled), true) }
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
    private func recordRefusal(of peer: AuthenticatedPeer) {
        let now = node.settings.clock()
        update { state in
            guard state.members.roster.member(peer.id)?.fingerprint == peer.fingerprint else { return }
            state.members.roster.recordRefusal(of: peer.id, now: now)
        }
    }

    func isMember(_ id: PeerID) -> Bool { state.withLock { !$0.isOver && $0.members.roster.member(id) != nil } }

    // MARK: Outgoing links

    /// Connects to a member, directly or through a relay.
    func perform(_ attempt: SessionRoster.ConnectionAttempt) async {
        let member = attempt.member
        // The member's program has restarted, or has removed this node, or its name is that of another peer: both users are asked.
        let isRenewal = asksUser && !remembers(member.fingerprint)
        if isRenewal {
            let now = node.settings.clock()
            let isPaused =
                questions.isPaused(about: member.id, now: now) || questions.isDeclined(by: member.id, now: now)
            let isDeclined = state.withLock { $0.members.hasDeclined(member.id) }
            if isPaused || isDeclined || questions.asks(about: member.id) { return failed(member.id) }
        }
        let link: (any StreamLink)?
        switch attempt {
        case .connect:
            let zones = node.linkLocalZones
            link = try? await node.connect(toFirstOf: member.addresses.flatMap { $0.destinations(zones: zones) })
        case .relay(_, let relay):
            link = openRelay(to: member.id, through: relay)
        }
        guard let link else { return failed(member.id) }
        let outcome = Promise<Result<PeerID, SessionError>>()
        let asks = room?.admission == .ask
        let context = asks ? [UInt8(clamping: members.count + 1)] : []
        func invitation(_ timeout: Duration) -> SessionFrame { .invite(id, timeout: timeout, proof: [], context: context) }
        if isRenewal {
            let result = await invite(
                over: link, invitation(SessionQuestions.timeout), room: asks ? room : nil, expected: member.id, as: .renewal,
                timeout: SessionQuestions.timeout)
            if case .success = result.outcome { return }
            return failed(member.id)
        }
        let outgoingLink = OutgoingSessionLink(
            invitation: invitation(.seconds(10)), secret: nil, room: asks ? room : nil,
            questions: asksUser ? questions : nil, expected: member.id, voucher: announcer(of: member.id), purpose: .member,
            outcome: outcome)
        await follow(node.makeDriver(link, .initiator), link, outgoingLink)
        if case .success? = outcome.current { return }
        failed(member.id)
    }

    /// The member that has announced a peer, and so vouches for its key.
    func announcer(of id: PeerID) -> PeerID? { state.withLock { $0.members.roster.announcer(of: id) } }

    private func failed(_ id: PeerID) {
        let now = node.settings.clock()
        update { $0.members.roster.recordFailure(of: id, now: now) }
    }

    /// Follows a link that this node has opened, for an invitation or to a member, until it ends.
    private func follow(_ driver: LinkDriver, _ link: any StreamLink, _ outgoingLink: OutgoingSessionLink) async {
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
                        outgoingLink.awaitsTrust ? .untrusted(Self.unansweredQuestion) : SessionError(NodeError(end))
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
            driver.close(.done)
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
        // meanwhile; an earlier one may be that of the program before.
        if reason == .unremembered, let peer, linksTo(peer.id).allSatisfy({ link in earlierLinks.contains { $0 === link } }) {
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
        func judged(asksAgain: Bool = false) async -> KeyDecision {
            await judge(check, asksAgain: asksAgain) ? .trusted : .untrusted
        }
        guard let proven = check.peer.proven else { return .untrusted }
        guard outgoingLink.mayAskUser else { return await judged(asksAgain: outgoingLink.purpose == .program) }
        if outgoingLink.isRemembered {
            forgetVoucherOnNameClash(of: proven, named: check.peer.name)
            return remembers(proven.fingerprint) ? await judged() : .postponed(Self.forgotten)
        }
        if outgoingLink.waitsToAsk(own: node.id, about: proven.id),
            await outgoingLink.isSettled(within: SessionQuestions.crossingTime) || Task.isCancelled
        {
            return .postponed(Self.questionElsewhere)
        }
        guard outgoingLink.purpose != .program else { return await judged(asksAgain: true) }
        if hasDeclined(check.peer) { return .untrusted }
        guard let prompt = node.promptLimiter.admit(check.peer, on: .link(remote)) else {
            // Until the limit permits another question, the peer's user is not asked in vain.
            questions.recordUnanswered(about: proven.id, now: node.settings.clock())
            return .postponed(Self.tooManyQuestions)
        }
        outgoingLink.recordShown()
        let decision = await judged()
        if case .trusted = decision { prompt.release() }
        return decision
    }

    private static let tooManyQuestions = SessionError.unavailable(
        "the user was asked about too many peers within a minute; the session asks about this one later")
    /// The failure of an invitation that states that this node remembers the peer. The peer has restarted since, or its name is
    /// that of another one: the next attempt asks.
    private static let forgotten = SessionError.unavailable(
        "the session does not remember the peer's key any more; both users are asked at the next attempt")
    private static let questionElsewhere = SessionError.unavailable(
        "the user is being asked about the peer on another link, or has not answered in time; try again in a minute")
    private static func declinedKey(of id: PeerID) -> SessionError {
        .untrusted("the user has declined the key of \(id.hex)")
    }
    private static func declinedByUser(of id: PeerID) -> SessionError {
        .untrusted("the user of \(id.hex) has declined this machine's key")
    }
    private static let unconfirmedCode = "the short codes were not confirmed; the peer may be impersonating the one you invited"
    private static let unansweredQuestion =
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
        let invitation = node.makeInvitation(offer, from: peer, until: expiry, on: driver)
        follow(invitation.transfer, with: peer.id)
        open.insert(invitation, as: offer.id, known.shortCode)
        emit(invitation)
    }

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
            guard state.members.admit(peer, name: name, now: now) else {
                return .failure(state.members.roster.isRemoved(peer.fingerprint) ? Self.removed(peer) : .full)
            }
            if !state.members.hasChannel(to: peer.id) { addChannel(to: peer.id, &state) }
            if let expiry { state.members.roster.recordJoining(peer.id, until: expiry) }
            let added = state.members.addLink(to: peer.id) { channelLink in
                SessionLink(
                    peer: peer.id, driver: driver, remoteHost: link.remoteHost, localHost: link.localHost,
                    relay: (link as? RelayedLink)?.relay, isInitiator: isInitiator, expiry: expiry,
                    channelLink: channelLink, datagramTag: datagramTag, cipher: handshake.datagrams)
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
            state.members.recordJoinedLink(to: link.peer)
            state.members.updateReachability(of: link.peer, now: now)
            state.slow.recordLink(to: link.peer, now: now)
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
            return state.members.links.isEmpty && room == nil && !state.members.roster.isFounder
        }
        // One member alone cannot end the session: not while there are other links, in a room, or where this node is the founder.
        if isReplaced { return self.end(Self.replacedError) }
        // Another link may have to take over; updates that the old one did not carry are in the whole roster.
        let others = linksTo(link.peer)
        if link.relay == nil, let other = others.last(where: { $0.relay == nil }) {
            other.driver.send(state.withLock { $0.members.roster.rosterFrame })
        }
        for other in others { other.wake() }
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

    // MARK: Relays

    private func openRelay(to member: PeerID, through relay: PeerID) -> RelayedLink? {
        let links = completeLinksTo(relay)
        guard let link = links.first(where: { $0.relay == nil }) ?? links.last,
            let stream = link.driver.openStream(.relay, RelayName.to(member).streamName, with: relay)
        else { return nil }
        return RelayedLink(stream, to: member, through: relay)
    }

    private func handleRelay(_ stream: ByteStream, from link: SessionLink) {
        switch RelayName(stream.streamName) {
        case .to(let target)?:
            let path = RelayPath(origin: link.peer, target: target)
            guard target != link.peer, isMember(target), let next = completeLinksTo(target).first(where: { $0.relay == nil }),
                state.withLock({ $0.relays.begin(path) })
            else { return stream.refuse() }
            guard let onward = next.driver.openStream(.relay, RelayName.from(link.peer).streamName, with: target) else {
                state.withLock { $0.relays.end(path) }
                return stream.refuse()
            }
            node.start { [self] in
                await Self.relayBytes(between: stream, and: onward)
                state.withLock { $0.relays.end(path) }
            }
        case .from(let origin)?:
            guard origin != link.peer, isMember(origin) else { return stream.refuse() }
            let end = RelayedLink(stream, to: origin, through: link.peer)
            guard let slot = node.admit(member: origin, end) else { return stream.refuse() }
            node.start { [node] in
                await node.serve(end, slot, queues: nil, expecting: origin)
                node.release(slot)
            }
        case nil: stream.refuse()
        }
    }

    /// Moves bytes both ways; each direction waits for its reader.
    private static func relayBytes(between one: ByteStream, and other: ByteStream) async {
        await withDiscardingTaskGroup { group in
            for (source, target) in [(one, other), (other, one)] {
                group.addTask {
                    do {
                        for try await bytes in source { try await target.write(bytes) }
                        target.finish()
                    } catch {
                        source.cut()
                        target.cut()
                    }
                }
            }
        }
    }
}
