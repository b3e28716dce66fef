internal import NearshareBase
internal import NearshareCrypto
package import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

/// An invitation into a session. It is accepted or declined once; releasing it unanswered declines it.
public final class SessionInvitation: Sendable {
    /// The inviting peer.
    public let peer: Peer
    /// The session to join.
    package let session: SessionID
    /// Untrusted bytes from the inviting program, at most 1024.
    public let context: [UInt8]
    private enum State {
        case open
        case answered
        case over(SessionError)
    }

    private let proof: [UInt8]
    private let handshakeHash: [UInt8]
    private let prompt: PromptAdmission
    private let join: @Sendable (SessionSettings, _ asksTrust: Bool) throws(SessionError) -> Session
    private let refuse: @Sendable (SessionRefusal) -> Void
    private let state = Mutex(State.open)
    private let codeEvent = Promise<ShortAuthenticationDigits?>()
    private let endEvent = Promise<SessionError>()

    init(
        peer: Peer, session: SessionID, context: [UInt8], proof: [UInt8], handshakeHash: [UInt8],
        prompt: PromptAdmission,
        join: @escaping @Sendable (SessionSettings, _ asksTrust: Bool) throws(SessionError) -> Session,
        refuse: @escaping @Sendable (SessionRefusal) -> Void
    ) {
        self.peer = peer
        self.session = session
        self.context = context
        self.proof = proof
        self.handshakeHash = handshakeHash
        self.prompt = prompt
        self.join = join
        self.refuse = refuse
    }

    deinit {
        decline(.declined)
    }

    /// Waits for the short authentication string that the inviting user sees as well, eight digits; nil when the invitation is over
    /// or its link has ended before it was agreed on, and when the task is cancelled before.
    public var shortCode: String? {
        get async { await codeEvent.value??.description }
    }

    /// Waits until the invitation is over unanswered: ``SessionError/timedOut(_:)`` at its timeout,
    /// ``SessionError/unavailable(_:)`` when it was withdrawn or its link is lost. nil when the task is cancelled first.
    public var ended: SessionError? {
        get async { await endEvent.value }
    }

    /// Joins the session, and returns it. A node that is a member already gets its existing session, the same object. Nodes that
    /// invite each other, each into a session of its own, are in two sessions.
    ///
    /// A user who accepts has seen the peer's name and ``shortCode``.
    /// - Parameters:
    ///   - settings: for a session that is new to this node; an existing one keeps its own.
    ///   - asksTrust: for programs that accept without a user: the trust policy decides about the inviting peer as about any
    ///     other, perhaps with a question in ``Session/identityQuestions``. Until it has decided, the session has no other members.
    ///     When the key is not trusted, the invitation is refused, and the session is over. By default false: the peer is a member
    ///     at once.
    /// - Throws: the reason of ``ended`` when the invitation is over; ``SessionError/full``; ``SessionError/left`` when the session
    ///   is over on this node; ``SessionError/invalidParameter(_:)`` for settings out of their bounds, and when it was answered;
    ///   ``SessionError/unavailable(_:)`` while another process takes part in sessions with the identity of the user. The
    ///   inviting peer gets the same error then.
    public func accept(
        _ settings: SessionSettings = SessionSettings(), asksTrust: Bool = false
    ) throws(SessionError) -> Session {
        try settings.check()
        switch beginAnswer(.answered) {
        case .open: return try join(settings, asksTrust)
        case .answered: throw .invalidParameter("the invitation was answered already")
        case .over(let reason): throw reason
        }
    }

    /// Declines the invitation. No effect once it is answered.
    public func decline() {
        decline(.declined)
    }

    /// Whether the inviting peer has proven to know the secret (`docs/PROTOCOL.md`, section 12.2). The secret itself is never
    /// sent. An empty secret is none: any peer could prove it.
    package func proves(_ secret: [UInt8]) -> Bool {
        !secret.isEmpty && constantTimeEqual(proof, SessionSecret.proof(of: secret, on: handshakeHash))
    }

