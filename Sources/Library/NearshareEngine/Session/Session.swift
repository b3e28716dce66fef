internal import Logging
public import NearshareBase
internal import NearshareCrypto
public import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

/// A session of several programs, each of which knows the members and sends messages, byte streams and resources to them. A
/// member that cannot be reached directly is reached through another member, encrypted from end to end
/// (`docs/PROTOCOL.md`, section 12).
///
///     not in it ──start, accept──► in it ──leave, node ends──► over
///
/// Made by ``Node/startSession(_:)``, ``SessionInvitation/accept(_:asksTrust:)`` and
/// ``Node/join(_:for:admission:settings:)``. It ends when the node leaves it or stops.
///
/// Each of its sequences has one reader at a time. A reader that is cancelled ends its own sequence only: another one that reads
/// the property again gets what is unread, and what comes after it.
///
/// Lock order: the removal, the state, then the inbox and the events; see `docs/architecture/locks.md`.
public final class Session: Sendable {
    /// Delivery guarantee of a message.
    public enum DeliveryMode: Sendable, Hashable {
        /// Delivered in the order in which one member sends to another, exactly once, also across a lost link: at most 1 MiB.
        /// Urgent messages have an order of their own, before others that wait. Sending waits while the receiver's window is full:
        /// 2 MiB or 4096 messages that its program has not read.
        case reliable
        /// Delivered at once or not at all, in any order, ahead of other traffic: at most 1200 bytes, of which a receiver keeps 1024
        /// messages that its program has not read.
        case unreliable
    }

    /// A message from another member.
    public struct ReceivedMessage: Sendable, Hashable {
        /// The member that sent it, identified by its proven key.
        public let sender: PeerID
        /// The content, as the sender's program made it.
        public let message: SessionMessage
        /// The delivery guarantee that the sender chose.
        package let mode: DeliveryMode
        /// The message's position among the sender's reliable ones.
        var position: MessageChannel.Position?
    }

    /// Another member of the session, as seen from this node.
    public struct Member: Sendable, Hashable {
        /// The identifier that the session's functions take.
        public let id: PeerID
        /// SHA-256 of the member's key.
        public let fingerprint: Fingerprint
        /// The name that the member claims.
        public let name: DisplayName
        /// Whether and how the member is reached now.
        public let state: MemberState
        /// The members to which this one has direct links, as it announces them: those that ``SessionSettings/topology`` requires
        /// and that could be opened, and perhaps others for a while.
        public let neighbours: [PeerID]
        /// Reliable messages to the member that its program has not read.
        public let unacknowledgedMessages: Int
        /// The bytes of the unacknowledged messages, plus 64 for each.
        public let unacknowledgedBytes: Int
        /// The bytes among the unacknowledged ones that wait here, because no link has carried them yet; 64 for each message included.
        public let queuedBytes: Int
        /// The value that the member has set with ``Session/setMetadata(_:)``; nil for none. It is untrusted, like the name.
        public let metadata: StructuredValue?
        /// The round-trip time of the link to the member, measured when the link has joined the session, and every four seconds
        /// after that, whatever else it carries; nil before that. What waits before the measuring ping is part of it.
        public fileprivate(set) var roundTripTime: Duration?
        /// The fraction of the member's latest 1024 UDP packets that were lost on their way to this node, 0 to 1; nil where none
        /// arrive, such as through a relay. They carry ``DeliveryMode/unreliable`` messages.
        public fileprivate(set) var packetLoss: Double?
    }

