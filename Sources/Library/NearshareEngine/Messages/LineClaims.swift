internal import Synchronization

/// The lines that are being sent as texts, which are not sent a second time meanwhile.
final class LineClaims: Sendable {
    /// The ids of a line's texts, by the line's id.
    private let claims = Mutex<[String: [String]]>([:])

    /// Reserves a line to be sent as texts, until ``release(_:)``.
    /// - Parameter parts: the ids of the texts.
    /// - Returns: false when it is being sent already.
    func claim(_ id: String, parts: [String]) -> Bool {
        claims.withLock { claims in
            guard claims[id] == nil else { return false }
            claims[id] = parts
            return true
        }
    }

    /// Ends the claim of a line.
    func release(_ id: String) { claims.withLock { _ = $0.removeValue(forKey: id) } }

    /// Releases the line to which a text belongs.
    func release(withPart part: String) {
        claims.withLock { claims in claims = claims.filter { !$0.value.contains(part) } }
    }
}