    func decline(_ reason: SessionRefusal) {
        if case .open = beginAnswer(.answered) { refuse(reason) }
    }

    /// Declines the invitation by a rule. The user was not asked, so that it does not count as a question (R11).
    func declineUnprompted(_ reason: SessionRefusal) {
        guard case .open = beginAnswer(.answered) else { return }
        prompt.releaseUnprompted()
        refuse(reason)
    }

    /// - Returns: the previous state. Only an open invitation changes.
    private func beginAnswer(_ new: State) -> State {
        state.withLock { state in
            defer { if case .open = state { state = new } }
            return state
        }
    }

    // MARK: For the engine

    func setShortCode(_ code: ShortAuthenticationDigits) {
        codeEvent.fulfil(code)
    }

    func end(_ reason: SessionError) {
        // First, so that a task that sees the end cannot accept the invitation any more.
        let before = beginAnswer(.over(reason))
        codeEvent.fulfil(nil)
        endEvent.fulfil(reason)
        if case .open = before { refuse(.expired) }
    }
}

/// A rule that accepts or declines session invitations without a user.
public struct InvitationPolicy: Sendable {
    private let rule: @Sendable (SessionInvitation) async -> Bool
    /// The rule identifies the peer, so the trust policy is not consulted.
    let isProof: Bool
    /// Whether the rule asks the user: an invitation that it declines counts as a question then (R11).
    let asksUser: Bool

    /// - Parameters:
    ///   - isProof: whether the rule identifies the peer, so that the trust policy is not consulted.
    ///   - asksUser: whether the rule asks the user.
    package init(
        isProof: Bool, asksUser: Bool = false, _ accepts: @escaping @Sendable (SessionInvitation) async -> Bool
    ) {
        rule = accepts
        (self.isProof, self.asksUser) = (isProof, asksUser)
    }

    /// Applies the rule to an invitation.
    /// - Returns: nil when the task is cancelled first. The program's closure is not waited for then.
    func accepts(_ invitation: SessionInvitation) async -> Bool? {
        await untilCancelled { [rule] in await rule(invitation) }
    }

    /// Accepts the invitations for which the closure returns true. The trust policy of the session's settings applies as well:
    /// it decides about the inviting peer's key.
    ///
    /// The closure may take its time, such as to ask a user. Its task is cancelled when no answer is needed any more: at the
    /// invitation's timeout, when it is withdrawn or its link is lost, when the reader of ``Listener/sessions(_:settings:)`` ends,
    /// and when the node stops. None of these waits for the closure, and an answer that comes later has no effect; a closure that
    /// shows a question removes it then. It may be called for several invitations at the same time.
    public init(_ accepts: @escaping @Sendable (SessionInvitation) async -> Bool) {
        self.init(isProof: false, accepts)
    }

    /// Accepts invitations of friends, recognised by their proven keys.
    public static let friends = InvitationPolicy(isProof: true) { $0.peer.trustStatus.isFriend }

    /// Accepts invitations of peers that prove to know the secret, such as a password said in the room. The proof is bound to
    /// the link, so that an interceptor cannot use it; the invited peer can test guesses of a short secret with it, so that a room
    /// is the better place for a word. An empty secret accepts no invitation.
    public static func secret(_ secret: [UInt8]) -> InvitationPolicy {
        InvitationPolicy(isProof: true) { $0.proves(secret) }
    }
}

enum SessionSecret {
    /// Derives the proof from the link's handshake hash, so that it is useless on any other link.
    static func proof(of secret: [UInt8], on handshakeHash: [UInt8]) -> [UInt8] {
        HKDF.derive(
            from: secret, salt: handshakeHash, info: Array("nearshare session secret".utf8),
            byteCount: SessionFrame.proofByteCount)
    }
}
