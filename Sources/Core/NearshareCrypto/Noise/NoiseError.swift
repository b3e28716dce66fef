/// Why a Noise operation failed. After one that was thrown by reading, nothing has changed.
package enum NoiseError: Error, Sendable, Hashable, CustomStringConvertible {
    /// Altered, made with another key, repeated, or out of its order.
    case notAuthentic
    /// A message that is too short, too long, has a public key in a form of its own, or comes when none is due.
    case malformed
    /// A public key that would give the secret away (K9).
    case lowOrderPoint
    /// The other side has our own key: a reflection, or a connection to ourselves (K9).
    case ourselves
    /// 2^64 - 1 messages under one key.
    case nonceExhausted

    package var description: String {
        switch self {
        case .notAuthentic: "a message that was altered or made with another key"
        case .malformed: "a message that has no business here"
        case .lowOrderPoint: "a public key that would give the secret away"
        case .ourselves: "the other side has this machine's own key"
        case .nonceExhausted: "the key is used up"
        }
    }
}
