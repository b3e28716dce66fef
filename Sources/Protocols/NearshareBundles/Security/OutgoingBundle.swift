package import NearshareBase
internal import NearshareCrypto

/// A bundle of this node, sealed, signed and ready to be sent.
package struct OutgoingBundle: Sendable, Hashable {
    package let id: BundleID
    package let copy: BundleCopy

    /// Seals and signs a message.
    /// - Parameters:
    ///   - encoded: ``BundleContent`` that ``MessageRequest/validatedEncoding(needsRadio:)`` has checked.
    ///   - recipient: nil for everyone.
    ///   - isSealed: otherwise everyone can read the content, and only the secret of its acknowledgement is sealed.
    ///   - isPrivate: forwarding nodes learn neither the sender nor the recipient.
    package init(
        _ encoded: [UInt8], from keys: RouterKeys, to recipient: EndpointKeys?, isSealed: Bool, isPrivate: Bool,
        profile: PropagationProfile, created: WallTime, random: inout some RandomNumberGenerator
    ) {
        let key = isPrivate ? SigningPrivateKey.ephemeral(using: &random) : keys.signingKey
        let secret = random.bytes(BundleAcknowledgement.secretByteCount)
        let destination: Bundle.Destination =
            switch recipient {
            case nil: .everyone
            case let recipient? where !isPrivate: .endpoint(recipient.address)
            case _?: .unnamed(EndpointID(rawValue: random.next()))
            }
        var bundle = Bundle(
            kind: recipient != nil && isSealed ? .sealed : .clear, destination: destination, profile: profile,
            creationTime: created, senderKey: key.publicKey.bytes,
            hashLock: recipient == nil ? nil : BundleAcknowledgement.hashLock(for: secret), body: [])
        if let recipient {
            let seal = SealedPayload.Sealer(
                prologue: SealedPayload.prologue(of: bundle), sender: keys.agreementKey, recipient: recipient.agreementKey,
                ephemeral: random.bytes(AgreementPrivateKey.byteCount))
            bundle.body =
                isSealed ? seal(SealedPayload.padded(encoded, secret: secret)) : seal(secret) + encoded
        } else {
            bundle.body = encoded
        }
        self.init(bundle, signedBy: key)
    }

    /// Creates an acknowledgement, which is not sealed: its secret is meant to be known.
    /// - Parameter bundle: the acknowledged bundle, whose limits it gets.
    init(
        acknowledging acknowledgement: BundleAcknowledgement, of bundle: Bundle, from keys: RouterKeys, created: WallTime,
        random: inout some RandomNumberGenerator
    ) {
        var isPrivate = false
        if case .unnamed = bundle.destination { isPrivate = true }
        let remaining = Int((bundle.expiry.milliseconds - created.milliseconds) / 1_000)
        let key = isPrivate ? SigningPrivateKey.ephemeral(using: &random) : keys.signingKey
        let answer = Bundle(
            kind: .acknowledgement, destination: .endpoint(bundle.source),
            profile: bundle.profile.limited(toSeconds: remaining), creationTime: created,
            senderKey: key.publicKey.bytes, hashLock: nil, body: acknowledgement.encoded)
        self.init(answer, signedBy: key)
    }

    /// Signs a readable bundle of this node again, with another time of creation.
    /// - Returns: nil for a bundle with a sealed part, which is bound to its time.
    init?(
        redating bundle: Bundle, from keys: RouterKeys, created: WallTime, random: inout some RandomNumberGenerator
    ) {
        guard bundle.kind != .sealed, bundle.hashLock == nil else { return nil }
        let isPrivate = bundle.senderKey != keys.signingKey.publicKey.bytes
        let key = isPrivate ? SigningPrivateKey.ephemeral(using: &random) : keys.signingKey
        var bundle = bundle
        (bundle.creationTime, bundle.senderKey) = (created, key.publicKey.bytes)
        self.init(bundle, signedBy: key)
    }

    private init(_ bundle: Bundle, signedBy key: SigningPrivateKey) {
        id = bundle.id
        copy = BundleCopy(
            hopCount: 0, forwarding: .routed, visitedTags: [], bundle: bundle, signature: bundle.signature(by: key))
    }
}

extension SigningPrivateKey {
    /// A key for one bundle, so that two bundles cannot be linked to one sender.
    fileprivate static func ephemeral(using random: inout some RandomNumberGenerator) -> SigningPrivateKey {
        // Safe: any 32 bytes are a seed.
        try! SigningPrivateKey(seed: random.bytes(SigningPrivateKey.byteCount))
    }
}

extension RandomNumberGenerator {
    fileprivate mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &self) }
    }
}
