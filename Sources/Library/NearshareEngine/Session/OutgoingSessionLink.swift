internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

/// An outgoing link that is about to join a session: it joins once the peer has accepted and its key is trusted by this node, in either
/// order.
final class OutgoingSessionLink: Sendable {
    /// The reason for which the link is opened.
    enum Purpose: Sendable {
        /// The program has invited the peer: the user is asked also about a key that was declined before.
        case program
        /// The peer advertises the room of the session.
        case room
        /// The link is to a member that this node remembers: the user of this node is not asked.
        case member
        /// The link is to a member that this node does not remember, such as after a restart: both users are asked.
        case renewal
    }

    private struct State {
        var agreement = Agreement.pending(isAccepted: false, isTrusted: nil)
        var secretProof: SecretProof
        var question = Question.none
        /// The invitation states that this node joins without asking its user.
        var isRemembered = false
        /// Frames received between the peer's acceptance and the local one.
        var queuedFrames: [SessionFrame] = []
        /// Whether the link has ended.
        var isOver = false

        var isProven: Bool { if case .complete = secretProof { true } else { false } }
        var link: SessionLink? { if case .reached(let link) = agreement { link } else { nil } }
        var isAgreed: Bool { if case .reached = agreement { true } else { false } }
        var awaitsTrust: Bool { if case .pending(isAccepted: true, isTrusted: nil) = agreement { true } else { false } }
        var isAccepted: Bool {
            switch agreement {
            case .pending(let isAccepted, _): isAccepted
            case .withdrawn: false
            case .reached: true
            }
        }
    }

    /// The decisions of both ends.
    private enum Agreement {
        /// - Parameters:
        ///   - isAccepted: whether the peer has accepted.
        ///   - isTrusted: whether this node trusts the peer's key; nil before it has decided.
        case pending(isAccepted: Bool, isTrusted: Bool?)
        /// This end has withdrawn its invitation before both had agreed.
        case withdrawn
        /// Both have agreed. The link is nil while the thread that has seen it first adds the link to the session, and where that
        /// has failed.
        case reached(SessionLink?)
    }

    /// The peer's proof that it knows the secret of a room.
    private enum SecretProof {
        /// The peer has not proven it, and cannot any more before this end sends its share.
        case missing
        /// This end's share is sent, and the peer's is awaited.
        case exchanging(SessionRoom.SecretExchange)
        /// The peer has to send this before it accepts.
        case expected([UInt8])
        /// The peer has proven it, or there is no secret.
        case complete
    }

    /// The question to the user about the peer.
    private enum Question {
        /// There is none, or it is over.
        case none
        /// The user is about to be asked.
        case waiting(PeerID)
        /// The user sees it.
        case shown(PeerID)

        var peer: PeerID? {
            switch self {
            case .none: nil
            case .waiting(let id), .shown(let id): id
            }
        }
    }

    private let invitation: SessionFrame
    private let secret: [UInt8]?
    private let expected: PeerID?
    let voucher: PeerID?
    let purpose: Purpose
    let outcome: Promise<Result<PeerID, SessionError>>
    /// Fulfilled when the handshake is over, and the peer can receive the invitation.
    let invited = Promise<Void>()
    private let room: Room?
    /// The questions of the session; nil where it asks no user.
    private let questions: SessionQuestions?
    private let state: Mutex<State>
    /// Fulfilled when the link has joined the session, has ended, or gives way to another one.
    private let settled = Promise<Void>()
    /// Limit on frames that wait until the link has joined; further ones are dropped.
    private static let maximumQueuedFrameCount = 16

    init(
        invitation: SessionFrame, secret: [UInt8]?, room: Room? = nil, questions: SessionQuestions? = nil,
        expected: PeerID?, voucher: PeerID?, purpose: Purpose, outcome: Promise<Result<PeerID, SessionError>>
    ) {
        self.invitation = invitation
        self.secret = secret
        self.room = room
        self.questions = questions
        state = Mutex(State(secretProof: room?.credentials.secret == nil ? .complete : .missing))
        self.expected = expected
        self.voucher = voucher
        self.purpose = purpose
        self.outcome = outcome
    }

    func rejectionReason(to peer: AuthenticatedPeer, at address: LinkAddress, _ settings: NodeSettings) -> SessionError? {
        if let expected, peer.id != expected {
            return .untrusted(
                "the peer at \(address) is \(peer.id.hex), not \(expected.hex) as expected")
        }
        return settings.trustStatus(peer, nil).isBlocked ? SessionError(NodeError.blocked(peer.id.hex)) : nil
    }

