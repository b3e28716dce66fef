internal import Logging
public import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

extension Session {
    /// Invites a peer, and waits for the answer.
    /// - Parameters:
    ///   - context: bytes for the invited program: at most `SessionFrame.maximumContextByteCount`.
    ///   - secret: proven to the other side, not sent; see ``InvitationPolicy/secret(_:)``.
    ///   - timeout: time in which the other user can answer; 1 to 600 seconds.
    /// - Returns: the new member's identifier, once both sides agree.
    /// - Throws: ``SessionError``. Cancelling the task withdraws the invitation.
    public func invite(
        _ destination: PeerDestination, context: [UInt8] = [], secret: [UInt8]? = nil, timeout: Duration = .seconds(30)
    ) async throws(SessionError) -> PeerID {
        guard context.count <= SessionFrame.maximumContextByteCount else {
            throw .invalidParameter(
                "the context of the invitation has \(context.count) bytes; the limit is \(SessionFrame.maximumContextByteCount)"
            )
        }
        guard (.seconds(1)...SessionFrame.maximumTimeout).contains(.seconds(timeout.components.seconds)) else {
            throw .invalidParameter(
                "the timeout of an invitation must be 1 to \(SessionFrame.maximumTimeout.components.seconds) seconds")
        }
        let refusal: SessionError? = state.withLock { state in
            if state.isOver { return .left }
            guard state.roster.others.count + state.pendingInvitations + 1 < settings.memberLimit else { return .full }
            state.pendingInvitations += 1
            return nil
        }
        if let refusal { throw refusal }
        defer { state.withLock { $0.pendingInvitations -= 1 } }
        let link: any StreamLink
        do {
            link = try await node.connect(to: destination)
        } catch {
            throw SessionError(error)
        }
        let outcome = Promise<Result<PeerID, SessionError>>()
        let driver = node.makeDriver(link, .initiator)
        let invitation = SessionFrame.invite(
            id, timeout: .seconds(timeout.components.seconds), proof: [], context: context)
        let approach = OutgoingSessionLink(
            invitation: invitation, secret: secret, expected: destination.id, voucher: nil, outcome: outcome)
        node.start { await self.follow(driver, link, approach) }
        switch await Self.first(outcome, within: timeout + Self.answerGrace) {
        case .success(let id)?: return id
        case .failure(let error)?: throw error
        case nil:
            driver.send(.withdraw(id))
            driver.close(.done)
            throw Task.isCancelled ? .cancelled : .timedOut("the invitation was not answered in time")
        }
    }

