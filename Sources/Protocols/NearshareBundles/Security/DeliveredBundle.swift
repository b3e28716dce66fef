package import NearshareBase
package import NearshareCrypto

/// The content of a bundle for this node, or for everyone.
package struct DeliveredBundle: Sendable, Hashable {
    package var id: BundleID
    /// Encoded ``BundleContent``.
    package var content: [UInt8]
    /// The key that signed it: the sender's own, or one generated for this bundle.
    package var signingKey: SigningPublicKey
    /// The peer that sealed it for this node; nil for readable content for everyone.
    package var sealedBy: AuthenticatedPeer?
    package var isForEveryone: Bool
    /// The time of creation by the sender's clock.
    package var created: WallTime
    package var hopCount: Int
}

extension Bundle {
    /// Opens a bundle with the keys of its destination.
    /// - Returns: the content, and the secret of the acknowledgement if one is requested; nil when the bundle is for other
    ///   keys, or its body is malformed.
    func opened(by keys: RouterKeys, hopCount: Int) -> (delivered: DeliveredBundle, secret: [UInt8]?)? {
        guard let signingKey = try? SigningPublicKey(senderKey) else { return nil }
        var delivered = DeliveredBundle(
            id: id, content: body, signingKey: signingKey, sealedBy: nil, isForEveryone: destination == .everyone,
            created: creationTime, hopCount: hopCount)
        func open(_ sealed: [UInt8]) -> (sender: AuthenticatedPeer, payload: [UInt8])? {
            try? OneWayMessage.open(sealed, prologue: SealedPayload.prologue(of: self), for: keys.agreementKey)
        }
        switch kind {
        case .acknowledgement: return nil
        case .sealed:
            guard let (sender, payload) = open(body), let (secret, content) = try? SealedPayload.unpadded(payload) else {
                return nil
            }
            delivered.content = content
            delivered.sealedBy = sender
            return (delivered, secret)
        case .clear where hashLock != nil:
            let end = OneWayMessage.overheadByteCount + BundleAcknowledgement.secretByteCount
            guard body.count >= end, let (sender, secret) = open(Array(body[..<end])),
                secret.count == BundleAcknowledgement.secretByteCount
            else { return nil }
            delivered.content = Array(body[end...])
            delivered.sealedBy = sender
            return (delivered, secret)
        case .clear: return (delivered, nil)
        }
    }
}
