internal import NearshareCrypto

/// A program's preference for confidentiality on a link. Authentication and integrity do not depend on it.
///
/// |              | required  | optional  | none      |
/// |--------------|-----------|-----------|-----------|
/// | **required** | encrypted | encrypted | refused   |
/// | **optional** | encrypted | encrypted | plaintext |
/// | **none**     | refused   | plaintext | plaintext |
///
/// Both preferences are exchanged inside the handshake, which prevents a downgrade (`docs/PROTOCOL.md`, section 3).
public enum EncryptionPreference: Sendable, Hashable, CaseIterable {
    /// Encrypted; a peer with `none` is refused.
    case required
    /// Encrypted, unless the peer prefers `none`.
    case optional
    /// Plaintext, readable by every device nearby.
    case none

    /// The record ciphers to offer.
    /// - Parameter accelerated: The ciphers that this machine accelerates.
    func offered(accelerated: CipherSet) -> CipherSet {
        let plaintext = CipherSet(only: .authenticatedOnly)
        let encrypting = accelerated.subtracting(plaintext).union(CipherSet(only: .chaCha20Poly1305))
        return switch self {
        case .required: encrypting
        case .optional: encrypting.union(plaintext)
        case .none: plaintext
        }
    }

    /// The preferred cipher of those that both peers offer; nil when there is none.
    static func choose(from common: CipherSet) -> RecordCipher.Kind? {
        [.aes256GCM, .chaCha20Poly1305, .authenticatedOnly].first { common.contains(CipherSet(only: $0)) }
    }
}
