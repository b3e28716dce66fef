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
/// Made by ``Node/startSession(_:)`` and ``SessionInvitation/accept(_:asksTrust:)``. It ends when the node leaves it or stops.
///
/// Lock order: the state, then the messages taken by the program, then the queue of received messages.
public final class Session: Sendable {
    /// Delivery guarantee of a message.
    public enum DeliveryMode: Sendable, Hashable {
        /// Delivered in order, exactly once, also across a lost link. Sending waits while the receiver does not read.
        case reliable
        /// Delivered at once or not at all, ahead of other traffic: at most 1200 bytes.
        case unreliable
    }

    /// A message from another member.
    public struct ReceivedMessage: Sendable, Hashable {
        /// The member that sent it, identified by its proven key.
        public let sender: PeerID
        /// The content, as the sender's program made it.
        public let message: SessionMessage
        /// The delivery guarantee that the sender chose.
        public let mode: DeliveryMode
    }

    /// A byte stream opened by another member.
    public struct ReceivedStream: Sendable {
        /// The member that opened it.
        public let sender: PeerID
        /// The stream, for reading and writing.
        public let stream: ByteStream
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
    }

    /// A change of the members, or of how a member is reached.
    public enum Change: Sendable, Hashable {
        /// A member has joined.
        case joined(Member)
        /// A member is reached otherwise than before.
        case state(PeerID, MemberState)
        /// The member's program has restarted without its state: the count is of reliable messages that it had not
        /// acknowledged, and that are lost.
        case restarted(PeerID, lost: Int)
        /// A member has left, was out of reach for longer than ``SessionSettings/timeout``, or was removed. Messages that it
        /// had not acknowledged are lost.
        case left(PeerID)
    }

    struct Membership {
        var channel: MessageChannel
        /// In the order in which they were opened.
        var links: [SessionLink] = []

        /// - Returns: links over which the message may go, and whether it is the only one in transit; nil while the window is
        ///   full.
        mutating func take(_ message: SessionMessage) -> (links: [SessionLink], isAlone: Bool)? {
            guard channel.hasRoom else { return nil }
            channel.append(message)
            return (links, channel.isQuiet)
        }

        /// Links with frames of the channel to send.
        var dueLinks: [SessionLink] { links.filter { channel.hasFrame(for: $0.channelLink) } }

        /// Removes a link that has ended.
        /// - Returns: false when the link is not one of the member's.
        mutating func remove(_ link: SessionLink) -> Bool {
            guard let index = links.firstIndex(where: { $0 === link }) else { return false }
            links.remove(at: index)
            channel.detach(link.channelLink)
            return true
        }

        /// Encodes frames that are due on a link.
        /// - Parameter byteCount: stops after this many bytes.
        mutating func nextBatch(for link: MessageChannel.LinkID, byteCount: Int) -> [UInt8] {
            var batch: [UInt8] = []
            while batch.count < byteCount, let frame = channel.nextFrame(for: link) {
                MessageFraming.append(frame, to: &batch)
            }
            return batch
        }

        /// The results of received frames.
        struct Arrival {
            var messages: [ReceivedMessage] = []
            /// The peer has restarted without its state: the number of our messages that are lost.
            var lostCount: Int?
            /// The peer violated the protocol; messages before that are delivered.
            var failure: MalformedInput?
            /// The channel has frames to send on the link.
            var hasFrames = false
            /// Messages can be appended again, or all were acknowledged.
            var makesRoom = false
        }

        mutating func receive(_ frames: [[UInt8]], on link: SessionLink) -> Arrival {
            let hadRoom = channel.hasRoom
            var arrival = Arrival()
            arrival.messages.reserveCapacity(frames.count)
            do throws(MalformedInput) {
                for frame in frames {
                    switch try channel.receive(frame, on: link.channelLink) {
                    case .message(let message):
                        arrival.messages.append(ReceivedMessage(sender: link.peer, message: message, mode: .reliable))
                    case .restarted(let lost): arrival.lostCount = lost
                    case nil: break
                    }
                }
            } catch {
                arrival.failure = error
            }
            arrival.hasFrames = channel.hasFrame(for: link.channelLink)
            arrival.makesRoom = (!hadRoom && channel.hasRoom) || channel.isEmpty
            return arrival
        }