    /// A change of the members, or of how a member is reached. All changes are in the order in which this node learns them: for
    /// each member ``joined(_:)`` first, ``left(_:lost:)`` last, and its state before its messages over a new link.
    public enum Change: Sendable, Hashable {
        /// A member has joined: this end has agreed. The user of the member may have yet to agree. Until then the member is not
        /// connected, and it leaves when that user declines. In a room with ``RoomAdmission/ask``, both users have agreed, unless the
        /// peer is of an earlier version. A member that was removed because it was out of reach, and is back, joins again without
        /// an invitation.
        case joined(Member)
        /// A member is reached otherwise than before.
        case state(PeerID, MemberState)
        /// The member's program has restarted without its state: the count is of reliable messages that it had not read, and that
        /// are lost. It is reported before all messages of the restarted program, and after the change of state that its link has
        /// caused; where the loss of the earlier program's link was not noticed, there is no such change of state. It is reported
        /// also for a member that had removed this node, because it was out of reach, and has admitted it again.
        case restarted(PeerID, lost: Int)
        /// A member has set its metadata. Of several changes that were not read, only the latest is reported.
        case metadata(PeerID, StructuredValue?)
        /// The member is connected, messages to it are unread, and for two seconds its program has read none of them. A link that
        /// delivers nothing for so long looks the same. It is reported once, until the member reads again;
        /// see ``SessionSettings/slowMembers``.
        case slow(PeerID)
        /// A member has left, was out of reach for longer than ``SessionSettings/timeout``, or was removed. The count is of
        /// reliable messages that it had not acknowledged, and that are lost.
        case left(PeerID, lost: Int)
    }

    /// An event of the session, of any kind.
    public enum Event: Sendable {
        /// A message from another member. A reliable one is acknowledged now that it is read.
        case message(ReceivedMessage)
        /// A change of the members, or of how a member is reached.
        case change(Change)
        /// A byte stream opened by another member.
        case stream(ByteStream)
        /// An offer of a member. An invitation released unanswered is declined.
        case resource(Invitation)
        /// The end of a transfer, in either direction, reported once; its result no longer has to be waited for. A transfer that is
        /// cut by the end of the session is reported at that moment, and its result follows at once.
        case transferEnded(Transfer, with: PeerID)
        /// A key that the user has to decide about.
        case question(IdentityQuestion)
    }

    /// Content that was handed over, and that a member had not received when this node left, or when the member itself had gone
    /// before: by leaving, by its removal, or by the end of its node. Of members that are gone, the latest 64 are counted.
    public struct Undelivered: Sendable, Hashable {
        /// The member that did not receive it.
        public let member: PeerID
        /// Reliable messages that the member's program had not read, those of ``Change/left(_:lost:)`` and
        /// ``Change/restarted(_:lost:)`` included.
        public let messages: Int
        /// Byte streams of which some written bytes were not sent, or not known to have arrived at the member's node, when this node
        /// left or their link ended; streams to which the program was still writing included. It may be too high, and not too low: a
        /// link can end before the confirmation of what has arrived. Bytes count as arrived before the member's program has read
        /// them. Streams that were reset do not count.
        public let streams: Int
        /// Transfers that had not ended, in either direction, and offers and transfers to the member that ended with its link, if it
        /// was not connected again since. They were cut, and can be resumed.
        public let transfers: Int
    }

    struct State {
        var members: SessionMembers
        var transfers = SessionTransfers()
        var outgoing = OutgoingSessionLinks()
        var relays = ForwardedRelays()
        /// Members to which this node is opening a link for which both users are asked: over one link at a time.
        var renewals: Set<PeerID> = []
        var slow = SlowMembers()
        /// The service types under which discovery looks for members.
        var browsedServices: Set<ServiceType> = []
        /// The latest time to report received messages to their senders.
        var acknowledgements: MonotonicInstant?
        /// Tasks that wait for receipts.
        var receiptWaiterCount = 0
        /// This node is leaving: what was handed over is delivered, and nothing else is accepted.
        var isLeaving = false
        /// The last link has ended because, by its other end, another program with this node's key has joined.
        var isReplaced = false
        /// Another program advertises the room with this node's id.
        var isKeyShared = false
        /// Content that members had not received when this node went; nil before that.
        var undelivered: [Undelivered]?
        /// The reason why the session is over.
        var end: SessionError?

        var isOver: Bool { end != nil }
        /// The error of an operation that begins now; nil while the session accepts it.
        var refusal: SessionError? { end ?? (isLeaving ? .left : nil) }
    }

