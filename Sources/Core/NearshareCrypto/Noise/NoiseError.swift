/// The reason why a Noise operation failed. Reading that throws leaves the state unchanged.
package enum NoiseError: Error, Sendable, Hashable, CustomStringConvertible {
    /// Authentication failed: the message was altered, sealed with another key, replayed or reordered.
    case notAuthentic
    /// The message is too short or too long, has a public key that is not canonical, or is not expected now.
    case malformed
    /// A public key of low order (K9).
    case lowOrderPoint
    /// The peer presented this party's own key: a reflection, or a connection to itself (K9).
    case ownKey
    /// The key has encrypted 2^64 - 1 messages.
    case nonceExhausted

    package var description: String {
        switch self {
        case .notAuthentic: "a message was altered or sealed with another key"
        case .malformed: "a malformed or unexpected message"
        case .lowOrderPoint: "a public key of low order"
        case .ownKey: "the peer presented this machine's own key"
        case .nonceExhausted: "the key is exhausted"
        }
    }
}