        /// Makes an acknowledgement that is owed due at once.
        /// - Returns: links to wake; none when nothing is owed.
        mutating func sendOwedAcknowledgement() -> [SessionLink] {
            guard channel.owesAcknowledgement else { return [] }
            channel.acknowledgeNow()
            return links
        }
    }

    /// Messages received by the program that are not reported to their channels yet.
    struct Taken {
        var messages: [ReceivedMessage] = []
        var byteCount = 0
        /// A report is scheduled, at ``State/acknowledgements``.
        var isTimed = false
    }

    struct State {
        var roster: SessionRoster
        var members: [PeerID: Membership] = [:]
        /// Keys that were decided about: a member that reconnects is accepted without a question.
        var trusted: [PeerID: Fingerprint] = [:]
        /// Number of outgoing invitations without an answer.
        var pendingInvitations = 0
        /// Outgoing links that have not ended.
        var openings: [ObjectIdentifier: (driver: LinkDriver, approach: OutgoingSessionLink)] = [:]
        /// This node's addresses, the latest first.
        var addresses: [SessionMember.Address] = []
        /// The latest time to report received messages to their senders.
        var acknowledgements: MonotonicInstant?
        var isOver = false
    }

    /// Limit on an unreliable message: one packet on every network.
    package static let maximumUnreliableByteCount = 1200

    /// The session's identifier, common to all members.
    public let id: SessionID
    /// Changes of the members and of how they are reached, for one reader. Unread changes are bounded, the oldest are
    /// dropped; ``members`` is always current.
    public let changes: AsyncStream<Change>
    /// Byte streams opened by other members, for one reader.
    public let streams: AsyncStream<ReceivedStream>
    /// Offers of peers, for one reader. An invitation released unanswered is declined.
    public let resources: AsyncStream<Invitation>
    /// Keys that the user has to decide about; see ``TrustPolicy/askAtFirstMeeting``.
    public let identityQuestions: AsyncStream<IdentityQuestion>

    let node: Node
    let settings: SessionSettings
    let state: Mutex<State>
    let inbox = AsyncQueue<ReceivedMessage>()
    /// Locked after ``state`` where both are needed.
    let taken = Mutex(Taken())
    /// Wakes tasks that wait for room in a window, or for a delivery.
    let progress = AsyncCondition()
    let alarm = Monitor(Alarm())
    let datagrams: SessionDatagrams?
    private let continuations: Continuations

    struct Continuations {
        let changes: AsyncStream<Change>.Continuation
        let streams: AsyncStream<ReceivedStream>.Continuation
        let resources: AsyncStream<Invitation>.Continuation
        let questions: AsyncStream<IdentityQuestion>.Continuation
    }

    struct Alarm {
        var isDue = false
        var isOver = false
    }

    init(_ id: SessionID, _ settings: SessionSettings, _ node: Node) {
        precondition((2...SessionFrame.maximumRosterCount).contains(settings.memberLimit))
        self.id = id
        self.settings = settings
        self.node = node
        let identity = node.settings.identity
        let own = SessionMember(fingerprint: identity.fingerprint, name: node.settings.name)
        state = Mutex(State(roster: SessionRoster(id: id, own: own, limits: settings.roster)))
        let (changes, changeContinuation) = AsyncStream.makeStream(
            of: Change.self, bufferingPolicy: .bufferingNewest(Self.keptChanges))
        // Events beyond the limit are dropped, which resets a stream, declines an offer, and answers a question with no.
        let (streams, streamContinuation) = AsyncStream.makeStream(
            of: ReceivedStream.self, bufferingPolicy: .bufferingOldest(Self.keptEvents))
        let (resources, resourceContinuation) = AsyncStream.makeStream(
            of: Invitation.self, bufferingPolicy: .bufferingOldest(Self.keptEvents))
        let (questions, questionContinuation) = AsyncStream.makeStream(
            of: IdentityQuestion.self, bufferingPolicy: .bufferingOldest(Self.keptEvents))
        (self.changes, self.streams, self.resources, identityQuestions) = (changes, streams, resources, questions)
        continuations = Continuations(
            changes: changeContinuation, streams: streamContinuation, resources: resourceContinuation,
            questions: questionContinuation)
        datagrams = SessionDatagrams(node.settings)
    }