    /// Limit on an unreliable message: one packet on every network.
    package static let maximumUnreliableByteCount = 1200

    /// The session's identifier, common to all members.
    package let id: SessionID
    /// Changes of the members and of how they are reached, for one reader, until the session is over. Beyond 4096 unread changes
    /// the oldest are dropped; ``members`` is always current.
    public var changes: AsyncStream<Change> { eventQueues.changes.stream }
    /// Byte streams opened by other members, for one reader, until the session is over. Beyond 256 unread streams further ones are
    /// reset.
    public var streams: AsyncStream<ByteStream> { eventQueues.streams.stream }
    /// Offers of members, for one reader, until the session is over. An invitation released unanswered is declined, and so are those
    /// beyond 256 unread ones.
    public var resources: AsyncStream<Invitation> { eventQueues.resources.stream }
    /// Keys that the user has to decide about, for one reader; see ``TrustPolicy/askAtFirstMeeting``. A question that is over
    /// before it was read stays in the sequence; ``IdentityQuestion/ended`` returns at once then. A program that reads neither this
    /// sequence nor ``events`` trusts none of them: their invitations fail with ``SessionError/untrusted(_:)`` at their
    /// timeout.
    public var identityQuestions: AsyncStream<IdentityQuestion> { eventQueues.questions.stream }

    let node: Node
    let settings: SessionSettings
    /// The room that makes the identifier; nil for a session to which members are invited.
    let room: Room?
    let state: Mutex<State>
    /// Locked before ``state``, while this node removes a member.
    let removal = Mutex(())
    /// Locked from the check that there is room for an offer at all its members until it is made: calls at the same time must not
    /// exceed the limit.
    let offers = Mutex(())
    /// Locked after ``state`` where both are needed.
    let inbox = SessionInbox()
    /// Wakes tasks that wait for room in a window, or for a delivery.
    let progress = AsyncCondition()
    /// Wakes the tasks that invite peers into the room. Not ``progress``: each acknowledgement would wake them all.
    let memberChange = AsyncCondition()
    private let endEvent = Promise<SessionError>()
    /// The claim of the node's key for sessions of this process; nil once the session is over.
    private let claim: Mutex<(any Sendable)?>
    let timer = SessionTimer()
    let datagrams: SessionDatagrams?
    let eventQueues: SessionEvents
    /// The peers about which the user is asked, on one link each.
    let questions: SessionQuestions

    init(
        _ id: SessionID, _ settings: SessionSettings, _ node: Node, founder: SessionFounder? = nil, room: Room? = nil,
        claim: (any Sendable)? = nil
    ) {
        self.claim = Mutex(claim)
        self.id = id
        self.room = room
        self.settings = settings
        self.node = node
        let identity = node.settings.identity
        let own = SessionMember(fingerprint: identity.fingerprint, name: node.settings.name)
        let roster = SessionRoster(id: id, own: own, founder: founder, settings: settings.rosterSettings)
        state = Mutex(State(members: SessionMembers(roster)))
        questions = SessionQuestions(own: node.id)
        datagrams = SessionDatagrams(node.settings)
        eventQueues = SessionEvents(inbox)
    }

    /// All events of the session in the order of arrival, for one reader, until the session is over: messages, and what
    /// ``changes``, ``streams``, ``resources`` and ``identityQuestions`` report. A program reads either this sequence or those:
    /// each event has one reader.
    ///
    /// Unread events are bounded. Senders of reliable messages wait. The oldest of 4096 changes and of 256 ends of transfers are
    /// dropped. Beyond 256 of a kind, streams are reset, offers are declined, and questions are answered with no.
    public var events: AsyncStream<Event> {
        AsyncStream(unfolding: { [self] in
            let event = await eventQueues.next()
            if case .message(let received) = event { recordDelivery(of: received) }
            return event
        })
    }

