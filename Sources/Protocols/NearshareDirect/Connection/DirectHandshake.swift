internal import NearshareBase
package import NearshareCrypto

/// The handshake of a direct link: preambles, then Noise XX with a length of 2 bytes before each message
/// (`docs/PROTOCOL.md`, sections 2 and 3).
///
///     initiator:  not started ──► awaiting responder's preamble ──► awaiting second message ──► finished
///     responder:  awaiting initiator's preamble ──► awaiting first message ──► awaiting third message ──► finished
///
/// From every state, a violation leads to "finished".
package struct DirectHandshake: Sendable {
    /// The driver's next step.
    package enum Step: Sendable {
        /// Read more bytes.
        case needsMoreBytes
        /// Send these bytes, then read more.
        case send([UInt8])
        /// Send these bytes, then continue with records.
        case established(EstablishedLink, send: [UInt8])
        /// Send these bytes, then close the link.
        case failed(HandshakeFailure, send: [UInt8])
    }

    /// The number of random bytes that a handshake needs: for the ephemeral key, and for a responder's key of ML-KEM-768.
    package static let entropyByteCount = ephemeralByteCount + DecapsulationKey.seedByteCount
    private static let ephemeralByteCount = 32

    /// Limit on the first handshake message; a longer one is rejected by its length.
    package static let maximumFirstMessageByteCount = 1024
    /// Limit on the other handshake messages, in which keys of ML-KEM-768 are sent.
    package static let maximumMessageByteCount = 4096

    private let local: LocalParameters
    private var state: State
    /// Received bytes that are not consumed yet.
    private var input: [UInt8] = []

    /// Prepares a handshake. The initiator calls ``start()`` first.
    /// - Parameters:
    ///   - entropy: ``entropyByteCount`` fresh random bytes, used for this handshake only.
    ///   - ciphers: The record ciphers that this machine accelerates.
    ///   - versions: The versions to offer or choose from.
    package init(
        role: HandshakeRole, identity: LocalIdentity, entropy: [UInt8], ciphers: CipherSet,
        encryption: EncryptionPreference = .required, versions: Preamble = .supported
    ) {
        local = LocalParameters(
            role: role, identity: identity, entropy: entropy, ciphers: encryption.offered(accelerated: ciphers),
            versions: versions)
        state = role == .initiator ? .notStarted : .awaitingInitiatorPreamble
    }

    /// Returns the bytes to send first: the initiator's preamble and first message, nothing for a responder.
    package mutating func start() throws(HandshakeFailure) -> [UInt8] {
        guard case .notStarted = state else { return [] }
        let preamble = local.versions.encoded
        var noise = local.makeNoise(initiatorPreamble: preamble)
        let message = try noise.writeFramed([])
        state = .awaitingResponderPreamble(noise)
        return preamble + message
    }

    /// Processes bytes from the peer.
    package mutating func receive(_ bytes: some Sequence<UInt8>) -> Step {
        if case .finished = state { return .needsMoreBytes }
        input.append(contentsOf: bytes)
        do throws(HandshakeFailure) {
            // A message may follow a preamble in the same bytes.
            while true {
                let (next, reaction) = try state.next(reading: &input, local)
                state = next
                switch reaction {
                case .awaitMore: return .needsMoreBytes
                case .proceed: continue
                case .send(let bytes): return .send(bytes)
                case .fail(let failure, let bytes): return .failed(failure, send: bytes)
                case .establish(let agreement, let bytes):
                    let leftover = input
                    input = []
                    return .established(agreement.makeLink(leftover: leftover), send: bytes)
                }
            }
        } catch {
            state = .finished
            return .failed(error, send: [])
        }
    }
}

// MARK: States

extension DirectHandshake {
    /// This party's constants of the handshake; ``ResponderParameters`` and ``InitiatorParameters`` are sent in its messages.
    private struct LocalParameters: Sendable {
        let role: HandshakeRole
        let identity: LocalIdentity
        let entropy: [UInt8]
        /// The record ciphers to offer or choose from.
        let ciphers: CipherSet
        let versions: Preamble

