/// The reason why a cryptographic operation failed.
package enum CryptoError: Error, Sendable, Hashable, CustomStringConvertible {
    /// A key, seed or signature has another length than its algorithm needs.
    case wrongLength(expected: Int, actual: Int)
    /// A public key of low order, with which every shared secret is the same (RFC 7748, section 6.1).
    case lowOrderPoint
    /// A public key that is not encoded canonically.
    case notCanonical
    /// Authentication failed: the data was altered, or sealed with another key.
    case notAuthentic

    package var description: String {
        switch self {
        case .wrongLength(let expected, let actual): "\(actual) bytes where \(expected) are needed"
        case .lowOrderPoint: "a public key of low order, which would reveal the shared secret"
        case .notCanonical: "a public key that is not encoded canonically"
        case .notAuthentic: "authentication failed: the data was altered or sealed with another key"
        }
    }
}
