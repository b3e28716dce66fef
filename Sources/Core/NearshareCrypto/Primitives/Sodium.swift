internal import CSodium

/// libsodium, ready to be used. It needs one call before all others, which may come from any thread.
enum Sodium {
    static let isReady: Bool = sodium_init() >= 0

    static func requireReady() {
        precondition(isReady, "libsodium can't be initialised on this machine")
    }
}

/// Why cryptography refused something.
package enum CryptoError: Error, Sendable, Hashable, CustomStringConvertible {
    case wrongLength(expected: Int, actual: Int)
    /// A public key that makes every shared secret the same (RFC 7748, section 6.1).
    case lowOrderPoint
    /// A public key in a second form, beside the one that honest peers send.
    case notCanonical
    /// Altered on its way, or made with another key.
    case notAuthentic

    package var description: String {
        switch self {
        case .wrongLength(let expected, let actual): "\(actual) bytes where \(expected) are needed"
        case .lowOrderPoint: "a public key that would give the secret away"
        case .notCanonical: "a public key in a form that no honest peer sends"
        case .notAuthentic: "it was altered on its way or made with another key"
        }
    }
}