    /// Messages from other members, for one reader: reliable ones in the order of each sender, unreliable ones on arrival.
    public var messages: ReceivedMessages { ReceivedMessages(session: self) }

    /// The other members, in the order of their identifiers.
    public var members: [Member] {
        state.withLock { state in
            state.roster.others.map { Member($0, in: state.roster) }
        }
    }

    private static let keptChanges = 4096
    /// Limit on unread events of each kind.
    private static let keptEvents = 256

    // MARK: Life

    /// Runs until the session is over.
    func run() async {
        await withDiscardingTaskGroup { group in
            do throws(ThreadError) {
                let timer = try BlockingThread.start { self.keepTime() }
                group.addTask { await timer.join() }
            } catch {
                // Without the timer, lost members are not detected and reconnections are not attempted.
                node.settings.log.error("session: \(error)")
                return end()
            }
            guard let datagrams else { return }
            do throws(ThreadError) {
                let receiver = try BlockingThread.start { datagrams.receiveLoop { self.takeDatagram($0, tag: $1) } }
                group.addTask { await receiver.join() }
            } catch {
                // Then no probe is answered, and unreliable messages go over the links.
                node.settings.log.info("no packets for unreliable messages: \(error)")
            }
        }
    }

    /// Leaves the session, after reliable messages were delivered or `waiting` has passed.
    public func leave(waiting: Duration = .seconds(5)) async {
        await withTaskGroup { group in
            group.addTask { await self.waitUntilAllIsPassedOn() }
            group.addTask { try? await Task.sleep(for: waiting) }
            await group.next()
            group.cancelAll()
        }
        for link in links { link.driver.send(.leave(id)) }
        end()
    }

    private func waitUntilAllIsPassedOn() async {
        let isDone = { @Sendable in self.state.withLock { $0.isOver || $0.members.values.allSatisfy { $0.channel.isEmpty } } }
        while !Task.isCancelled, !isDone() { await progress.wait(until: isDone) }
    }

    /// Ends the session at once.
    func end() {
        let (links, openings) = state.withLock { state in
            defer { (state.members, state.openings) = ([:], [:]) }
            state.isOver = true
            return (state.members.values.flatMap(\.links), Array(state.openings.values))
        }
        for (driver, approach) in openings where approach.link == nil {
            approach.outcome.fulfil(.failure(.left))
            driver.send(.withdraw(id))
            driver.close(.goingAway)
        }
        for link in links { link.driver.close(.goingAway) }
        alarm.update { $0.isOver = true }
        datagrams?.close()
        inbox.finish()
        continuations.changes.finish()
        continuations.streams.finish()
        continuations.resources.finish()
        continuations.questions.finish()
        progress.notifyAll()
        node.forget(self)
    }

    var links: [SessionLink] { state.withLock { $0.members.values.flatMap(\.links) } }

    // MARK: Changes

    /// Updates the members and how they are reached, and reports the changes to the program and to the members.
    @discardableResult
    func change<Result>(_ body: (inout State) -> Result) -> Result {
        // Deadlines may have changed.
        defer { alarm.update { $0.isDue = true } }
        return changeInTime(body)
    }