    /// Messages from other members, for one reader, until the session is over: reliable ones in the order of each sender, unreliable
    /// ones on arrival; those of different members in no order. A reliable message is acknowledged when it is read from this
    /// sequence; while too many are unread, their sender waits.
    public var messages: AsyncStream<ReceivedMessage> {
        AsyncStream(unfolding: { [self] in
            guard let received = await inbox.dequeue() else { return nil }
            recordDelivery(of: received)
            return received
        })
    }

    /// The other members, in the order of their identifiers; empty once the session is over.
    public var members: [Member] {
        let members = state.withLock { state in
            guard !state.isOver else { return [] as [(Member, [SessionLink])] }
            return state.members.roster.others.map { (Member($0, in: state.members), state.members.links(to: $0.id)) }
        }
        // Without the session's lock, which threads take that have locked the machine of a link.
        return members.map { member, links in
            guard let link = links.last(where: { $0.relay == nil }) ?? links.last else { return member }
            var member = member
            member.roundTripTime = link.driver.roundTripTime
            member.packetLoss = link.datagramPath.withLock { $0.cipher.packetLoss }
            return member
        }
    }

    /// The member that has started the session, and may remove others. The node that has started it knows it at once; on others
    /// it is nil until they are connected to a member that knows it, a moment after they have joined. Always nil in a room.
    /// It stays the same when the founder has left, and when the session is over.
    public var founder: PeerID? { state.withLock { $0.members.roster.founder?.fingerprint.peerID } }

    /// Sets what this node tells all other members about itself, those that join later included, as ``Member/metadata``. The
    /// latest value counts: it arrives whatever the programs of the others leave unread, and values before it may not be seen.
    /// Members older than this version ignore it.
    /// - Parameter value: at most 1024 bytes when encoded; a value that encodes as null for none, such as `Card?.none`.
    /// - Throws: `EncodingError` for a value that cannot be encoded, and errors that its type throws;
    ///   ``SessionError/invalidParameter(_:)`` for a too large one; the reason of ``ended`` once the session is over, and
    ///   ``SessionError/left`` while this node leaves.
    public func setMetadata(_ value: some Encodable) throws {
        let encoded = try StructuredValue.encoding(of: value)
        guard encoded.count <= SessionMember.maximumMetadataByteCount else {
            throw SessionError.invalidParameter(
                "the metadata has \(encoded.count) bytes; the limit is \(SessionMember.maximumMetadataByteCount)")
        }
        let refusal = update { state in
            if state.refusal == nil { state.members.setOwnMetadata(encoded) }
            return state.refusal
        }
        if let refusal { throw refusal }
    }

    // MARK: Lifecycle

    /// Waits until the session is over, and returns the reason; nil only when the task is cancelled first.
    ///
    /// - ``SessionError/removed``: the founder has removed this node.
    /// - ``SessionError/full``: more peers than the limit have joined at the same moment, and this node was among the last; or the
    ///   inviting peer had no room for it any more.
    /// - ``SessionError/unavailable(_:)``: the inviting peer has withdrawn the invitation after this node had accepted it; or another
    ///   program with the same key has taken the place of this one in the session.
    /// - ``SessionError/left``: this node has left the session, or has stopped.
    public var ended: SessionError? {
        get async { await endEvent.value }
    }

    /// Runs until the session is over.
    func run() async {
        await withDiscardingTaskGroup { group in
            do throws(ThreadError) {
                let timer = try BlockingThread.start { self.runTimer() }
                group.addTask { await timer.join() }
            } catch {
                // Without the timer, lost members are not detected and reconnections are not attempted.
                node.settings.log.error("session: \(error)")
                return end()
            }
            guard let datagrams else { return }
            do throws(ThreadError) {
                let receiver = try BlockingThread.start { datagrams.receiveLoop { self.receive(packet: $0, tag: $1) } }
                group.addTask { await receiver.join() }
            } catch {
                // Then no probe is answered, and unreliable messages go over the links.
                node.settings.log.info("no packets for unreliable messages: \(error)")
            }
        }
    }