    /// The first frame on the link: the share for the proof of a room's secret, or the invitation.
    /// - Parameter isRemembered: whether this node joins without asking its user; stated where a room asks its users.
    func frame(on handshakeHash: [UInt8], random: (Int) -> [UInt8], isRemembered: Bool = false) -> SessionFrame {
        if let exchange = room?.credentials.exchange(on: handshakeHash, seed: random(CPace.seedByteCount)),
            let id = invitation.invitedSession
        {
            state.withLock { $0.secretProof = .exchanging(exchange) }
            return .share(id, exchange.share)
        }
        guard case .invite(let id, let timeout, _, let context) = invitation else { return invitation }
        if roomAsksUser {
            let memberCount = context.first ?? 1
            return .invite(
                id, timeout: timeout, proof: [],
                context: SessionRoom.context(memberCount: memberCount, isRemembered: isRemembered))
        }
        guard let secret else { return invitation }
        return .invite(
            id, timeout: timeout, proof: SessionSecret.proof(of: secret, on: handshakeHash), context: context)
    }

    /// The invitation with this end's proof, once the peer has sent its share. The peer can test one guess with it.
    /// - Returns: nil for a share that is not valid or a second one, and when too many proofs have failed.
    func invitation(answering share: [UInt8], now: MonotonicInstant) -> SessionFrame? {
        guard let exchange = removeExchange(),
            let proofs = exchange.proofs(with: share, isInitiator: true), room?.consumeGuess(now: now) == true,
            case .invite(let id, let timeout, _, let context) = invitation
        else { return nil }
        state.withLock { $0.secretProof = .expected(proofs.responder) }
        return .invite(id, timeout: timeout, proof: proofs.initiator, context: context)
    }

    /// - Returns: nil for all but the first call after this end has sent its share.
    private func removeExchange() -> SessionRoom.SecretExchange? {
        state.withLock { state in
            guard case .exchanging(let exchange) = state.secretProof else { return nil }
            state.secretProof = .missing
            return exchange
        }
    }

    /// Checks the peer's proof of the room's secret.
    func confirm(_ proof: [UInt8]) -> Bool {
        let isRight = state.withLock { state in
            guard case .expected(let expected) = state.secretProof else { return false }
            let isRight = constantTimeEqual(expected, proof)
            state.secretProof = isRight ? .complete : .missing
            return isRight
        }
        if isRight { room?.refundGuess() }
        return isRight
    }

    /// Whether the link is for a room whose users are asked about keys.
    var roomAsksUser: Bool { room?.admission == .ask }

    /// Whether the user may be asked about the peer, so that the invitation states whether this node joins without that.
    var mayAskUser: Bool { questions != nil }

    /// Whether the invitation states that this node joins without asking its user.
    var isRemembered: Bool { state.withLock(\.isRemembered) }

    /// Prepares the invitation of a peer with a proven key.
    /// - Parameter isRemembered: whether this node joins without asking its user.
    /// - Returns: false when the user is asked on another link already, with another short code, or not yet again.
    func beginInvitation(of id: PeerID, isRemembered: Bool, now: MonotonicInstant) -> Bool {
        guard let questions else { return true }
        state.withLock { $0.isRemembered = isRemembered }
        if isRemembered { return true }
        guard questions.begin(self, about: id, isProgram: purpose == .program, now: now) else { return false }
        state.withLock { $0.question = .waiting(id) }
        return true
    }

    /// Whether the question to the user waits for a moment.
    func waitsToAsk(own: PeerID, about id: PeerID) -> Bool {
        switch purpose {
        // The peer's own invitation may cross this one, and counts then.
        case .room: own < id
        // The peer may refuse at once, such as one that has declined the key.
        case .renewal: true
        case .program, .member: false
        }
    }

    /// Records that the user sees the question.
    func recordShown() {
        state.withLock { state in if case .waiting(let id) = state.question { state.question = .shown(id) } }
    }

    /// Ends the invitation in favour of another link: the user is not asked on this one.
    func yield() { settled.fulfil() }

    /// Records that an invitation was not answered in time, by the user or the peer's. No effect where the user has not seen the
    /// question, and for an invitation of the program, which may ask again at once.
    func recordUnanswered(now: MonotonicInstant) {
        guard purpose != .program, case .shown(let id) = state.withLock({ $0.question }) else { return }
        questions?.recordUnanswered(about: id, now: now)
    }