        /// The prologue contains the initiator's preamble, so that an attacker cannot reduce the versions that it offers.
        func makeNoise(initiatorPreamble: [UInt8]) -> HandshakeState {
            HandshakeState(
                role: role, prologue: Array("nearshare direct".utf8) + initiatorPreamble, staticKey: identity.agreementKey,
                ephemeral: Array(entropy.prefix(ephemeralByteCount)))
        }

        /// The responder's key of ML-KEM-768; nil for a version without it.
        func makeDecapsulationKey(version: UInt8) throws(HandshakeFailure) -> DecapsulationKey? {
            guard version >= Preamble.hybridVersion else { return nil }
            return try mappingCryptoErrors { () throws(CryptoError) in
                try DecapsulationKey(seed: entropy.dropFirst(ephemeralByteCount))
            }
        }
    }

    /// The result of one transition of the state, from which ``receive(_:)`` makes a ``Step``.
    private enum Reaction {
        /// The input has no complete preamble or message.
        case awaitMore
        /// Nothing is to be sent; the input may have the next message.
        case proceed
        case send([UInt8])
        case fail(HandshakeFailure, send: [UInt8])
        case establish(Agreement, send: [UInt8])
    }

    /// The result of both parties' messages.
    private struct Agreement {
        let keys: TransportKeys
        let version: UInt8
        let cipher: RecordCipher.Kind
        /// The shared secret of ML-KEM-768; nil in version 1.
        let kemSecret: SecretBytes?

        func makeLink(leftover: [UInt8]) -> EstablishedLink {
            EstablishedLink(keys, version: version, cipher: cipher, kemSecret: kemSecret, leftover: leftover)
        }
    }

    private enum State: Sendable {
        /// The initiator has sent nothing.
        case notStarted
        /// The initiator has sent its preamble and the first message.
        case awaitingResponderPreamble(HandshakeState)
        /// The initiator has received the version that the responder has chosen.
        case awaitingSecondMessage(HandshakeState, version: UInt8)
        /// The responder has received no complete preamble.
        case awaitingInitiatorPreamble
        /// The responder has answered nothing yet: its preamble is sent with the second message.
        case awaitingFirstMessage(initiatorPreamble: [UInt8], version: UInt8)
        /// The responder has sent its preamble and the second message.
        case awaitingThirdMessage(HandshakeState, version: UInt8, DecapsulationKey?)
        /// Completed or failed.
        case finished

        /// The state and reaction after consuming the next preamble or message of `input`.
        consuming func next(
            reading input: inout [UInt8], _ local: LocalParameters
        ) throws(HandshakeFailure) -> (State, Reaction) {
            switch consume self {
            // Bytes that come too early stay in the input.
            case .notStarted: return (.notStarted, .awaitMore)
            case .awaitingResponderPreamble(let noise):
                guard let preamble = try Preamble.read(from: &input) else {
                    return (.awaitingResponderPreamble(noise), .awaitMore)
                }
                guard let version = local.versions.newestInCommon(with: preamble) else {
                    return (.finished, .fail(.incompatible(remote: preamble), send: []))
                }
                guard preamble.newest == preamble.oldest else {
                    throw .protocolViolation("the peer chose no version of the protocol")
                }
                return (.awaitingSecondMessage(noise, version: version), .proceed)
            case .awaitingInitiatorPreamble:
                let received = Array(input.prefix(Preamble.byteCount))
                guard let preamble = try Preamble.read(from: &input) else { return (.awaitingInitiatorPreamble, .awaitMore) }
                guard let version = local.versions.newestInCommon(with: preamble) else {
                    return (.finished, .fail(.incompatible(remote: preamble), send: local.versions.encoded))
                }
                return (.awaitingFirstMessage(initiatorPreamble: received, version: version), .proceed)
            case .awaitingFirstMessage(let preamble, let version):
                guard let message = try HandshakeState.readFrame(from: &input, limit: maximumFirstMessageByteCount) else {
                    return (.awaitingFirstMessage(initiatorPreamble: preamble, version: version), .awaitMore)
                }
                return try Self.answer(message, initiatorPreamble: preamble, version: version, local)
            case .awaitingSecondMessage(var noise, let version):
                guard let payload = try noise.readFramed(from: &input) else {
                    return (.awaitingSecondMessage(noise, version: version), .awaitMore)
                }
                return try Self.choose(from: try ResponderParameters.decode(payload), noise, version: version, local)
            case .awaitingThirdMessage(var noise, let version, let decapsulationKey):
                guard let payload = try noise.readFramed(from: &input) else {
                    return (.awaitingThirdMessage(noise, version: version, decapsulationKey), .awaitMore)
                }
                let chosen = try InitiatorParameters.decode(payload, version: version)
                return try Self.complete(noise, with: chosen, version: version, decapsulationKey, local)
            case .finished: return (.finished, .awaitMore)
            }
        }