    /// Ends the session at once.
    func end(_ reason: SessionError = .left) {
        let (links, openings, reason, cutTransfers) = state.withLock { state in
            // Before the links and transfers are removed.
            state.recordUndelivered()
            let reason = state.end ?? reason
            state.end = reason
            return (state.members.removeLinks(), state.outgoing.removeAll(), reason, state.transfers.removeRunning())
        }
        for (driver, outgoingLink) in openings where outgoingLink.link == nil {
            // One that is joining tells its outcome itself.
            if !outgoingLink.isAgreed { outgoingLink.outcome.fulfil(.failure(reason)) }
            driver.send(.withdraw(id))
            driver.close(.goingAway)
        }
        for link in links {
            // At once: the link's thread closes it a moment later, when the last frames are sent.
            link.driver.streams.endWriting()
            link.driver.close(.goingAway)
        }
        timer.stop()
        datagrams?.close()
        inbox.finish()
        // Before the transfers have ended: once the queues are finished, no event is added.
        for entry in cutTransfers { eventQueues.emit(entry, to: eventQueues.endedTransfers) }
        eventQueues.finish()
        progress.notifyAll()
        memberChange.notifyAll()
        endEvent.fulfil(reason)
        node.forget(self)
        // The claim of a room is released when the room's advertisement is withdrawn.
        if room == nil { releaseClaim() }
    }

    /// Releases the claim of the node's key. The session is over.
    func releaseClaim() {
        // Outside of the lock.
        _ = claim.withLock { $0.take() }
    }

    var links: [SessionLink] { state.withLock { $0.members.links } }

    // MARK: Changes

    /// Updates the members and how they are reached, and reports the changes to the program and to the members.
    @discardableResult
    func update<Result>(_ body: (inout State) -> Result) -> Result {
        // Deadlines may have changed.
        defer { timer.wake() }
        return updateFromTimer(body)
    }

    /// The form of ``update(_:)`` for the thread that waits for the deadlines.
    private func updateFromTimer<Result>(_ body: (inout State) -> Result) -> Result {
        let now = node.settings.clock()
        let (result, consequences) = state.withLock { state in
            let result = body(&state)
            return (result, state.drainConsequences(now: now))
        }
        for change in consequences.changes { emit(change) }
        for (link, frame) in consequences.frames { link.driver.send(frame) }
        for link in consequences.closingLinks { link.driver.close(.done) }
        for link in consequences.dueLinks { link.wake() }
        if consequences.isAttemptDue { timer.wake() }
        if !consequences.changes.isEmpty {
            progress.notifyAll()
            memberChange.notifyAll()
        }
        if consequences.isSurplus { stepBack() }
        return result
    }

    /// Leaves the other members, because there are more peers than the limit (`docs/PROTOCOL.md`, section 12.1). In a room, this node
    /// joins again once another member has left.
    func stepBack() {
        node.settings.log.info("session: leaving the other members: there are more peers than the limit")
        announceLeave()
        guard room != nil else { return end(.full) }
        update { $0.members.roster.stepBack() }
    }

    /// Decides whether a peer's key is trusted, by the policy or the user.
    /// - Parameter asksAgain: whether the user is asked about a key that was answered before in this session, because the program
    ///   has invited the peer.
    func evaluate(_ check: IdentityCheck, asksAgain: Bool = false) async -> Bool {
        guard let proven = check.peer.proven else { return false }
        if state.withLock({ $0.members.isMemberKey(of: proven) }) { return true }
        guard let verdict = await settings.trust.evaluate(check) else { return false }
        switch verdict {
        case .trusted:
            if check.voucher == nil { state.withLock { $0.members.recordAgreement(to: proven.fingerprint) } }
            return true
        case .untrusted: return false
        case .ask(let user):
            if !asksAgain {
                if state.withLock({ $0.members.hasAccepted(proven.fingerprint) }) { return true }
                if hasDeclined(check.peer) { return false }
            }
            guard let isSame = await answer(to: check, by: user) else { return false }
            state.withLock { state in
                if isSame {
                    state.members.recordAgreement(to: proven.fingerprint)
                } else {
                    state.members.recordDecline(of: proven.fingerprint)
                }
            }
            return isSame
        }
    }

