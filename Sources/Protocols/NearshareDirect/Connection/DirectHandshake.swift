package import NearshareCrypto

/// Why two peers could not establish an encrypted link. The text is for people.
package enum HandshakeFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// Whoever answers does not speak this protocol, or speaks it wrongly.
    case notAPeer(String)
    /// No version of the protocol is spoken at both ends.
    case incompatible(theirs: Preamble)
    /// What arrived was not made by who holds the key, or altered on its way.
    case notAuthentic(String)
    /// One end wants everything hidden, the other nothing.
    case encryption
    /// It is ourselves.
    case ownKey

    package var description: String {
        switch self {
        case .notAPeer(let why): why
        case .incompatible(let theirs):
            "the other side speaks \(theirs.shown) of the protocol, this one \(Preamble.supported.shown); "
                + "update the older of the two"
        case .notAuthentic(let why): "the encrypted handshake failed (\(why)); try again, and beware if it fails again"
        case .encryption:
            "one side demands encryption and the other does without it; choose `optional` or `required` on both"
        case .ownKey: "that is this very machine's own key; a peer is somebody else"
        }
    }
}

/// What the handshake leaves behind.
package struct EstablishedLink: Sendable {
    /// Whose key was proven.
    package let peer: AuthenticatedPeer
    /// Of the protocol.
    package let version: UInt8
    /// Of the records, in both directions.
    package let cipher: RecordCipher.Kind
    /// For what goes out.
    package let sealer: RecordSealer
    /// For what comes in.
    package let opener: RecordOpener
    /// SHA-256 over all that both sides have said: the same on both ends, unless somebody sits between them.
    package let handshakeHash: [UInt8]
    /// For what goes beside the link and may be lost.
    package let datagrams: NoiseDatagrams
    /// What has already arrived behind the handshake.
    package let leftover: [UInt8]
}

