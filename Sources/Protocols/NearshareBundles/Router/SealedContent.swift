package import NearshareBase
package import NearshareCrypto

/// Somebody whom messages can be sealed for: known from an earlier meeting, or imported.
package struct EndpointKeys: Sendable, Hashable {
    package var agreementKey: AgreementPublicKey
    package var signingKey: SigningPublicKey

    package init(agreementKey: AgreementPublicKey, signingKey: SigningPublicKey) {
        self.agreementKey = agreementKey
        self.signingKey = signingKey
    }

    package var address: EndpointID { EndpointID(of: signingKey) }
    package var fingerprint: Fingerprint { Fingerprint(of: agreementKey) }
}

/// A message of ours, ready to be carried.
package struct OutgoingMessage: Sendable, Hashable {
    package let id: BundleID
    package let copy: BundleCopy

    /// Seals, signs and names a message.
    /// - Parameters:
    ///   - encoded: ``BundleContent``, checked by ``MessageRule``.
    ///   - contact: nil for everybody.
    ///   - isSealed: else everybody can read it; only its acknowledgement's secret is sealed then.
    ///   - isPrivate: carriers learn neither who sent it nor whom it is for.
    package init(
        _ encoded: [UInt8], from keys: RouterKeys, to contact: EndpointKeys?, isSealed: Bool, isPrivate: Bool,
        profile: PropagationProfile, created: WallTime, random: inout some RandomNumberGenerator
    ) {
        let key = isPrivate ? Self.freshKey(&random) : keys.signingKey
        let secret = Self.bytes(BundleAcknowledgement.secretByteCount, &random)
        let receiver: Bundle.Receiver =
            switch contact {
            case nil: .everybody
            case let contact? where !isPrivate: .address(contact.address)
            case _?: .unnamed(EndpointID(rawValue: random.next()))
            }
        var message = Bundle(
            kind: contact != nil && isSealed ? .sealed : .clear, receiver: receiver, profile: profile, created: created,
            senderKey: key.publicKey.bytes, lock: contact == nil ? nil : BundleAcknowledgement.lock(for: secret), body: [])
        if let contact {
            // Only a key that is no point of the curve can't be sealed for, and ``AgreementPublicKey`` is never one.
            func seal(_ payload: [UInt8]) -> [UInt8] {
                try! OneWayMessage.seal(
                    payload, prologue: SealedContent.prologue(of: message), from: keys.agreementKey,
                    to: contact.agreementKey, ephemeral: Self.bytes(AgreementPrivateKey.byteCount, &random))
            }
            message.body = isSealed ? seal(SealedContent.padded(encoded, secret: secret)) : seal(secret) + encoded
        } else {
            message.body = encoded
        }
        id = message.id
        copy = BundleCopy(hops: 0, way: .routed, carriers: [], message: message, signature: message.signature(by: key))
    }

    /// An acknowledgement, in the open: its secret is one no longer.
    init(
        acknowledging acknowledgement: BundleAcknowledgement, from keys: RouterKeys, to sender: EndpointID,
        isPrivate: Bool, profile: PropagationProfile, created: WallTime, random: inout some RandomNumberGenerator
    ) {
        let key = isPrivate ? Self.freshKey(&random) : keys.signingKey
        let message = Bundle(
            kind: .acknowledgement, receiver: .address(sender), profile: profile, created: created,
            senderKey: key.publicKey.bytes, lock: nil, body: acknowledgement.encoded)
        id = message.id
        copy = BundleCopy(hops: 0, way: .routed, carriers: [], message: message, signature: message.signature(by: key))
    }

    /// For one message, so that nobody can tell that two have the same sender.
    private static func freshKey(_ random: inout some RandomNumberGenerator) -> SigningPrivateKey {
        // Any 32 bytes make a key.
        try! SigningPrivateKey(seed: bytes(SigningPrivateKey.byteCount, &random))
    }

    private static func bytes(_ count: Int, _ random: inout some RandomNumberGenerator) -> [UInt8] {
        (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &random) }
    }
}

