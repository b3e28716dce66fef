package enum HandshakeRole: Sendable, Hashable {
    case initiator
    case responder
}

/// One side of a Noise handshake (Noise specification, revision 34, section 5.3), in any ``HandshakePattern``. A message that is
/// refused changes nothing: the state works on a copy and keeps it only when all of it was authentic.
///
/// After ``NoiseError/notAuthentic`` or ``NoiseError/lowOrderPoint`` the specification (section 5) wants the state deleted,
/// which is its owner's part: over a stream nobody but the peer can have sent the message, so the link ends. Where strangers
/// can put packets between the peer's, a forged one must not end the handshake: drop it, and wait for the genuine one.
package struct HandshakeState: Sendable {
    /// Section 3.
    package static let maximumMessageByteCount = 65_535

    private let pattern: HandshakePattern
    private let role: HandshakeRole
    private let staticKey: AgreementPrivateKey
    private let ephemeral: AgreementPrivateKey
    private var symmetric: SymmetricState
    private var remoteEphemeral: AgreementPublicKey?
    private var remoteStatic: AgreementPublicKey?
    private var messageCount = 0

    /// - Parameters:
    ///   - prologue: what both sides must agree on besides.
    ///   - ephemeral: 32 fresh random bytes, for this handshake only.
    ///   - recipient: for the initiator of a pattern that has to know whom it speaks to; nil otherwise.
    package init(
        pattern: HandshakePattern = .xx, role: HandshakeRole, prologue: [UInt8], staticKey: AgreementPrivateKey,
        ephemeral: [UInt8], recipient: AgreementPublicKey? = nil
    ) {
        // Whether there is a recipient is decided where this is called, never by what a peer sends.
        precondition((recipient != nil) == (pattern.knowsRecipient && role == .initiator))
        self.pattern = pattern
        self.role = role
        self.staticKey = staticKey
        // A wrong number of bytes is our own bug.
        self.ephemeral = try! AgreementPrivateKey(seed: ephemeral)
        remoteStatic = recipient
        symmetric = SymmetricState(protocolName: pattern.protocolName)
        symmetric.mixHash(prologue)
        if pattern.knowsRecipient { symmetric.mixHash((recipient ?? staticKey.publicKey).bytes) }
    }

    package var isFinished: Bool { messageCount == pattern.messages.count }

    private var isOurTurn: Bool { messageCount.isMultiple(of: 2) == (role == .initiator) }

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

    /// - Returns: the payload.
    package mutating func readMessage(_ message: [UInt8]) throws(NoiseError) -> [UInt8] {
        guard !isFinished, !isOurTurn, message.count <= Self.maximumMessageByteCount else { throw .malformed }
        var next = self
        var rest = message[...]
        func take(_ count: Int) throws(NoiseError) -> [UInt8] {
            guard rest.count >= count else { throw .malformed }
            defer { rest = rest.dropFirst(count) }
            return Array(rest.prefix(count))
        }
        for token in pattern.messages[messageCount] {
            switch token {
            case .e:
                let key = try Self.publicKey(try take(AgreementPublicKey.byteCount))
                guard key != ephemeral.publicKey else { throw .ourselves }
                next.remoteEphemeral = key
                next.symmetric.mixHash(key.bytes)
            case .s:
                let tag = next.symmetric.hasKey ? MessageCipher.tagByteCount : 0
                let key = try next.symmetric.decryptAndHash(try take(AgreementPublicKey.byteCount + tag))
                next.remoteStatic = try Self.publicKey(key)
            case .ee, .es, .se, .ss:
                try next.mix(token)
            }
        }
        let payload = try next.symmetric.decryptAndHash(Array(rest))
        guard next.remoteStatic != staticKey.publicKey else { throw .ourselves }
        next.messageCount += 1
        self = next
        return payload
    }

    /// The keys that the finished handshake leaves. After a one-way pattern only the initiator may use its `send`, and only the
    /// responder its `receive` (section 7.4).
    package func split() throws(NoiseError) -> TransportKeys {
        guard isFinished, let remoteStatic else { throw .malformed }
        let (first, second) = symmetric.split()
        return TransportKeys(
            peer: AuthenticatedPeer(key: remoteStatic), send: role == .initiator ? first : second,
            receive: role == .initiator ? second : first, handshakeHash: symmetric.hash)
    }

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

/// What a finished handshake leaves behind.
package struct TransportKeys: Sendable {
    package let peer: AuthenticatedPeer
    package let send: CipherState
    package let receive: CipherState
    /// 32 bytes, the same on both sides of one handshake and of no other (Noise specification, section 11.2).
    package let handshakeHash: [UInt8]
}
