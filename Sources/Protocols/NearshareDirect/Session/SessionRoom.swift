internal import NearshareBase
internal import NearshareCrypto

/// A room: a session whose identifier follows from its name, so that the nodes that join it form one session, whichever of them
/// came first (`docs/PROTOCOL.md`, section 12.7).
package struct SessionRoom: Sendable, Hashable {
    /// Limit on the name, in bytes of UTF-8.
    package static let maximumNameByteCount = 63
    /// The key under which the identifier is advertised.
    package static let infoKey = "room"

    /// The identifier of the room's session.
    package let session: SessionID
    /// The secret that its members know; nil for a room without one.
    package let secret: [UInt8]?

    /// - Parameter service: The name of the service type under which the members are found.
    /// - Returns: nil for an empty or too long name.
    package init?(name: String, service: String, secret: [UInt8]?) {
        guard (1...Self.maximumNameByteCount).contains(name.utf8.count) else { return nil }
        var writer = ByteWriter(reserving: 128)
        writer.write(Self.label)
        writer.write(UInt8(secret == nil ? 0 : 1))
        writer.writeCounted(service.utf8, by: UInt8.self)
        writer.writeCounted(name.utf8, by: UInt8.self)
        session = SessionID(digest: SHA256Hasher.digest(writer.bytes))
        self.secret = secret
    }

    private static let label = Array("nearshare room".utf8)

    /// The context of an invitation into a room whose users are asked: the number of members that the inviting peer knows, and
    /// whether its session remembers the invited peer's key.
    package static func context(memberCount: UInt8, isRemembered: Bool) -> [UInt8] { [memberCount, isRemembered ? 1 : 0] }

    /// The value of a `confirm` by which the inviting peer of a room without a secret agrees to the invited peer's key.
    package static let agreement = [UInt8](repeating: 0, count: SessionFrame.proofByteCount)

    /// Whether the inviting peer remembers this node's key; nil from earlier versions, and where no user is asked.
    package static func isRemembered(in context: [UInt8]) -> Bool? { context.count > 1 ? context[1] & 1 == 1 : nil }

    /// Begins a proof of the secret on a link.
    /// - Parameters:
    ///   - handshakeHash: The link's handshake hash, to which the proof is bound, and by it to both keys.
    ///   - seed: `CPace.seedByteCount` random bytes.
    /// - Returns: nil for a room without a secret.
    package func exchange(on handshakeHash: [UInt8], seed: [UInt8]) -> SecretExchange? {
        guard let secret else { return nil }
        // Fails for a wrong number of random bytes, and for the improbable scalar 0.
        let exchange = try? CPace(
            password: secret, channel: Self.label + session.bytes, session: handshakeHash, seed: seed)
        return exchange.map { SecretExchange(exchange: $0, handshakeHash: handshakeHash) }
    }

    /// The two proofs of one exchange.
    package struct Proofs: Sendable {
        /// The proof of the initiator, in its invitation.
        package let initiator: [UInt8]
        /// The proof of the responder, before it accepts.
        package let responder: [UInt8]
    }

    /// This end's part of a proof that both ends know the secret.
    package struct SecretExchange: Sendable {
        fileprivate let exchange: CPace
        fileprivate let handshakeHash: [UInt8]

        /// The share for the other end.
        package var share: [UInt8] { exchange.share }

        /// - Returns: nil for a share that is not valid.
        package func proofs(with share: [UInt8], isInitiator: Bool) -> Proofs? {
            guard let key = try? exchange.key(with: share, as: isInitiator ? .initiator : .responder) else { return nil }
            let bytes = key.withUnsafeBytes { Array($0) }
            func proof(_ name: String) -> [UInt8] {
                HKDF.derive(
                    from: bytes, salt: handshakeHash, info: Array("nearshare room \(name)".utf8),
                    byteCount: SessionFrame.proofByteCount)
            }
            return Proofs(initiator: proof("initiator"), responder: proof("responder"))
        }
    }
}
