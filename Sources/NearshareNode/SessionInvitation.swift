internal import NearshareBase
internal import NearshareCrypto
public import NearshareSecurity
public import NearshareWire
internal import Synchronization

/// Somebody invites into a session. Accept it, decline it, or drop it, which declines it too.
public final class SessionInvitation: Sendable {
    /// Who invites.
    public let peer: Peer
    /// Into which session.
    public let session: SessionID
    /// Bytes for the program, as the peer's program wrote them: at most `SessionFrame.maximumContextByteCount`.
    public let context: [UInt8]
    private enum State {
        case open
        case answered
        case over(SessionError)
    }

    private let proof: [UInt8]
    private let handshakeHash: [UInt8]
    private let join: @Sendable (SessionSettings) throws(SessionError) -> NearbySession
    private let refuse: @Sendable (SessionRefusal) -> Void
    private let state = Mutex(State.open)
    private let codeEvent = OneTimeEvent<ShortCodeText?>()
    private let endEvent = OneTimeEvent<SessionError>()

    init(
        peer: Peer, session: SessionID, context: [UInt8], proof: [UInt8], handshakeHash: [UInt8],
        join: @escaping @Sendable (SessionSettings) throws(SessionError) -> NearbySession,
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
    public var shortCode: ShortCodeText? {
        get async { await codeEvent.happened ?? nil }
    }

    /// Waits until it was withdrawn, has expired or its link broke; nil when the task is cancelled before.
    public var ended: SessionError? {
        get async { await endEvent.happened }
    }

    /// Joins the session; in a session that this node is in already, that one.
    ///
    /// Whoever accepts has seen who invites, so the settings' trust policy is not asked about them, but about all others.
    /// - Throws: ``SessionError`` when the invitation is over, or the session is full.
    public func accept(_ settings: SessionSettings = SessionSettings()) throws(SessionError) -> NearbySession {
        switch takeAnswer(.answered) {
        case .open: return try join(settings)
        case .answered: preconditionFailure("an invitation is answered once")
        case .over(let reason): throw reason
        }
    }

    /// Does not join. Answered already, nothing happens.
    public func decline() {
        decline(.declined)
    }

    /// Whoever invites knows the secret (`docs/PROTOCOL.md`, section 12.2). The secret itself is never sent.
    public func proves(_ secret: [UInt8]) -> Bool {
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

    func shortCodeIsReady(_ code: ShortCodeText) {
        codeEvent.happen(code)
    }

    func end(_ reason: SessionError) {
        codeEvent.happen(nil)
        endEvent.happen(reason)
        if case .open = takeAnswer(.over(reason)) { refuse(.expired) }
    }
}

/// Decides about invitations without asking a person.
public struct InvitationPolicy: Sendable {
    let accepts: @Sendable (SessionInvitation) async -> Bool

    /// Decides by itself; accepted where it says true.
    public init(_ accepts: @escaping @Sendable (SessionInvitation) async -> Bool) {
        self.accepts = accepts
    }

    /// Only friends.
    public static let friends = InvitationPolicy { $0.peer.standing.isFriend }

    /// Whoever proves to know a secret, such as a password that is spoken in a room.
    public static func secret(_ secret: [UInt8]) -> InvitationPolicy { InvitationPolicy { $0.proves(secret) } }
}

enum SessionSecret {
    /// Good on one link only, so that nobody who hears it can use it elsewhere.
    static func proof(of secret: [UInt8], on handshakeHash: [UInt8]) -> [UInt8] {
        HKDF.derive(
            from: secret, salt: handshakeHash, info: Array("nearshare session secret".utf8),
            byteCount: SessionFrame.proofByteCount)
    }
}