    /// The form of ``change(_:)`` for the thread that waits for the deadlines.
    private func changeInTime<Result>(_ body: (inout State) -> Result) -> Result {
        let (result, changes, news, links, gone) = state.withLock { state in
            let result = body(&state)
            let changes = state.roster.drainChanges().map { Change($0, in: state.roster) }
            var gone: [SessionLink] = []
            for case .left(let member) in changes {
                gone += state.members.removeValue(forKey: member)?.links ?? []
                state.trusted[member] = nil
            }
            return (result, changes, state.roster.drainUpdate(), state.members.values.flatMap(\.links), gone)
        }
        for change in changes { continuations.changes.yield(change) }
        if let news {
            for link in links { link.driver.send(news) }
        }
        for link in gone { link.driver.close(.done) }
        if !changes.isEmpty { progress.notifyAll() }
        return result
    }

    /// Decides whether a peer's key is trusted, by the policy or the user.
    func judge(_ check: IdentityCheck) async -> Bool {
        let proven = check.peer.proven
        if state.withLock({ $0.trusted[proven.id] == proven.fingerprint }) { return true }
        switch await settings.trust.judge(check) {
        case .trusted: return true
        case .untrusted: return false
        case .ask:
            let answer = Promise<Bool>()
            continuations.questions.yield(IdentityQuestion(check, answer))
            return await answer.value ?? false
        }
    }

    func emit(_ change: Change) {
        continuations.changes.yield(change)
    }

    func emit(_ invitation: Invitation) {
        continuations.resources.yield(invitation)
    }

    func emit(_ stream: ReceivedStream) {
        continuations.streams.yield(stream)
    }

    // MARK: Time

    private func keepTime() {
        while true {
            alarm.update { $0.isDue = false }
            let now = node.settings.clock()
            let approaches: [SessionRoster.ConnectionAttempt] = changeInTime { state in
                state.roster.advance(to: now)
                let approaches = state.roster.dueAttempts(now: now)
                for approach in approaches { state.roster.recordAttempt(to: approach.member.id) }
                return approaches
            }
            for approach in approaches { node.start { await self.approach(approach) } }
            closeIdleRelays()
            sendDueAcknowledgements(now: now)
            let idleCheck = hasRetiring ? now + Self.idleCheckInterval : nil
            let wake = state.withLock {
                [$0.roster.deadline(after: now), $0.acknowledgements, idleCheck].compactMap { $0 }.min()
            }
            let isOver = alarm.wait(untilNanoseconds: wake?.nanoseconds ?? .max) { alarm -> Bool? in
                alarm.isOver ? true : alarm.isDue ? false : nil
            }
            if isOver == true { return }
        }
    }

    /// Relayed links to members that have a direct link by now.
    private var retiring: [SessionLink] {
        state.withLock { state in
            state.members.filter { id, _ in state.roster.state(of: id) == .connected(via: nil) && node.id < id }
                .values.flatMap(\.links).filter { $0.relay != nil }
        }
    }

    private var hasRetiring: Bool { !retiring.isEmpty }

    private func closeIdleRelays() {
        for link in retiring where link.driver.isIdle && link.driver.streams.count <= 1 { link.driver.close(.done) }
    }

    private static let idleCheckInterval = Duration.milliseconds(500)
}

extension Session.Member {
    fileprivate init(_ member: SessionMember, in roster: SessionRoster) {
        self.init(id: member.id, fingerprint: member.fingerprint, name: member.name, state: roster.state(of: member.id))
    }
}

extension Session.Change {
    fileprivate init(_ change: SessionChange, in roster: SessionRoster) {
        switch change {
        case .joined(let member): self = .joined(Session.Member(member, in: roster))
        case .state(let id, let state): self = .state(id, state)
        case .restarted(let id, let lost): self = .restarted(id, lost: lost)
        case .left(let id): self = .left(id)
        }
    }
}

extension SessionRoster.ConnectionAttempt {
    var member: SessionMember {
        switch self {
        case .connect(let member), .relay(let member, _): member
        }
    }
}
