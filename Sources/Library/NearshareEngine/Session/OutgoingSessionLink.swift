internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

/// An outgoing link that is about to join a session: it joins once the peer has accepted and its key is trusted by this node, in either
/// order.
final class OutgoingSessionLink: Sendable {
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
        /// The peer of the room about which the user is being asked.
        var question: PeerID?
        /// The invitation states that this node joins without asking its user.
        var isRemembered = false
    }

    private let invitation: SessionFrame
    private let secret: [UInt8]?
    private let expected: PeerID?
    let voucher: PeerID?
    /// Whether the program has invited the peer itself: then the user is asked also about a key that was declined before.
    let asksAgain: Bool
    /// Whether the link is to a member, about which the user of a room is not asked.
    let isToMember: Bool
    let outcome: Promise<Result<PeerID, SessionError>>
    /// Fulfilled when the handshake is over, and the peer can receive the invitation.
    let invited = Promise<Void>()
    private let room: Room?
    private let state: Mutex<State>
    /// Fulfilled when the link has joined the session, or does not.
    private let joinEvent = Promise<Void>()
    private static let maximumQueuedFrameCount = 16

    init(
        invitation: SessionFrame, secret: [UInt8]?, room: Room? = nil, expected: PeerID?, voucher: PeerID?,
        asksAgain: Bool = false, isToMember: Bool = false, outcome: Promise<Result<PeerID, SessionError>>
    ) {
        self.invitation = invitation
        self.secret = secret
        self.room = room
        state = Mutex(State(isProven: room?.credentials.secret == nil))
        self.expected = expected
        self.voucher = voucher
        self.asksAgain = asksAgain
        self.isToMember = isToMember
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
            state.withLock { $0.isRemembered = isRemembered }
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

    /// Whether the invitation states that this node joins without asking its user.
    var isRemembered: Bool { state.withLock(\.isRemembered) }

    /// Records that the user is asked about the peer of a room.
    /// - Returns: false when that is so on another link already, with another short code.
    func beginQuestion(about id: PeerID) -> Bool {
        guard asksForRoom, !isRemembered, let room else { return true }
        guard room.beginQuestion(about: id) else { return false }
        state.withLock { $0.question = id }
        return true
    }

    /// Records that the user was asked, or that the answer is no longer needed.
    func endQuestion() {
        if let id = state.withLock({ $0.question.take() }) { room?.endQuestion(about: id) }
    }

    /// Whether the peer has proven to know the room's secret, if there is one.
    var isProven: Bool { state.withLock(\.isProven) }

    var link: SessionLink? { state.withLock { $0.link } }

    var isOver: Bool { state.withLock { $0.isOver } }

    /// Whether both sides have agreed, so that the link joins or has joined: the invitation has not failed when it ends then.
    var isAgreed: Bool { state.withLock { $0.isJoining } }

    /// Whether the peer has accepted, and this node has not decided about its key.
    var awaitsTrust: Bool { state.withLock { $0.isAccepted && $0.isTrusted == nil } }

    /// Waits until the link has ended, or has joined the session.
    func waitUntilDecided() async { _ = await joinEvent.value }

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
            guard state.isAccepted, state.isTrusted == true, state.isProven, !state.isJoining, !state.isOver else {
                return false
            }
            state.isJoining = true
            return true
        }
        guard isTurn else { return [] }
        defer { joinEvent.fulfil() }
        guard let link = join() else {
            outcome.fulfil(.failure(.full))
            return []
        }
        outcome.fulfil(.success(link.peer))
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
