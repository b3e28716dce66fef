internal import NearshareCrypto

/// Whether what goes over a link must be hidden from others. Keys are proven, and nothing can be altered unseen, in every case.
///
/// |              | required  | optional  | none    |
/// |--------------|-----------|-----------|---------|
/// | **required** | encrypted | encrypted | refused |
/// | **optional** | encrypted | encrypted | open    |
/// | **none**     | refused   | open      | open    |
///
/// Both say what they take inside the handshake, where nobody can talk them down (`docs/PROTOCOL.md`, section 3).
public enum EncryptionPreference: Sendable, Hashable, CaseIterable {
    /// Nobody else reads along. With `none` there is no link.
    case required
    /// Encrypted, unless the other side does without.
    case optional
    /// Everybody nearby may read along.
    case none

    /// The record ciphers to offer: bit n for cipher n.
    /// - Parameter accelerated: those that this machine is fast at.
    func offered(accelerated: UInt8) -> UInt8 {
        let open = Self.bit(.authenticatedOnly)
        let hiding = (accelerated & ~open) | Self.bit(.chaCha20Poly1305)
        return switch self {
        case .required: hiding
        case .optional: hiding | open
        case .none: open
        }
    }

    /// The best of those that both ends offer; nil where they don't fit together.
    static func choose(from common: UInt8) -> RecordCipher.Kind? {
        [.aes256GCM, .chaCha20Poly1305, .authenticatedOnly].first { common & bit($0) != 0 }
    }

    private static func bit(_ kind: RecordCipher.Kind) -> UInt8 { 1 << kind.rawValue }
}