    /// Records that the other user has declined.
    func recordDecline(now: MonotonicInstant) {
        if let id = state.withLock(\.question.peer) { questions?.recordDecline(by: id, now: now) }
    }

    /// Ends the question: the user has answered, or the answer is no longer needed.
    func endQuestion() {
        let id = state.withLock { state in
            defer { state.question = .none }
            return state.question.peer
        }
        if let id { questions?.end(self, about: id) }
    }

    /// Whether the peer has proven to know the room's secret, if there is one.
    var isProven: Bool { state.withLock(\.isProven) }

    /// The link in the session; nil before it has joined.
    var link: SessionLink? { state.withLock { $0.link } }

    /// Whether the link has ended.
    var isOver: Bool { state.withLock(\.isOver) }

    /// Whether both sides have agreed, so that the link joins or has joined: the invitation has not failed when it ends then.
    var isAgreed: Bool { state.withLock(\.isAgreed) }

    /// Whether the peer has accepted, and this node has not decided about its key.
    var awaitsTrust: Bool { state.withLock(\.awaitsTrust) }

    /// Waits until the link has ended, has joined the session, or another one takes its place.
    func waitUntilSettled() async { _ = await settled.value }

    /// Waits in the same way, for a time.
    func isSettled(within time: Duration) async -> Bool { await settled.isFulfilled(within: time) }

    /// Records that the link has ended.
    func end() -> SessionLink? {
        settled.fulfil()
        return state.withLock { state in
            state.isOver = true
            return state.link
        }
    }

    /// The link in the session; waits while it is joining on another task, because the peer has joined already.
    var joinedLink: SessionLink? {
        get async {
            if isAgreed, link == nil { _ = await settled.value }
            return link
        }
    }

    /// Returns the link in the session; before it has joined, queues a frame of a peer that has accepted, to be handled then.
    func linkOrQueue(_ frame: SessionFrame) -> SessionLink? {
        state.withLock { state in
            if state.link == nil, state.isAccepted, state.queuedFrames.count < Self.maximumQueuedFrameCount {
                state.queuedFrames.append(frame)
            }
            return state.link
        }
    }

    /// Records that the peer has accepted.
    /// - Returns: the queued frames with the link, if it joins now.
    func recordAcceptance(_ join: () -> Result<SessionLink, SessionError>) -> [(SessionFrame, SessionLink)] {
        state.withLock { state in
            if case .pending(_, let isTrusted) = state.agreement {
                state.agreement = .pending(isAccepted: true, isTrusted: isTrusted)
            }
        }
        return joinIfAgreed(join)
    }

    /// Withdraws the invitation, so that an acceptance that arrives later has no effect. No effect once both ends have agreed.
    /// - Returns: false when both ends have agreed: the link joins, and ``outcome`` is fulfilled, at once or already.
    func withdraw() -> Bool {
        state.withLock { state in
            if state.isAgreed { return false }
            state.agreement = .withdrawn
            return true
        }
    }

    /// Records the decision about the peer's key.
    /// - Returns: the queued frames with the link, if it joins now.
    func recordTrust(
        _ isTrusted: Bool, _ join: () -> Result<SessionLink, SessionError>
    ) -> [(SessionFrame, SessionLink)] {
        state.withLock { state in
            if case .pending(let isAccepted, _) = state.agreement {
                state.agreement = .pending(isAccepted: isAccepted, isTrusted: isTrusted)
            }
        }
        return joinIfAgreed(join)
    }

    private func joinIfAgreed(_ join: () -> Result<SessionLink, SessionError>) -> [(SessionFrame, SessionLink)] {
        let isFirst = state.withLock { state in
            guard case .pending(isAccepted: true, isTrusted: true?) = state.agreement, state.isProven, !state.isOver else {
                return false
            }
            state.agreement = .reached(nil)
            return true
        }
        guard isFirst else { return [] }
        defer {
            settled.fulfil()
            endQuestion()
        }
        let joined = join()
        outcome.fulfil(joined.map(\.peer))
        guard case .success(let link) = joined else { return [] }
        return state.withLock { state in
            state.agreement = .reached(link)
            defer { state.queuedFrames = [] }
            return state.queuedFrames.map { ($0, link) }
        }
    }
}

extension SessionFrame {
    /// The session of an invitation; nil for another frame.
    fileprivate var invitedSession: SessionID? { if case .invite(let id, _, _, _) = self { id } else { nil } }
}