/// A message for us, opened.
package struct IncomingMessage: Sendable, Hashable {
    package var id: BundleID
    /// Of the encoded ``BundleContent``.
    package var content: [UInt8]
    /// The key that signed it: the sender's, or one that was made for this message.
    package var signingKey: SigningPublicKey
    /// Who sealed it for us; nil for what everybody can read.
    package var sealedBy: AuthenticatedPeer?
    package var isForEverybody: Bool
    /// By the sender's clock.
    package var created: WallTime
    package var hops: Int
}

/// What is inside a sealed body: secret 16 · length u16 · content · zeros.
enum SealedContent {
    /// A body can't be put into a message with other limits, another receiver or another sender.
    static func prologue(of message: Bundle) -> [UInt8] {
        Array("nearshare carried message".utf8) + message.encodedHead
    }

    static func padded(_ content: [UInt8], secret: [UInt8]) -> [UInt8] {
        var writer = ByteWriter(reserving: content.count + 256)
        writer.write(secret)
        writer.writeCounted(content, by: UInt16.self)
        let target = paddedByteCount(writer.bytes.count)
        return writer.bytes + [UInt8](repeating: 0, count: target - writer.bytes.count)
    }

    static func unpadded(_ payload: [UInt8]) throws(MalformedInput) -> (secret: [UInt8], content: [UInt8]) {
        var reader = ByteReader(payload, of: "sealed message")
        let secret = Array(try reader.readBytes(BundleAcknowledgement.secretByteCount))
        let content = Array(
            try reader.readCounted(by: UInt16.self, upTo: Bundle.maximumBodyByteCount, field: "the content"))
        return (secret, content)
    }

    /// Padmé (Nikitin et al., "Reducing Metadata Leakage from Encrypted Files and Communication with PURBs", 2019, section 4.4): a length
    /// tells O(log log n) bits, for at most an eighth more bytes; and at least 96, so that short texts all look alike.
    static func paddedByteCount(_ count: Int) -> Int {
        let count = max(count, 96)
        let exponent = Int.bitWidth - 1 - count.leadingZeroBitCount
        let mantissa = Int.bitWidth - exponent.leadingZeroBitCount
        let mask = (1 << (exponent - mantissa)) - 1
        return (count + mask) & ~mask
    }
}

extension Bundle {
    /// Opens a message that is for us.
    /// - Returns: nil when it isn't; then its body was sealed for another key, or is nothing.
    func opened(by keys: RouterKeys, hops: Int) -> (message: IncomingMessage, secret: [UInt8]?)? {
        guard let signingKey = try? SigningPublicKey(senderKey) else { return nil }
        var opened = IncomingMessage(
            id: id, content: body, signingKey: signingKey, sealedBy: nil, isForEverybody: receiver == .everybody,
            created: created, hops: hops)
        func open(_ sealed: [UInt8]) -> (sender: AuthenticatedPeer, payload: [UInt8])? {
            try? OneWayMessage.open(sealed, prologue: SealedContent.prologue(of: self), for: keys.agreementKey)
        }
        switch kind {
        case .acknowledgement: return nil
        case .sealed:
            guard let (sender, payload) = open(body), let (secret, content) = try? SealedContent.unpadded(payload) else {
                return nil
            }
            opened.content = content
            opened.sealedBy = sender
            return (opened, secret)
        case .clear where lock != nil:
            let end = OneWayMessage.overheadByteCount + BundleAcknowledgement.secretByteCount
            guard body.count >= end, let (sender, secret) = open(Array(body[..<end])),
                secret.count == BundleAcknowledgement.secretByteCount
            else { return nil }
            opened.content = Array(body[end...])
            opened.sealedBy = sender
            return (opened, secret)
        case .clear: return (opened, nil)
        }
    }
}
