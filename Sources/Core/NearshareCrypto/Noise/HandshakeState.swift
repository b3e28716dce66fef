/// One party's state of a Noise handshake (Noise specification, revision 34, section 5.3) in any ``HandshakePattern``. Reading
/// commits after authenticating: a rejected message leaves the state unchanged.
///
/// After ``NoiseError/notAuthentic`` or ``NoiseError/lowOrderPoint`` the specification (section 5) asks the caller to delete
/// the state. Over a stream that is right, because only the peer can have sent the message. On a medium where others can inject
/// packets, the caller drops the forged message instead, and waits for the genuine one.
package struct HandshakeState: Sendable {
    /// Limit on a Noise message (section 3).
    package static let maximumMessageByteCount = 65_535

    private let pattern: HandshakePattern
    private let role: HandshakeRole
    /// s.
    private let staticKey: AgreementPrivateKey
    /// e.
    private let ephemeral: AgreementPrivateKey
    private var symmetric: SymmetricState
    /// re; nil until it was read.
    private var remoteEphemeral: AgreementPublicKey?
    /// rs; nil until it was read, unless the pattern has it as a pre-message.
    private var remoteStatic: AgreementPublicKey?
    /// The number of messages written and read.
    private var messageCount = 0

    /// Initialize: starts a handshake.
    /// - Parameters:
    ///   - prologue: Data that both parties must agree on.
    ///   - ephemeral: 32 fresh random bytes, used for this handshake only.
    ///   - responderKey: The responder's static key, exactly for the initiator of a pattern with that pre-message.
    package init(
        pattern: HandshakePattern = .xx, role: HandshakeRole, prologue: [UInt8], staticKey: AgreementPrivateKey,
        ephemeral: [UInt8], responderKey: AgreementPublicKey? = nil
    ) {
        // Safe: the caller decides this, never a peer's message.
        precondition((responderKey != nil) == (pattern.hasResponderPreMessage && role == .initiator))
        self.pattern = pattern
        self.role = role
        self.staticKey = staticKey
        // Safe: throws only for a wrong number of bytes, which is a caller's bug.
        self.ephemeral = try! AgreementPrivateKey(seed: ephemeral)
        remoteStatic = responderKey
        symmetric = SymmetricState(protocolName: pattern.protocolName)
        symmetric.mixHash(prologue)
        if pattern.hasResponderPreMessage { symmetric.mixHash((responderKey ?? staticKey.publicKey).bytes) }
    }

    /// Whether all messages were written and read, so that ``split()`` succeeds.
    package var isFinished: Bool { messageCount == pattern.messages.count }

    /// Whether the next message is one to write.
    private var isOurTurn: Bool { messageCount.isMultiple(of: 2) == (role == .initiator) }

    /// WriteMessage.
    /// - Throws: ``NoiseError/malformed`` when the next message is not one to write, or exceeds ``maximumMessageByteCount``.
    package mutating func writeMessage(payload: [UInt8]) throws(NoiseError) -> [UInt8] {
        guard !isFinished, isOurTurn else { throw .malformed }
        var next = self
        var message: [UInt8] = []
        for token in pattern.messages[messageCount] {
            switch token {
            case .e:
                message += ephemeral.publicKey.bytes
                next.symmetric.mixHash(ephemeral.publicKey.bytes)
            case .s:
                message += try next.symmetric.encryptAndHash(staticKey.publicKey.bytes)
            case .ee, .es, .se, .ss:
                try next.mix(token)
            }
        }
        message += try next.symmetric.encryptAndHash(payload)
        guard message.count <= Self.maximumMessageByteCount else { throw .malformed }
        next.messageCount += 1
        self = next
        return message
    }

    /// ReadMessage.
    /// - Returns: The payload.
    package mutating func readMessage(_ message: [UInt8]) throws(NoiseError) -> [UInt8] {
        guard !isFinished, !isOurTurn, message.count <= Self.maximumMessageByteCount else { throw .malformed }
        var next = self
        var rest = message[...]
        func readPrefix(_ count: Int) throws(NoiseError) -> [UInt8] {
            guard rest.count >= count else { throw .malformed }
            defer { rest = rest.dropFirst(count) }
            return Array(rest.prefix(count))
        }
        for token in pattern.messages[messageCount] {
            switch token {
            case .e:
                let key = try Self.publicKey(try readPrefix(AgreementPublicKey.byteCount))
                guard key != ephemeral.publicKey else { throw .ownKey }
                next.remoteEphemeral = key
                next.symmetric.mixHash(key.bytes)
            case .s:
                let tag = next.symmetric.hasKey ? ChaCha20Poly1305.tagByteCount : 0
                let key = try next.symmetric.decryptAndHash(try readPrefix(AgreementPublicKey.byteCount + tag))
                next.remoteStatic = try Self.publicKey(key)
            case .ee, .es, .se, .ss:
                try next.mix(token)
            }
        }
        let payload = try next.symmetric.decryptAndHash(Array(rest))
        guard next.remoteStatic != staticKey.publicKey else { throw .ownKey }
        next.messageCount += 1
        self = next
        return payload
    }

    /// Split: returns the transport keys of a completed handshake. After a one-way pattern only the initiator may use `send`,
    /// and only the responder `receive` (section 7.4).
    /// - Throws: ``NoiseError/malformed`` before the handshake is complete.
    package func split() throws(NoiseError) -> TransportKeys {
        guard isFinished, let remoteStatic else { throw .malformed }
        let (first, second) = symmetric.split()
        return TransportKeys(
            peer: AuthenticatedPeer(key: remoteStatic), send: role == .initiator ? first : second,
            receive: role == .initiator ? second : first, handshakeHash: symmetric.hash)
    }

    /// MixKey(DH(…)) for a Diffie-Hellman token.
    private mutating func mix(_ token: HandshakePattern.Token) throws(NoiseError) {
        let own: AgreementPrivateKey
        let other: AgreementPublicKey?
        switch (token, role) {
        case (.ee, _): (own, other) = (ephemeral, remoteEphemeral)
        case (.es, .initiator), (.se, .responder): (own, other) = (ephemeral, remoteStatic)
        case (.ss, _): (own, other) = (staticKey, remoteStatic)
        default: (own, other) = (staticKey, remoteEphemeral)
        }
        guard let other else { throw .malformed }
        do {
            symmetric.mixKey(try own.sharedSecret(with: other))
        } catch {
            throw .lowOrderPoint
        }
    }

    private static func publicKey(_ bytes: [UInt8]) throws(NoiseError) -> AgreementPublicKey {
        do {
            return try AgreementPublicKey(bytes)
        } catch {
            throw error == .lowOrderPoint ? .lowOrderPoint : .malformed
        }
    }
}
