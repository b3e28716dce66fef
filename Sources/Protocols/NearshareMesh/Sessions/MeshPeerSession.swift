internal import NearshareBase
internal import NearshareCrypto

/// The Noise session with one peer, and the handshake for it that this node began (bitchat specification, section 8).
///
///     idle ──start──► initiating ──second message──► established ──start──► renewing
///      ▲                  │                          ▲    ▲                    │
///      └─────timeout──────┘                          │    └──timeout, second message
///      any ──third message of an answered handshake──┘
///
/// A session also ends, to idle or initiating, when nothing arrives in it for its lifetime.
enum MeshPeerSession: Sendable {
    case idle
    case initiating(Initiation)
    case established(Transport)
    /// The session stays in use until the handshake replaces it.
    case renewing(Transport, Initiation)

    /// An authentic message of the peer.
    struct OpenedMessage: Sendable {
        let plaintext: [UInt8]
        /// The place among all messages that the peer has sealed in the current session, from 0; nil for a message of the
        /// previous session.
        let counter: UInt32?
    }

    /// A handshake started by this node whose second message was not received yet.
    struct Initiation: Sendable {
        let state: HandshakeState
        let firstMessage: [UInt8]
        let deadline: MonotonicInstant
        /// When the first message was last sent.
        var sent: MonotonicInstant
    }

    /// The keys of a finished handshake.
    struct Transport: Sendable {
        let peer: AuthenticatedPeer
        var current: NoiseDatagrams
        /// The previous session's keys, for messages that the peer has sealed before the change.
        var previous: NoiseDatagrams?
        /// The second message that established the session, and the third that answered it: sent again when the second is
        /// repeated.
        let exchange: (second: [UInt8], third: [UInt8])?
        /// When an authentic message was last received, or else the session was established.
        var renewed: MonotonicInstant
        /// Messages in a row that could not be opened.
        var failureCount = 0
    }

    var isEstablished: Bool {
        switch self {
        case .established, .renewing: true
        case .idle, .initiating: false
        }
    }

    var isInitiating: Bool {
        switch self {
        case .initiating, .renewing: true
        case .idle, .established: false
        }
    }

    var peer: AuthenticatedPeer? { transport?.peer }

    /// The handshake started by this node.
    var initiation: Initiation? {
        switch self {
        case .initiating(let initiation), .renewing(_, let initiation): initiation
        case .idle, .established: nil
        }
    }

    private var transport: Transport? {
        switch self {
        case .established(let transport), .renewing(let transport, _): transport
        case .idle, .initiating: nil
        }
    }

    /// Whether a message that could not be opened justifies a new handshake: there is no session for it, or the third in a row
    /// failed, so the peer may have lost its keys.
    var shouldRestart: Bool { transport.map { $0.failureCount >= Self.maximumFailureCount } ?? true }

    /// The third message again, when the second that it answered is repeated.
    func retransmittedThirdMessage(for second: [UInt8]) -> [UInt8]? {
        guard let exchange = transport?.exchange, exchange.second == second else { return nil }
        return exchange.third
    }

    // MARK: Handshake

    /// Starts a handshake, unless one is in progress.
    mutating func start(_ initiation: Initiation) {
        switch consume self {
        case .idle: self = .initiating(initiation)
        case .established(let transport): self = .renewing(transport, initiation)
        case .initiating(let present): self = .initiating(present)
        case .renewing(let transport, let present): self = .renewing(transport, present)
        }
    }

    /// Returns the first message again, when no answer was received for a while.
    mutating func retransmittedFirstMessage(now: MonotonicInstant) -> [UInt8]? {
        guard var initiation, now - initiation.sent >= Self.retransmissionInterval else { return nil }
        initiation.sent = now
        switch consume self {
        case .idle: self = .idle
        case .initiating: self = .initiating(initiation)
        case .established(let transport): self = .established(transport)
        case .renewing(let transport, _): self = .renewing(transport, initiation)
        }
        return initiation.firstMessage
    }

    /// Replaces the current state by a new session. A handshake started by this node ends.
    mutating func establish(
        _ keys: TransportKeys, exchange: (second: [UInt8], third: [UInt8])? = nil, now: MonotonicInstant
    ) {
        let previous: NoiseDatagrams?
        switch consume self {
        case .idle, .initiating: previous = nil
        case .established(let transport), .renewing(let transport, _): previous = transport.current
        }
        self = .established(
            Transport(
                peer: keys.peer, current: NoiseDatagrams(send: keys.send, receive: keys.receive), previous: previous,
                exchange: exchange, renewed: now))
    }

    // MARK: Messages

    /// - Throws: ``NoiseError/malformed`` without a session; ``NoiseError/nonceExhausted`` when its key is used up.
    mutating func seal(_ plaintext: [UInt8]) throws(NoiseError) -> [UInt8] {
        try withTransport { (transport) throws(NoiseError) in try transport.current.seal(plaintext) }
    }

    /// - Throws: ``NoiseError/malformed`` without a session, or for a message that is not authentic.
    mutating func open(_ message: ArraySlice<UInt8>, now: MonotonicInstant) throws(NoiseError) -> OpenedMessage {
        try withTransport { (transport) throws(NoiseError) in
            do throws(NoiseError) {
                let plaintext = try transport.current.open(message)
                transport.failureCount = 0
                transport.renewed = now
                return OpenedMessage(plaintext: plaintext, counter: NoiseDatagrams.counter(of: message))
            } catch {
                if let plaintext = try? transport.previous?.open(message) {
                    return OpenedMessage(plaintext: plaintext, counter: nil)
                }
                throw error
            }
        }
    }

    /// Records that a message could not be opened that the peer may have sealed.
    mutating func recordFailure() { try? withTransport { $0.failureCount += 1 } }

    /// - Throws: ``NoiseError/malformed`` without a session.
    private mutating func withTransport<Value>(
        _ body: (inout Transport) throws(NoiseError) -> Value
    ) throws(NoiseError) -> Value {
        switch consume self {
        case .idle:
            self = .idle
            throw .malformed
        case .initiating(let initiation):
            self = .initiating(initiation)
            throw .malformed
        case .established(var transport):
            let result = Result { () throws(NoiseError) in try body(&transport) }
            self = .established(transport)
            return try result.get()
        case .renewing(var transport, let initiation):
            let result = Result { () throws(NoiseError) in try body(&transport) }
            self = .renewing(transport, initiation)
            return try result.get()
        }
    }

    // MARK: Time

    /// Ends a handshake whose answer is overdue, and a session without messages for `idleTimeout`.
    mutating func expire(idleTimeout: Duration, now: MonotonicInstant) {
        endSession(ifSilentFor: idleTimeout, now: now)
        guard let initiation, initiation.deadline <= now else { return }
        switch consume self {
        case .idle, .initiating: self = .idle
        case .established(let transport), .renewing(let transport, _): self = .established(transport)
        }
    }

    mutating func endSession(ifSilentFor idleTimeout: Duration, now: MonotonicInstant) {
        guard let renewed = transport?.renewed, now - renewed >= idleTimeout else { return }
        switch consume self {
        case .idle, .established: self = .idle
        case .initiating(let initiation), .renewing(_, let initiation): self = .initiating(initiation)
        }
    }

    private static let retransmissionInterval = Duration.seconds(3)
    private static let maximumFailureCount = 3
}