        /// The responder's answer to the first message: what it can do, and its key of ML-KEM-768. No key is made before the
        /// initiator has sent one (R9).
        private static func answer(
            _ message: [UInt8], initiatorPreamble: [UInt8], version: UInt8, _ local: LocalParameters
        ) throws(HandshakeFailure) -> (State, Reaction) {
            var noise = local.makeNoise(initiatorPreamble: initiatorPreamble)
            guard try noise.read(message).isEmpty else { throw .protocolViolation("the first message has a payload") }
            let chosen = Preamble(newest: version, oldest: version)
            let decapsulationKey = try local.makeDecapsulationKey(version: version)
            let answer = ResponderParameters(
                version: version, ciphers: local.ciphers, encapsulationKey: decapsulationKey?.encapsulationKey)
            let bytes = chosen.encoded + (try noise.writeFramed(answer.encoded))
            return (.awaitingThirdMessage(noise, version: version, decapsulationKey), .send(bytes))
        }

        /// The initiator's choice among the ciphers that both have, and its secret for the responder's key.
        private static func choose(
            from remote: ResponderParameters, _ noise: HandshakeState, version: UInt8, _ local: LocalParameters
        ) throws(HandshakeFailure) -> (State, Reaction) {
            var noise = noise
            guard remote.version == version else { throw .notAuthentic("the version was changed on the way") }
            guard let cipher = EncryptionPreference.choose(from: remote.ciphers.intersection(local.ciphers)) else {
                let refusal = try noise.writeFramed(InitiatorParameters(cipher: InitiatorParameters.noCipher).encoded)
                return (.finished, .fail(.encryptionMismatch, send: refusal))
            }
            let encapsulated = try remote.encapsulationKey.map { (key) throws(HandshakeFailure) in
                try mappingCryptoErrors { () throws(CryptoError) in try DecapsulationKey.encapsulate(to: key) }
            }
            let answer = InitiatorParameters(cipher: cipher.rawValue, ciphertext: encapsulated?.ciphertext)
            let message = try noise.writeFramed(answer.encoded)
            let agreement = Agreement(
                keys: try noise.transportKeys(), version: version, cipher: cipher, kemSecret: encapsulated?.secret)
            return (.finished, .establish(agreement, send: message))
        }