    /// Asks the user about a key.
    /// - Returns: nil when the answer is no longer needed.
    private func answer(to check: IdentityCheck, by user: (@Sendable (IdentityCheck) async -> Bool)?) async -> Bool? {
        if let user {
            let isSame = await untilCancelled { await user(check) }
            return Task.isCancelled ? nil : isSame
        }
        let outcome = IdentityQuestion.Outcome()
        eventQueues.emit(IdentityQuestion(check, outcome), to: eventQueues.questions)
        let isSame: Bool? = await firstResult(
            of: { await outcome.answer.value },
            { () -> Bool? in
                // The program may keep the question for longer than the session.
                _ = await self.ended
                return nil
            })
        return isSame ?? outcome.end(Self.endedQuestion)
    }

    private static let endedQuestion = SessionError.unavailable(
        "the question is over: the other user has declined, the time for an answer has passed, or the link is lost")

    /// Whether the user may be asked about keys, so that both ends state in an invitation whether they remember the other one.
    var asksUser: Bool { room.map { $0.admission == .ask } ?? settings.trust.asksUser }

    /// Whether this node joins with a member again without asking its user.
    func remembers(_ fingerprint: Fingerprint) -> Bool { state.withLock { $0.members.remembers(fingerprint) } }

    /// Forgets which member vouches for a peer's key where the user knows the peer's name with another key: the user is asked then.
    /// - Parameter name: nil for the name in the roster.
    func forgetVoucherOnNameClash(of peer: AuthenticatedPeer, named name: DisplayName? = nil) {
        let known = state.withLock { state in
            state.members.roster.announcer(of: peer.id).flatMap { _ in name ?? state.members.roster.member(peer.id)?.name }
        }
        guard settings.trust.asksUser, let known, case .nameClash = node.settings.trustStatus(peer, known) else { return }
        let now = node.settings.clock()
        state.withLock { $0.members.roster.forgetAnnouncer(of: peer.id, now: now) }
    }

    /// Forgets the answers for a peer's key, because the peer has forgotten its answers: both users are asked.
    func forget(_ fingerprint: Fingerprint) {
        let now = node.settings.clock()
        state.withLock { $0.members.forget(fingerprint, now: now) }
    }

    /// Whether the user has declined the key of a peer in this session, and has not met it elsewhere since.
    func hasDeclined(_ peer: Peer) -> Bool {
        if case .known = peer.trustStatus { return false }
        return state.withLock { $0.members.hasDeclined(peer.fingerprint) }
    }

    func emit(_ change: Change) { eventQueues.emit(change, to: eventQueues.changes) }

    /// Reports the metadata of a member in place of what was reported of it and not read.
    func emitMetadata(of id: PeerID) {
        // Under the lock: of two threads, the one with the older value must not be the last.
        state.withLock { state in
            eventQueues.emit(.metadata(id, state.members.metadata(of: id)), to: eventQueues.changes) { change in
                if case .metadata(id, _) = change { true } else { false }
            }
        }
    }

    func emit(_ invitation: Invitation) { eventQueues.emit(invitation, to: eventQueues.resources) }

    func emit(_ stream: ByteStream) { eventQueues.emit(stream, to: eventQueues.streams) }

    /// Records a transfer, and reports its end.
    func follow(_ transfer: Transfer, with member: PeerID) {
        state.withLock { $0.transfers.append(transfer, with: member) }
        // Weak: an unread offer, which never ends, is among the events.
        transfer.onEnd { [weak self] transfer in
            guard let self, self.state.withLock({ $0.transfers.remove(transfer) }) else { return }
            self.eventQueues.emit((member: member, transfer: transfer), to: self.eventQueues.endedTransfers)
        }
    }

