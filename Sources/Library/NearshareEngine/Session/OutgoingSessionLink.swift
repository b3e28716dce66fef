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
        /// The link is to a member that this node remembers: its user is not asked.
        case member
        /// The link is to a member that this node does not remember, such as after a restart: both users are asked.
        case renewal
    }

    private struct State {
        var isAccepted = false
        var isTrusted: Bool?
        /// Set by the first thread that sees both decisions.
        var isJoining = false
        var isOver = false
        var link: SessionLink?
        /// Frames received between the peer's acceptance and the local one.
        var queuedFrames: [SessionFrame] = []
        /// This end's part of the proof of a room's secret, until the peer has sent its share.
        var exchange: SessionRoom.SecretExchange?
        /// The proof that the peer has to send before it accepts.
        var expectedProof: [UInt8]?
        /// The peer has proven to know the room's secret, if there is one.
        var isProven: Bool
        /// The peer about which the user is being asked, or is about to be.
        var question: PeerID?
        /// The user sees the question.
        var isAsked = false
        /// The invitation states that this node joins without asking its user.
        var isRemembered = false
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
    private let joinEvent = Promise<Void>()
    private static let maximumQueuedFrameCount = 16

    init(
        invitation: SessionFrame, secret: [UInt8]?, room: Room? = nil, questions: SessionQuestions? = nil,
        expected: PeerID?, voucher: PeerID?, purpose: Purpose, outcome: Promise<Result<PeerID, SessionError>>
    ) {
        self.invitation = invitation
        self.secret = secret
        self.room = room
        self.questions = questions
        state = Mutex(State(isProven: room?.credentials.secret == nil))
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
    /// - Parameter isRemembered: whether the session remembers the peer's key; stated where a room asks its users.
    func frame(on handshakeHash: [UInt8], random: (Int) -> [UInt8], isRemembered: Bool = false) -> SessionFrame {
        if let exchange = room?.credentials.exchange(on: handshakeHash, seed: random(CPace.seedByteCount)),
            let id = invitation.invitedSession
        {
            state.withLock { $0.exchange = exchange }
            return .share(id, exchange.share)
        }
        guard case .invite(let id, let timeout, _, let context) = invitation else { return invitation }
        if asksForRoom {
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
        guard let exchange = state.withLock({ $0.exchange.take() }),
            let proofs = exchange.proofs(with: share, isInitiator: true), room?.consumeGuess(now: now) == true,
            case .invite(let id, let timeout, _, let context) = invitation
        else { return nil }
        state.withLock { $0.expectedProof = proofs.responder }
        return .invite(id, timeout: timeout, proof: proofs.initiator, context: context)
    }

    /// Checks the peer's proof of the room's secret.
    func confirm(_ proof: [UInt8]) -> Bool {
        let isRight = state.withLock { state in
            guard let expected = state.expectedProof.take(), constantTimeEqual(expected, proof) else { return false }
            state.isProven = true
            return true
        }
        if isRight { room?.refundGuess() }
        return isRight
    }

    /// Whether a peer that was found in a room may cause a question to the user.
    var asksForRoom: Bool { room?.admission == .ask }

    /// Whether the user may be asked about the peer, so that the invitation states whether this node remembers its key.
    var asksUser: Bool { questions != nil }

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
        state.withLock { $0.question = id }
        return true
    }

    /// Whether the question to the user waits for a moment: the peer's own invitation may cross this one, or a refusal is likely.
    func waitsToAsk(own: PeerID, about id: PeerID) -> Bool {
        switch purpose {
        case .room: own < id
        case .renewal: true
        case .program, .member: false
        }
    }

    /// Records that the user sees the question.
    func recordAsked() { state.withLock { $0.isAsked = true } }

    /// Ends the invitation in favour of another link: the user is not asked on this one.
    func yield() { joinEvent.fulfil() }

    /// Records that the users have not answered in time.
    func recordUnanswered(now: MonotonicInstant) {
        let id = state.withLock { $0.isAsked ? $0.question : nil }
        if let id, purpose != .program { questions?.recordUnanswered(about: id, now: now) }
    }

    /// Records that the user was asked, or that the answer is no longer needed.
    func endQuestion() {
        if let id = state.withLock({ $0.question.take() }) { questions?.end(self, about: id) }
    }

    /// Whether the peer has proven to know the room's secret, if there is one.
    var isProven: Bool { state.withLock(\.isProven) }

    var link: SessionLink? { state.withLock { $0.link } }

    var isOver: Bool { state.withLock { $0.isOver } }

    /// Whether both sides have agreed, so that the link joins or has joined: the invitation has not failed when it ends then.
    var isAgreed: Bool { state.withLock { $0.isJoining } }

    /// Whether the peer has accepted, and this node has not decided about its key.
    var awaitsTrust: Bool { state.withLock { $0.isAccepted && $0.isTrusted == nil } }

    /// Waits until the link has ended, has joined the session, or another one takes its place.
    func waitUntilDecided() async { _ = await joinEvent.value }

    /// Waits in the same way, for a time.
    func isDecided(within time: Duration) async -> Bool { await joinEvent.isFulfilled(within: time) }

    /// Records that the link has ended.
    func end() -> SessionLink? {
        joinEvent.fulfil()
        return state.withLock { state in
            state.isOver = true
            return state.link
        }
    }

    /// The link in the session; waits while it is joining on another task, because the peer has joined already.
    var joinedLink: SessionLink? {
        get async {
            if state.withLock({ $0.isJoining && $0.link == nil }) { _ = await joinEvent.value }
            return link
        }
    }

    func link(orKeep frame: SessionFrame) -> SessionLink? {
        state.withLock { state in
            if state.link == nil, state.isAccepted, state.queuedFrames.count < Self.maximumQueuedFrameCount {
                state.queuedFrames.append(frame)
            }
            return state.link
        }
    }

    func accepted(_ join: () -> Result<SessionLink, SessionError>) -> [(SessionFrame, SessionLink)] {
        state.withLock { $0.isAccepted = true }
        return proceed(join)
    }

    func decided(
        isTrusted: Bool, _ join: () -> Result<SessionLink, SessionError>
    ) -> [(SessionFrame, SessionLink)] {
        state.withLock { $0.isTrusted = isTrusted }
        return proceed(join)
    }

    private func proceed(_ join: () -> Result<SessionLink, SessionError>) -> [(SessionFrame, SessionLink)] {
        let isTurn = state.withLock { state in
            guard state.isAccepted, state.isTrusted == true, state.isProven, !state.isJoining, !state.isOver else {
                return false
            }
            state.isJoining = true
            return true
        }
        guard isTurn else { return [] }
        defer {
            joinEvent.fulfil()
            endQuestion()
        }
        let joined = join()
        outcome.fulfil(joined.map(\.peer))
        guard case .success(let link) = joined else { return [] }
        return state.withLock { state in
            state.link = link
            defer { state.queuedFrames = [] }
            return state.queuedFrames.map { ($0, link) }
        }
    }
}

extension SessionFrame {
    /// The session of an invitation; nil for another frame.
    fileprivate var invitedSession: SessionID? { if case .invite(let id, _, _, _) = self { id } else { nil } }
}