        /// The responder's end of the handshake, with the cipher and the secret that the initiator has chosen.
        private static func complete(
            _ noise: HandshakeState, with chosen: InitiatorParameters, version: UInt8,
            _ decapsulationKey: DecapsulationKey?, _ local: LocalParameters
        ) throws(HandshakeFailure) -> (State, Reaction) {
            guard chosen.cipher != InitiatorParameters.noCipher else { throw .encryptionMismatch }
            guard let cipher = RecordCipher.Kind(rawValue: chosen.cipher), local.ciphers.contains(CipherSet(only: cipher))
            else { throw .protocolViolation("the peer chose a cipher that was not offered") }
            var kemSecret: SecretBytes?
            if let decapsulationKey, let ciphertext = chosen.ciphertext {
                kemSecret = try mappingCryptoErrors { () throws(CryptoError) in try decapsulationKey.decapsulate(ciphertext) }
            }
            let agreement = Agreement(
                keys: try noise.transportKeys(), version: version, cipher: cipher, kemSecret: kemSecret)
            return (.finished, .establish(agreement, send: []))
        }
    }
}

// MARK: Framing

extension Preamble {
    /// Consumes a preamble; nil while it is incomplete. Another protocol is rejected by its first bytes.
    fileprivate static func read(from input: inout [UInt8]) throws(HandshakeFailure) -> Preamble? {
        guard Kind.direct.magic.starts(with: input.prefix(Kind.direct.magic.count)) else { throw .notNearshare }
        guard input.count >= byteCount else { return nil }
        defer { input.removeFirst(byteCount) }
        do {
            return try Preamble(decoding: input.prefix(byteCount))
        } catch {
            throw .protocolViolation(error.description)
        }
    }
}

extension HandshakeState {
    /// Writes a message with its length.
    fileprivate mutating func writeFramed(_ payload: [UInt8]) throws(HandshakeFailure) -> [UInt8] {
        do {
            let message = try writeMessage(payload: payload)
            return UInt16(message.count).bigEndianBytes + message
        } catch {
            throw .notAuthentic("\(error)")
        }
    }

    /// Consumes and reads a message with its length; nil while it is incomplete.
    fileprivate mutating func readFramed(from input: inout [UInt8]) throws(HandshakeFailure) -> [UInt8]? {
        guard let message = try Self.readFrame(from: &input, limit: DirectHandshake.maximumMessageByteCount) else { return nil }
        return try read(message)
    }

    /// Consumes a message with its length; nil while it is incomplete.
    fileprivate static func readFrame(from input: inout [UInt8], limit: Int) throws(HandshakeFailure) -> [UInt8]? {
        guard let prefix = UInt16(bigEndianBytes: input.prefix(2)) else { return nil }
        let length = Int(prefix)
        guard length <= limit else {
            throw .protocolViolation("a handshake message of \(length) bytes")
        }
        guard input.count >= 2 + length else { return nil }
        defer { input.removeFirst(2 + length) }
        return Array(input[2..<2 + length])
    }

    /// Reads a message; returns its payload.
    fileprivate mutating func read(_ message: [UInt8]) throws(HandshakeFailure) -> [UInt8] {
        do {
            return try readMessage(message)
        } catch {
            throw error == .ownKey ? .ownKey : .notAuthentic("\(error)")
        }
    }

    /// The keys of both directions, after the last message.
    fileprivate func transportKeys() throws(HandshakeFailure) -> TransportKeys {
        do {
            return try split()
        } catch {
            throw .notAuthentic("\(error)")
        }
    }
}

extension ResponderParameters {
    fileprivate static func decode(_ payload: [UInt8]) throws(HandshakeFailure) -> Self {
        do {
            return try Self(decoding: payload)
        } catch {
            throw .protocolViolation(error.description)
        }
    }
}

extension InitiatorParameters {
    fileprivate static func decode(_ payload: [UInt8], version: UInt8) throws(HandshakeFailure) -> Self {
        do {
            return try Self(decoding: payload, version: version)
        } catch {
            throw .protocolViolation(error.description)
        }
    }
}

/// Turns the failure of a key exchange into one of the handshake.
private func mappingCryptoErrors<Result>(_ body: () throws(CryptoError) -> Result) throws(HandshakeFailure) -> Result {
    do {
        return try body()
    } catch {
        throw .notAuthentic(error.description)
    }
}