/// Preambles, then Noise XX with each message behind its 2-byte length, then the record keys
/// (`docs/PROTOCOL.md`, sections 2 and 3).
///
///     initiator:  awaiting preamble ──► awaiting second message ──► established
///     responder:  awaiting preamble ──► awaiting first message ──► awaiting third message ──► established
package struct DirectHandshake: Sendable {
    /// What is to be done after what came.
    package enum Step: Sendable {
        /// Go on with what arrives next.
        case needsMore
        /// Send this, and go on with what arrives.
        case send([UInt8])
        /// Send this, and go on with records.
        case established(EstablishedLink, send: [UInt8])
        /// Send this, and close.
        case failed(HandshakeFailure, send: [UInt8])
    }

    private enum State {
        case awaitingPreamble
        case awaitingMessage
        case over
    }

    /// Longer handshake messages are refused before they are read.
    package static let maximumMessageByteCount = 1024

    private let role: HandshakeRole
    private let identity: LocalIdentity
    private let ephemeral: [UInt8]
    private let ciphers: UInt8
    private var state = State.awaitingPreamble
    private var noise: HandshakeState?
    private var version: UInt8 = 0
    private var isThirdMessageNext = false
    private var buffer: [UInt8] = []

    /// - Parameters:
    ///   - ephemeral: 32 fresh random bytes, used for this handshake only.
    ///   - ciphers: the record ciphers that this machine is fast at; bit n for cipher n.
    package init(
        role: HandshakeRole, identity: LocalIdentity, ephemeral: [UInt8], ciphers: UInt8,
        encryption: EncryptionPreference = .required
    ) {
        self.role = role
        self.identity = identity
        self.ephemeral = ephemeral
        self.ciphers = encryption.offered(accelerated: ciphers)
    }

    /// What goes out first: the initiator's preamble and first message; nothing for a responder.
    package mutating func start() throws(HandshakeFailure) -> [UInt8] {
        guard role == .initiator else { return [] }
        let preamble = Preamble.supported.encoded
        noise = makeNoise(initiatorPreamble: preamble)
        return preamble + (try write([]))
    }

    /// Takes bytes as they come in.
    package mutating func receive(_ bytes: some Sequence<UInt8>) -> Step {
        buffer.append(contentsOf: bytes)
        do throws(HandshakeFailure) {
            switch state {
            case .awaitingPreamble:
                guard buffer.count >= Preamble.byteCount else {
                    // A stranger that is not one of us is told apart by its first bytes.
                    guard Preamble.supported.encoded.prefix(4).starts(with: buffer.prefix(4)) else {
                        throw .notAPeer("whoever answers there does not speak nearshare's protocol")
                    }
                    return .needsMore
                }
                let raw = Array(buffer.prefix(Preamble.byteCount))
                buffer.removeFirst(Preamble.byteCount)
                if let refusal = try receivePreamble(raw) {
                    state = .over
                    return refusal
                }
                state = .awaitingMessage
                return try takeMessage()
            case .awaitingMessage: return try takeMessage()
            case .over: return .needsMore
            }
        } catch {
            state = .over
            return .failed(error, send: [])
        }
    }

    private mutating func receivePreamble(_ raw: [UInt8]) throws(HandshakeFailure) -> Step? {
        let theirs: Preamble
        do {
            theirs = try Preamble(decoding: raw[...])
        } catch {
            throw .notAPeer(error.description)
        }
        guard let common = Preamble.supported.newestInCommon(with: theirs) else {
            return .failed(.incompatible(theirs: theirs), send: role == .responder ? Preamble.supported.encoded : [])
        }
        version = common
        if role == .responder { noise = makeNoise(initiatorPreamble: raw) }
        return nil
    }

    /// The initiator's preamble is part of the prologue, so that nobody can make it offer less than it does.
    private func makeNoise(initiatorPreamble: [UInt8]) -> HandshakeState {
        HandshakeState(
            role: role, prologue: Array("nearshare direct".utf8) + initiatorPreamble, staticKey: identity.agreementKey,
            ephemeral: ephemeral)
    }

    private mutating func takeMessage() throws(HandshakeFailure) -> Step {
        guard buffer.count >= 2 else { return .needsMore }
        let length = Int(buffer[0]) << 8 | Int(buffer[1])
        guard length <= Self.maximumMessageByteCount else { throw .notAPeer("a handshake message of \(length) bytes") }
        guard buffer.count >= 2 + length else { return .needsMore }
        let payload: [UInt8]
        do {
            payload = try noise!.readMessage(Array(buffer[2..<2 + length]))
        } catch {
            throw error == .ownKey ? .ownKey : .notAuthentic("\(error)")
        }
        buffer.removeFirst(2 + length)
        switch (role, isThirdMessageNext) {
        case (.initiator, _): return try receiveSecond(payload)
        case (.responder, false):
            isThirdMessageNext = true
            let own = ResponderParameters(version: version, ciphers: ciphers)
            let chosen = Preamble(newest: version, oldest: version)
            return .send(chosen.encoded + (try write(own.encoded)))
        case (.responder, true): return try receiveThird(payload)
        }
    }

    private mutating func receiveSecond(_ payload: [UInt8]) throws(HandshakeFailure) -> Step {
        let theirs: ResponderParameters
        do {
            theirs = try ResponderParameters(decoding: payload)
        } catch {
            throw .notAPeer(error.description)
        }
        guard theirs.version == version else { throw .notAuthentic("somebody changed the version on its way") }
        guard let cipher = EncryptionPreference.choose(from: theirs.ciphers & ciphers) else {
            state = .over
            return .failed(.encryption, send: try write(InitiatorParameters(cipher: InitiatorParameters.noCipher).encoded))
        }
        let message = try write(InitiatorParameters(cipher: cipher.rawValue).encoded)
        return .established(try finish(cipher), send: message)
    }

    private mutating func receiveThird(_ payload: [UInt8]) throws(HandshakeFailure) -> Step {
        let chosen: InitiatorParameters
        do {
            chosen = try InitiatorParameters(decoding: payload)
        } catch {
            throw .notAPeer(error.description)
        }
        guard chosen.cipher != InitiatorParameters.noCipher else { throw .encryption }
        guard let cipher = RecordCipher.Kind(rawValue: chosen.cipher), ciphers & 1 << cipher.rawValue != 0 else {
            throw .notAPeer("the other side chose a cipher that was not on offer")
        }
        return .established(try finish(cipher), send: [])
    }

    private mutating func write(_ payload: [UInt8]) throws(HandshakeFailure) -> [UInt8] {
        do {
            let message = try noise!.writeMessage(payload: payload)
            return [UInt8(message.count >> 8), UInt8(message.count & 255)] + message
        } catch {
            throw .notAuthentic("\(error)")
        }
    }

    private mutating func finish(_ cipher: RecordCipher.Kind) throws(HandshakeFailure) -> EstablishedLink {
        state = .over
        let keys: TransportKeys
        do {
            keys = try noise!.split()
        } catch {
            throw .notAuthentic("\(error)")
        }
        defer { buffer = [] }
        return EstablishedLink(
            peer: keys.peer, version: version, cipher: cipher,
            sealer: RecordSealer(RecordCipher(cipher, key: Self.recordKey(keys.send, keys.handshakeHash, cipher))),
            opener: RecordOpener(RecordCipher(cipher, key: Self.recordKey(keys.receive, keys.handshakeHash, cipher))),
            handshakeHash: keys.handshakeHash,
            datagrams: NoiseDatagrams(
                send: Self.datagramKey(keys.send, keys.handshakeHash),
                receive: Self.datagramKey(keys.receive, keys.handshakeHash)),
            leftover: buffer)
    }

    /// HKDF-SHA256 with the handshake hash as salt, so that a record key belongs to this conversation and this cipher alone.
    private static func recordKey(_ key: CipherState, _ handshakeHash: [UInt8], _ cipher: RecordCipher.Kind) -> [UInt8] {
        let input = key.withKey { Array($0) } ?? []
        return HKDF.derive(
            from: input, salt: handshakeHash, info: Array("nearshare record".utf8) + [cipher.rawValue], byteCount: 32)
    }

    private static func datagramKey(_ key: CipherState, _ handshakeHash: [UInt8]) -> CipherState {
        let input = key.withKey { Array($0) } ?? []
        let derived = HKDF.derive(
            from: input, salt: handshakeHash, info: Array("nearshare datagram".utf8), byteCount: 32)
        return CipherState(key: SecretBytes(derived))
    }
}
