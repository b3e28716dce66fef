internal import NearshareBase
public import NearshareCrypto
package import NearshareDirect
internal import Synchronization

/// Somebody invites into a session. Accept it, decline it, or drop it, which declines it too.
public final class SessionInvitation: Sendable {
    /// Who invites.
    public let peer: Peer
    /// Into which session.
    package let session: SessionID
    /// Bytes for the program, as the peer's program wrote them: at most `SessionFrame.maximumContextByteCount`.
    public let context: [UInt8]
    private enum State {
        case open
        case answered
        case over(SessionError)
    }

    private let proof: [UInt8]
    private let handshakeHash: [UInt8]
    private let join: @Sendable (SessionSettings, _ asksTrust: Bool) throws(SessionError) -> Session
    private let refuse: @Sendable (SessionRefusal) -> Void
    private let state = Mutex(State.open)
    private let codeEvent = Promise<ShortAuthenticationDigits?>()
    private let endEvent = Promise<SessionError>()

    init(
        peer: Peer, session: SessionID, context: [UInt8], proof: [UInt8], handshakeHash: [UInt8],
        join: @escaping @Sendable (SessionSettings, _ asksTrust: Bool) throws(SessionError) -> Session,
        refuse: @escaping @Sendable (SessionRefusal) -> Void
    ) {
        self.peer = peer
        self.session = session
        self.context = context
        self.proof = proof
        self.handshakeHash = handshakeHash
        self.join = join
        self.refuse = refuse
    }

    deinit {
        decline(.declined)
    }

    /// The eight digits that who invites sees as well; nil when the link ended before they were agreed.
    public var shortCode: ShortAuthenticationDigits? {
        get async { await codeEvent.happened ?? nil }
    }

    /// Waits until it was withdrawn, has expired or its link broke; nil when the task is cancelled before.
    public var ended: SessionError? {
        get async { await endEvent.happened }
    }

    /// Joins the session; in a session that this node is in already, that one.
    ///
    /// A person who accepts has seen who invites, and their ``shortCode``.
    /// - Parameter asksTrust: for programs that accept by themselves: the settings' trust policy decides about who invites as
    ///   about all others, perhaps with a question in ``Session/identityQuestions``. Until it has, nobody else is in the
    ///   session; where the key is not trusted, the invitation is refused, and the session is over.
    /// - Throws: ``SessionError`` when the invitation is over, or the session is full.
    public func accept(
        _ settings: SessionSettings = SessionSettings(), asksTrust: Bool = false
    ) throws(SessionError) -> Session {
        switch takeAnswer(.answered) {
        case .open: return try join(settings, asksTrust)
        case .answered: preconditionFailure("an invitation is answered once")
        case .over(let reason): throw reason
        }
    }

    /// Does not join. Answered already, nothing happens.
    public func decline() {
        decline(.declined)
    }

    /// Whoever invites knows the secret (`docs/PROTOCOL.md`, section 12.2). The secret itself is never sent.
    package func proves(_ secret: [UInt8]) -> Bool {
        constantTimeEqual(proof, SessionSecret.proof(of: secret, on: handshakeHash))
    }

    func decline(_ reason: SessionRefusal) {
        if case .open = takeAnswer(.answered) { refuse(reason) }
    }

    /// - Returns: how it stood before. Only an open one changes.
    private func takeAnswer(_ new: State) -> State {
        state.withLock { state in
            defer { if case .open = state { state = new } }
            return state
        }
    }

    // MARK: For the engine

    func shortCodeIsReady(_ code: ShortAuthenticationDigits) {
        codeEvent.happen(code)
    }

    func end(_ reason: SessionError) {
        // First: whoever hears that it has ended must not be able to accept it any more.
        let before = takeAnswer(.over(reason))
        codeEvent.happen(nil)
        endEvent.happen(reason)
        if case .open = before { refuse(.expired) }
    }
}

/// Decides about invitations without asking a person.
public struct InvitationPolicy: Sendable {
    let accepts: @Sendable (SessionInvitation) async -> Bool
    /// Whoever is accepted has proven with it who they are; the trust policy has nothing to add.
    let isProof: Bool

    private init(isProof: Bool, _ accepts: @escaping @Sendable (SessionInvitation) async -> Bool) {
        self.accepts = accepts
        self.isProof = isProof
    }

    /// Decides by itself; accepted where it says true. The trust policy of the session's settings is asked about the key as well.
    public init(_ accepts: @escaping @Sendable (SessionInvitation) async -> Bool) {
        self.init(isProof: false, accepts)
    }

    /// Only friends, by the key that they have proven.
    public static let friends = InvitationPolicy(isProof: true) { $0.peer.trustStatus.isFriend }

    /// Whoever proves to know a secret, such as a password that is spoken in a room: on this very link, so that nobody in between
    /// can make use of it.
    public static func secret(_ secret: [UInt8]) -> InvitationPolicy {
        InvitationPolicy(isProof: true) { $0.proves(secret) }
    }
}

enum SessionSecret {
    /// Good on one link only, so that nobody who hears it can use it elsewhere.
    static func proof(of secret: [UInt8], on handshakeHash: [UInt8]) -> [UInt8] {
        HKDF.derive(
            from: secret, salt: handshakeHash, info: Array("nearshare session secret".utf8),
            byteCount: SessionFrame.proofByteCount)
    }
}
