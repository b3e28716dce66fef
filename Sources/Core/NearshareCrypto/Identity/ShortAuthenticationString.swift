internal import NearshareBase

/// Eight digits that two people compare: "1234 5678".
package struct ShortAuthenticationDigits: Sendable, Hashable, CustomStringConvertible {
    /// Eight decimal digits.
    package let digits: String

    package var description: String { "\(digits.prefix(4)) \(digits.suffix(4))" }
}

/// The short code of one link, by commitment and reveal inside its encryption (`docs/PROTOCOL.md`, section 8).
///
/// Each side commits to a random nonce before it sees the other's, so that somebody in the middle has to choose blindly:
/// one try in 100,000,000 for each link, and a wrong one is seen by both people (K1, K3).
///
///     waiting for commitment ──► waiting for reveal ──► done
package struct ShortAuthenticationString: Sendable {
    package static let nonceByteCount = 32

    package enum Failure: Error, Sendable, Hashable, CustomStringConvertible {
        case outOfOrder
        /// The reveal does not open the commitment.
        case wrongReveal
        /// Our own words came back.
        case reflected

        package var description: String {
            switch self {
            case .outOfOrder: "a part of the code came out of its order"
            case .wrongReveal: "the other side did not open what it had committed to"
            case .reflected: "our own commitment came back"
            }
        }
    }

    private enum State {
        case awaitingCommitment
        case awaitingReveal([UInt8])
        case done
    }

    private var state = State.awaitingCommitment
    private let role: HandshakeRole
    private let handshakeHash: [UInt8]

    /// Ours, sent only after the other side's commitment has come.
    package let nonce: [UInt8]
    package let commitment: [UInt8]

    /// - Parameters:
    ///   - handshakeHash: of the link that the code is for.
    ///   - nonce: ``nonceByteCount`` fresh random bytes.
    package init(role: HandshakeRole, handshakeHash: [UInt8], nonce: [UInt8]) {
        precondition(nonce.count == Self.nonceByteCount)
        self.role = role
        self.handshakeHash = handshakeHash
        self.nonce = nonce
        commitment = Self.commitment(by: role, handshakeHash, nonce)
    }

    /// After this our nonce may be revealed.
    package mutating func receive(commitment: [UInt8]) throws(Failure) {
        guard case .awaitingCommitment = state else { throw .outOfOrder }
        guard !constantTimeEqual(commitment, self.commitment) else { throw .reflected }
        state = .awaitingReveal(commitment)
    }

    package mutating func receive(reveal: [UInt8]) throws(Failure) -> ShortAuthenticationDigits {
        guard case .awaitingReveal(let commitment) = state else { throw .outOfOrder }
        let other: HandshakeRole = role == .initiator ? .responder : .initiator
        guard reveal.count == Self.nonceByteCount,
            constantTimeEqual(Self.commitment(by: other, handshakeHash, reveal), commitment)
        else { throw .wrongReveal }
        state = .done
        let nonces = role == .initiator ? nonce + reveal : reveal + nonce
        let number = HKDF.derive(
            from: nonces, salt: handshakeHash, info: Array("nearshare short code".utf8), byteCount: 8
        ).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        let digits = String(number % 100_000_000)
        return ShortAuthenticationDigits(digits: String(repeating: "0", count: 8 - digits.count) + digits)
    }

    private static func commitment(by role: HandshakeRole, _ hash: [UInt8], _ nonce: [UInt8]) -> [UInt8] {
        SHA256Hasher.digest(
            Array("nearshare commitment".utf8) + [role == .initiator ? 1 : 2] + hash + nonce)
    }
}