    /// Waits for an event.
    /// - Returns: nil at the timeout, or when the task is cancelled.
    private static func first<Value>(_ event: Promise<Value>, within time: Duration) async -> Value? {
        await withTaskGroup(of: Value?.self) { group in
            group.addTask { await event.value }
            group.addTask {
                try? await Task.sleep(for: time)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
    }

    /// Additional time for the answer to arrive.
    private static var answerGrace: Duration { .seconds(2) }

    func isMember(_ id: PeerID) -> Bool { state.withLock { !$0.isOver && $0.roster.member(id) != nil } }

    // MARK: Outgoing links

    /// Connects to a member, directly or through a relay.
    func approach(_ approach: SessionRoster.ConnectionAttempt) async {
        let member = approach.member
        let link: (any StreamLink)?
        var voucher: PeerID?
        switch approach {
        case .connect:
            let addresses = member.addresses.map { LinkAddress(host: $0.host, port: $0.port) }
            link = try? await node.connect(to: PeerDestination(addresses: addresses, id: member.id, name: member.name))
        case .relay(_, let relay):
            link = openRelay(to: member.id, through: relay)
            voucher = relay
        }
        guard let link else { return failed(member.id) }
        let outcome = Promise<Result<PeerID, SessionError>>()
        let opening = OutgoingSessionLink(
            invitation: .invite(id, timeout: .seconds(10), proof: [], context: []), secret: nil, expected: member.id,
            voucher: voucher ?? anyOther(than: member.id), outcome: outcome)
        await follow(node.makeDriver(link, .initiator), link, opening)
        if case .success? = await Self.first(outcome, within: .zero) { return }
        failed(member.id)
    }

    /// A member that announced the peer vouches for its key.
    private func anyOther(than id: PeerID) -> PeerID? { state.withLock { $0.roster.others.first { $0.id != id }?.id } }

    private func failed(_ id: PeerID) {
        let now = node.settings.clock()
        change { $0.roster.recordFailure(of: id, now: now) }
    }

    /// Follows a link that was opened here, for an invitation or to a member, until it ends.
    private func follow(_ driver: LinkDriver, _ link: any StreamLink, _ approach: OutgoingSessionLink) async {
        let isOver = state.withLock { state in
            if !state.isOver { state.openings[ObjectIdentifier(driver)] = (driver, approach) }
            return state.isOver
        }
        if isOver {
            approach.outcome.fulfil(.failure(.left))
            driver.close(.goingAway)
        }
        defer { state.withLock { $0.openings[ObjectIdentifier(driver)] = nil } }
        await node.run(driver) { [self] in
            var known = LinkPeerInfo(link.remote)
            var open = OpenInvitations()
            for await event in driver.events {
                known.learn(from: event)
                switch event {
                case .established(let peer, let secrets):
                    if let objection = approach.objection(to: peer, at: link.remote, node.settings) {
                        approach.outcome.fulfil(.failure(objection))
                        driver.close(.goingAway)
                    } else {
                        driver.send(approach.frame(on: secrets))
                    }
                case .shortCode(let code):
                    open.shortCodeIsReady(code)
                    guard let peer = known.peer(node.settings) else { continue }
                    let check = IdentityCheck(peer: peer, shortCode: code, voucher: approach.voucher)
                    let acquaintance = known
                    node.start { [self] in
                        let isTrusted = await judge(check)
                        let early = approach.decided(isTrusted: isTrusted) {
                            self.join(driver, link, acquaintance, isInitiator: true)
                        }
                        guard isTrusted else { return give(up: driver, approach) }
                        // The link may have ended while a user was deciding.
                        if approach.isOver, let sessionLink = approach.link { lose(sessionLink) }
                        for (frame, sessionLink) in early { take(frame, from: sessionLink) }
                    }
                case .session(.accept(id)):
                    let acquaintance = known
                    let early = approach.accepted { self.join(driver, link, acquaintance, isInitiator: true) }
                    for (frame, sessionLink) in early { take(frame, from: sessionLink) }
                case .session(.refuse(id, let reason)):
                    approach.outcome.fulfil(.failure(SessionError(reason)))
                    driver.close(.done)
                case .session(let frame):
                    if let sessionLink = approach.link(orKeep: frame) { take(frame, from: sessionLink) }
                case .invited(let offer, let expiry):
                    take(offer, until: expiry, on: driver, known, &open, approach.link)
                case .invitationEnded(let id, let outcome): open.end(id, outcome)
                case .closed(let end):
                    open.endAll()
                    if let sessionLink = approach.end() { lose(sessionLink) }
                    approach.outcome.fulfil(.failure(SessionError(NodeError(end))))
                case .greeted, .comparisonAsked, .comparisonAnswered: break
                }
            }
        }
    }

    private func give(up driver: LinkDriver, _ approach: OutgoingSessionLink) {
        approach.outcome.fulfil(
            .failure(
                .untrusted("the short codes were not confirmed; the peer may be impersonating the one you invited")))
        driver.send(.withdraw(id))
        driver.close(.verificationFailed)
    }

    /// Handles an offer on an outgoing link. Only a member may offer there.
    func take(
        _ offer: TransferOffer, until expiry: MonotonicInstant, on driver: LinkDriver, _ known: LinkPeerInfo,
        _ open: inout OpenInvitations, _ link: SessionLink?
    ) {
        guard link != nil, let peer = known.peer(node.settings) else { return driver.decline(offer.id, because: .notAllowed) }
        let invitation = node.makeInvitation(offer, from: peer, until: expiry, on: driver)
        open.insert(invitation, as: offer.id, known.shortCode)
        emit(invitation)
    }

    // MARK: Joining

    /// Adds a link to the session.
    /// - Returns: nil when the session is full or over.
    func join(_ driver: LinkDriver, _ link: any StreamLink, _ known: LinkPeerInfo, isInitiator: Bool) -> SessionLink? {
        guard let peer = known.proven, let name = known.name, let secrets = known.secrets else { return nil }
        let now = node.settings.clock()
        let datagramTag = node.settings.randomInteger()
        let sessionLink: SessionLink? = change { state in
            guard !state.isOver else { return nil }
            let known = state.roster.member(peer.id)
            guard known != nil || !state.roster.isFull else { return nil }
            if known?.fingerprint != peer.fingerprint {
                state.roster.admit(SessionMember(fingerprint: peer.fingerprint, name: name), now: now)
            }
            var membership = state.members[peer.id] ?? makeMembership(for: peer.id, &state)
            let made = SessionLink(
                peer: peer.id, driver: driver, remote: link.remote, localHost: link.localHost,
                relay: (link as? RelayedLink)?.relay, isInitiator: isInitiator, channelLink: membership.channel.attach(),
                datagramTag: datagramTag, cipher: secrets.datagrams)
            membership.links.append(made)
            state.members[peer.id] = membership
            state.trusted[peer.id] = peer.fingerprint
            return made
        }
        guard let sessionLink else { return nil }
        driver.streams.welcome()
        node.start { await self.followStreams(of: sessionLink) }
        node.start {
            for await datagram in driver.datagrams { self.take(datagram: datagram, from: sessionLink.peer) }
        }
        if isInitiator {
            // Safe: the empty name is within the limit.
            guard let stream = driver.openStream(.messages, StreamName("")!) else {
                // The link ended in the meantime.
                lose(sessionLink)
                return nil
            }
            exchangeMessages(on: sessionLink, stream)
            ready(sessionLink)
        }
        return sessionLink
    }

    func makeMembership(for member: PeerID, _ state: inout State) -> Membership {
        noteTaken(&state)
        // A member that leaves and returns finds its window as full as before.
        let stale = inbox.elements.filter { $0.sender == member && $0.mode == .reliable }.map(\.message)
        // 0 means that no epoch is known.
        let life = node.settings.randomInteger() | 1
        return Membership(channel: MessageChannel(epoch: life, limits: settings.channel, stale: stale))
    }

    /// Completes the joining of a link: both ends accept streams and transfers on it.
    private func ready(_ link: SessionLink) {
        change { state in
            noteLinks(of: link.peer, &state)
            if link.relay == nil, let host = link.localHost, let port = node.listeningPort {
                let address = SessionMember.Address(host: host, port: port)
                state.addresses = Array(
                    ([address] + state.addresses.filter { $0 != address }).prefix(SessionMember.maximumAddressCount))
                state.roster.setAddresses(state.addresses)
            }
        }
        let roster = state.withLock { $0.roster.frame }
        link.driver.send(roster)
        if link.relay == nil, let datagrams {
            link.driver.send(.datagrams(id, port: datagrams.port, tag: link.datagramTag))
        }
    }

    /// Updates how a member is reached, from its current links.
    private func noteLinks(of member: PeerID, _ state: inout State) {
        let links = state.members[member]?.links ?? []
        if links.contains(where: { $0.relay == nil }) {
            state.roster.recordConnection(to: member, via: nil)
        } else if let relay = links.last?.relay {
            state.roster.recordConnection(to: member, via: relay)
        } else {
            state.roster.recordDisconnection(of: member, now: node.settings.clock())
        }
    }

    func lose(_ link: SessionLink) {
        change { state in
            guard state.members[link.peer]?.remove(link) == true else { return }
            noteLinks(of: link.peer, &state)
        }
        // Another link may have to take over.
        for other in linksTo(link.peer) { other.wake() }
    }

    func linksTo(_ member: PeerID) -> [SessionLink] { state.withLock { $0.members[member]?.links ?? [] } }

    /// Handles a session frame of a member.
    func take(_ frame: SessionFrame, from link: SessionLink) {
        let now = node.settings.clock()
        switch frame {
        case .roster(id, let members): change { $0.roster.receive(members, now: now) }
        case .leave(id):
            change { $0.roster.recordDeparture(of: link.peer, now: now) }
        case .datagrams(id, let port, let tag): datagrams?.learn(link, port: port, tag: tag)
        default: break
        }
    }

    // MARK: Streams

    /// Handles the streams that the peer opens.
    private func followStreams(of link: SessionLink) async {
        var hasMessages = link.isInitiator
        for await (streamID, purpose, name) in link.driver.streams.opened {
            let stream = ByteStream(streamID, name, link.driver.streams)
            switch purpose {
            case .bytes: emit(ReceivedStream(sender: link.peer, stream: stream))
            case .messages:
                guard !hasMessages else {
                    link.driver.violated(MalformedInput("session: a second message stream on one link"))
                    continue
                }
                hasMessages = true
                exchangeMessages(on: link, stream)
                ready(link)
            case .relay: takeRelay(stream, from: link)
            }
        }
    }

    // MARK: Relays

    private func openRelay(to member: PeerID, through relay: PeerID) -> RelayedLink? {
        guard let link = linksTo(relay).first(where: { $0.relay == nil }) ?? linksTo(relay).last,
            let stream = link.driver.openStream(.relay, RelayName.to(member).streamName)
        else { return nil }
        return RelayedLink(stream, to: member, through: relay)
    }

    private func takeRelay(_ stream: ByteStream, from link: SessionLink) {
        switch RelayName(stream.name) {
        case .to(let target)?:
            guard target != link.peer, isMember(target), let next = linksTo(target).first(where: { $0.relay == nil }),
                let onward = next.driver.openStream(.relay, RelayName.from(link.peer).streamName)
            else { return stream.refuse() }
            node.start { await Self.carry(stream, onward) }
        case .from(let origin)?:
            guard isMember(origin) else { return stream.refuse() }
            let end = RelayedLink(stream, to: origin, through: link.peer)
            node.start { await self.node.serve(end) }
        case nil: stream.refuse()
        }
    }

    /// Moves bytes both ways; each direction waits for its reader.
    private static func carry(_ one: ByteStream, _ other: ByteStream) async {
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

/// The name of a relay stream: its receiver on the way to the relay, its sender on the way from it.
enum RelayName {
    case to(PeerID)
    case from(PeerID)

    init?(_ name: StreamName) {
        let parts = name.text.split(separator: " ")
        guard parts.count == 2, let id = PeerID(hex: String(parts[1])) else { return nil }
        switch parts[0] {
        case "to": self = .to(id)
        case "from": self = .from(id)
        default: return nil
        }
    }

    var streamName: StreamName {
        // Safe: a direction and 16 hexadecimal digits are within the limit.
        switch self {
        case .to(let id): StreamName("to \(id.hex)")!  // Safe: see above.
        case .from(let id): StreamName("from \(id.hex)")!  // Safe: see above.
        }
    }
}

/// An outgoing link that is about to join a session: it joins once the peer has accepted and its key is trusted here, in either
/// order.
final class OutgoingSessionLink: Sendable {
    private struct State {
        var isAccepted = false
        var isTrusted: Bool?
        /// Set by the first thread that sees both decisions.
        var isJoining = false
        var isOver = false
        var link: SessionLink?
        /// Frames received between the peer's acceptance and ours.
        var early: [SessionFrame] = []
    }

    private let invitation: SessionFrame
    private let secret: [UInt8]?
    private let expected: PeerID?
    let voucher: PeerID?
    let outcome: Promise<Result<PeerID, SessionError>>
    private let state = Mutex(State())
    private static let maximumEarlyCount = 16

    init(
        invitation: SessionFrame, secret: [UInt8]?, expected: PeerID?, voucher: PeerID?,
        outcome: Promise<Result<PeerID, SessionError>>
    ) {
        self.invitation = invitation
        self.secret = secret
        self.expected = expected
        self.voucher = voucher
        self.outcome = outcome
    }

    func objection(to peer: AuthenticatedPeer, at address: LinkAddress, _ settings: NodeSettings) -> SessionError? {
        if let expected, peer.id != expected {
            return .untrusted(
                "the peer at \(address) is \(peer.id.hex), not \(expected.hex) as expected")
        }
        return settings.trustStatus(peer, nil).isBlocked ? SessionError(NodeError.blocked(peer.id.hex)) : nil
    }

    func frame(on secrets: LinkSecrets) -> SessionFrame {
        guard let secret, case .invite(let id, let timeout, _, let context) = invitation else { return invitation }
        return .invite(
            id, timeout: timeout, proof: SessionSecret.proof(of: secret, on: secrets.handshakeHash), context: context)
    }

    var link: SessionLink? { state.withLock { $0.link } }

    var isOver: Bool { state.withLock { $0.isOver } }

    /// Records that the link has ended.
    func end() -> SessionLink? {
        state.withLock { state in
            state.isOver = true
            return state.link
        }
    }

    func link(orKeep frame: SessionFrame) -> SessionLink? {
        state.withLock { state in
            if state.link == nil, state.isAccepted, state.early.count < Self.maximumEarlyCount { state.early.append(frame) }
            return state.link
        }
    }

    func accepted(_ join: () -> SessionLink?) -> [(SessionFrame, SessionLink)] {
        state.withLock { $0.isAccepted = true }
        return proceed(join)
    }

    func decided(isTrusted: Bool, _ join: () -> SessionLink?) -> [(SessionFrame, SessionLink)] {
        state.withLock { $0.isTrusted = isTrusted }
        return proceed(join)
    }

    private func proceed(_ join: () -> SessionLink?) -> [(SessionFrame, SessionLink)] {
        let isTurn = state.withLock { state in
            guard state.isAccepted, state.isTrusted == true, !state.isJoining, !state.isOver else { return false }
            state.isJoining = true
            return true
        }
        guard isTurn else { return [] }
        guard let link = join() else {
            outcome.fulfil(.failure(.full))
            return []
        }
        outcome.fulfil(.success(link.peer))
        return state.withLock { state in
            state.link = link
            defer { state.early = [] }
            return state.early.map { ($0, link) }
        }
    }
}
