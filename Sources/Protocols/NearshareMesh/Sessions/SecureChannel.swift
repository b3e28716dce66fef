internal import NearshareBase
internal import NearshareCrypto

/// The handshakes and the Noise session with one peer of the mesh (bitchat specification, section 8).
///
/// When both nodes start a handshake at once, the one with the lower id stays initiator. A new first message during a session
/// is answered while the session continues, and replaces it once the third message has authenticated the peer. Any node can
/// inject packets, so a message that is not authentic changes nothing.
struct SecureChannel: Sendable {
    enum Reaction {
        case reply([UInt8])
        /// The peer's key is authenticated. The reply, if any, is the third message and must precede sealed messages.
        case established(AuthenticatedPeer, reply: [UInt8]?)
        /// Not authentic, not expected, or over a limit: dropped.
        case ignore
    }

    private let identity: LocalIdentity
    private let peerID: PeerID
    /// A session in which nothing authentic is received for this time ends.
    private let idleTimeout: Duration
    private var session = MeshPeerSession.idle
    private var responses = HandshakeResponses()
    private var budget = HandshakeBudget()

    init(identity: LocalIdentity, peerID: PeerID, idleTimeout: Duration) {
        self.identity = identity
        self.peerID = peerID
        self.idleTimeout = idleTimeout
    }

    var isEstablished: Bool { session.isEstablished }
    var isInitiating: Bool { session.isInitiating }
    /// Whether this node has answered a handshake whose third message is missing: the peer may have the keys already.
    var isResponding: Bool { !responses.isEmpty }
    var peer: AuthenticatedPeer? { session.peer }

    // MARK: Handshake

    /// Starts a handshake.
    /// - Parameter ephemeral: 32 fresh random bytes.
    /// - Returns: the first message; nil when a handshake is in progress, or there were too many recently.
    mutating func start(now: MonotonicInstant, ephemeral: [UInt8]) -> [UInt8]? {
        guard !session.isInitiating, budget.admitInitiation(now: now) else { return nil }
        var state = HandshakeState(role: .initiator, prologue: [], staticKey: identity.agreementKey, ephemeral: ephemeral)
        guard let message = try? state.writeMessage(payload: []) else { return nil }
        session.start(
            MeshPeerSession.Initiation(
                state: state, firstMessage: message, deadline: now + Self.initiatorTimeout, sent: now))
        return message
    }

    /// Processes a handshake message.
    /// - Parameters:
    ///   - isSigned: whether the packet is signed by the key that the peer announced, or was received on the link of the peer that
    ///     has proven to be at its other end: such a first message counts against the peer's own rate, not against that of
    ///     forgeries (R9).
    ///   - link: the link on which it was received.
    ///   - ephemeral: 32 fresh random bytes, used if this is a first message.
    mutating func receive(
        handshake message: ArraySlice<UInt8>, isSigned: Bool, from link: MeshLinkID, now: MonotonicInstant, ephemeral: [UInt8]
    ) -> Reaction {
        let message = Array(message)
        // Handshake packets carry no number. The messages of Noise XX without payloads have 32, 96 and 64 bytes, so their
        // lengths tell them apart: below 64 the first, below 96 the third. Other lengths fail in the handshake.
        return switch message.count {
        case ..<Self.thirdMessageByteCount:
            receiveFirst(message, isSigned: isSigned, from: link, now: now, ephemeral: ephemeral)
        case ..<Self.secondMessageByteCount: receiveThird(message, now: now)
        default: receiveSecond(message, now: now)
        }
    }

    private mutating func receiveFirst(
        _ message: [UInt8], isSigned: Bool, from link: MeshLinkID, now: MonotonicInstant, ephemeral: [UInt8]
    ) -> Reaction {
        // Both nodes have started a handshake: the one with the lower id waits for the answer to its own. The other one
        // answers, and still accepts an answer, because this message may be forged.
        if session.isInitiating, identity.peerID.hex < peerID.hex { return .ignore }
        if let answer = responses.retransmittedAnswer(to: message, now: now) { return .reply(answer) }
        var state = HandshakeState(role: .responder, prologue: [], staticKey: identity.agreementKey, ephemeral: ephemeral)
        guard (try? state.readMessage(message)) != nil, budget.admitAnswer(isSigned: isSigned, from: link, now: now),
            let answer = try? state.writeMessage(payload: [])
        else { return .ignore }
        responses.insert(state, firstMessage: message, secondMessage: answer, from: link, now: now)
        return .reply(answer)
    }

    private mutating func receiveSecond(_ message: [UInt8], now: MonotonicInstant) -> Reaction {
        if let third = session.retransmittedThirdMessage(for: message) { return .reply(third) }
        guard var state = session.initiation?.state, (try? state.readMessage(message)) != nil,
            let third = try? state.writeMessage(payload: []), let keys = try? state.split(), keys.peer.id == peerID
        else { return .ignore }
        session.establish(keys, exchange: (message, third), now: now)
        responses.removeAll()
        return .established(keys.peer, reply: third)
    }

    private mutating func receiveThird(_ message: [UInt8], now: MonotonicInstant) -> Reaction {
        guard let keys = responses.finish(with: message, as: peerID) else { return .ignore }
        session.establish(keys, now: now)
        responses.removeAll()
        return .established(keys.peer, reply: nil)
    }

    /// Returns the first message of this node's handshake for retransmission, when no answer was received for a while.
    mutating func retransmittedFirstMessage(now: MonotonicInstant) -> [UInt8]? { session.retransmittedFirstMessage(now: now) }

    /// Returns the second message for retransmission, to a peer that may not have received it.
    mutating func retransmittedSecondMessage(now: MonotonicInstant) -> [UInt8]? { responses.retransmittedAnswer(now: now) }

    // MARK: Messages

    /// Seals a message of the current session.
    /// - Throws: ``NoiseError/malformed`` without a session; ``NoiseError/nonceExhausted`` when its key is used up.
    mutating func seal(_ plaintext: [UInt8], now: MonotonicInstant) throws(NoiseError) -> [UInt8] {
        session.endSession(ifSilentFor: idleTimeout, now: now)
        return try session.seal(plaintext)
    }

    /// Opens a message of the current or the previous session.
    /// - Throws: ``NoiseError``; the caller then calls ``recordFailure()`` if the peer may have sealed it.
    mutating func open(
        _ message: ArraySlice<UInt8>, now: MonotonicInstant
    ) throws(NoiseError) -> MeshPeerSession.OpenedMessage {
        session.endSession(ifSilentFor: idleTimeout, now: now)
        return try session.open(message, now: now)
    }

    /// Records that a message could not be opened that the peer may have sealed.
    /// - Returns: whether a new handshake is justified.
    mutating func recordFailure() -> Bool {
        session.recordFailure()
        return session.shouldRestart
    }

    /// Ends the handshakes and the session whose time is over.
    mutating func expire(now: MonotonicInstant) {
        responses.expire(now: now)
        session.expire(idleTimeout: idleTimeout, now: now)
    }

    static let initiatorTimeout = Duration.seconds(10)
    private static let thirdMessageByteCount = 64
    private static let secondMessageByteCount = 96
}