    // MARK: Time

    private func runTimer() {
        var idleRelays = IdleRelays()
        while true {
            timer.reset()
            let now = node.settings.clock()
            let attempts: [SessionRoster.ConnectionAttempt] = updateFromTimer { state in
                state.members.roster.advance(to: now)
                let attempts = state.members.roster.dueAttempts(now: now)
                for attempt in attempts {
                    state.members.roster.recordAttempt(to: attempt.member.id, through: attempt.relay)
                }
                return attempts
            }
            for attempt in attempts { node.start { await self.perform(attempt) } }
            closeIdleRelays(&idleRelays, now: now)
            sendDueAcknowledgements(now: now)
            dropExpiredMessages(now: now)
            reportSlowMembers(now: now)
            let idleCheck = hasIdleRelayLinks ? now + Self.idleCheckInterval : nil
            let wake = state.withLock {
                [
                    $0.members.roster.deadline(after: now), $0.acknowledgements, $0.members.nextExpiry, $0.slow.deadline,
                    idleCheck,
                ].compactMap { $0 }.min()
            }
            if timer.wait(until: wake) == .stopped { return }
        }
    }

    /// Relayed links to members that have a direct link by now.
    private var idleRelayLinks: [SessionLink] {
        state.withLock { $0.members.idleRelayCandidates(of: node.id) }
    }

    private var hasIdleRelayLinks: Bool { !idleRelayLinks.isEmpty }

    private func closeIdleRelays(_ idleRelays: inout IdleRelays, now: MonotonicInstant) {
        let links = idleRelayLinks
        let uses: [(ObjectIdentifier, IdleRelays.Use)] = links.map { link in
            (ObjectIdentifier(link), link.driver.isIdle ? link.driver.streams.use : .open)
        }
        let dueLinks = idleRelays.dueLinks(among: Dictionary(uses) { first, _ in first }, now: now)
        for link in links where dueLinks.contains(ObjectIdentifier(link)) { link.driver.close(.done) }
    }

    /// The time between two looks at relayed links beside a direct one that are in use.
    ///
    /// Timed: streams, offers and transfers of a link end on several threads, and none of them signals that it was the last.
    private static let idleCheckInterval = Duration.milliseconds(500)
}

extension Session.Member {
    init(_ member: SessionMember, in members: SessionMembers) {
        self.init(
            id: member.id, fingerprint: member.fingerprint, name: member.name, state: members.roster.state(of: member.id),
            neighbours: member.neighbours.filter { members.roster.member($0) != nil },
            unacknowledgedMessages: members.unacknowledgedCount(of: member.id),
            unacknowledgedBytes: members.unacknowledgedByteCount(of: member.id),
            queuedBytes: members.queuedByteCount(of: member.id), metadata: members.metadata(of: member.id))
    }
}

/// The work that an update of a session's state causes, to be done without the lock.
private struct SessionConsequences {
    let changes: [Session.Change]
    /// News for other members, with the links over which they are sent.
    let frames: [(link: SessionLink, frame: SessionFrame)]
    /// The links to members that have left.
    let closingLinks: [SessionLink]
    /// The links whose message stream has frames to send.
    let dueLinks: [SessionLink]
    /// Whether a connection attempt may be due.
    let isAttemptDue: Bool
    /// Whether there are more peers than the limit, and this node is one of the last.
    let isSurplus: Bool
}

extension Session.State {
    fileprivate mutating func drainConsequences(now: MonotonicInstant) -> SessionConsequences {
        let (changes, closingLinks) = members.drainChanges()
        for case .left(let id, _) in changes { slow.remove(id) }
        let (dueLinks, isAttemptDue) = members.sendMetadata()
        return SessionConsequences(
            changes: changes, frames: members.drainUpdates(now: now), closingLinks: closingLinks, dueLinks: dueLinks,
            isAttemptDue: isAttemptDue, isSurplus: members.roster.isSurplus(now: now))
    }
}
