internal import NearshareBase

/// The short authentication string (SAS) of one link, agreed on by commitment and reveal inside its encryption
/// (`docs/PROTOCOL.md`, section 8).
///
/// Each party commits to a random nonce before it sees the other's, so that an attacker in the middle has one blind guess in
/// 100,000,000 for each link, and both users see a wrong one (K1, K3).
///
///     awaiting commitment ──► awaiting reveal ──► done
package struct ShortAuthenticationString: Sendable {
    /// The size of a nonce.
    package static let nonceByteCount = 32

    /// The peer's violation of the exchange.
    package enum Failure: Error, Sendable, Hashable, CustomStringConvertible {
        /// A commitment or reveal arrived in the wrong order, or twice.
        case outOfOrder
        /// The reveal does not match the commitment.
        case wrongReveal
        /// The peer sent this party's own commitment back.
        case reflected

        package var description: String {
            switch self {
            case .outOfOrder: "a commitment or reveal out of order"
            case .wrongReveal: "the peer's reveal does not match its commitment"
            case .reflected: "the peer reflected our own commitment"
            }
        }
    }

    private enum State {
        case awaitingCommitment
        case awaitingReveal(commitment: [UInt8])
        case done
    }

    private var state = State.awaitingCommitment
    private let role: HandshakeRole
    private let handshakeHash: [UInt8]

    /// This party's nonce, to be revealed only after the peer's commitment has arrived.
    package let nonce: [UInt8]
    /// The commitment to ``nonce``.
    package let commitment: [UInt8]

    /// - Parameters:
    ///   - handshakeHash: The link's handshake hash, which binds the string to the link.
    ///   - nonce: ``nonceByteCount`` fresh random bytes.
    package init(role: HandshakeRole, handshakeHash: [UInt8], nonce: [UInt8]) {
        // Safe: the program draws it.
        precondition(nonce.count == Self.nonceByteCount)
        self.role = role
        self.handshakeHash = handshakeHash
        self.nonce = nonce
        commitment = Self.commitment(by: role, handshakeHash: handshakeHash, nonce: nonce)
    }

    /// Stores the peer's commitment. Afterwards ``nonce`` may be revealed.
    package mutating func receive(commitment: [UInt8]) throws(Failure) {
        guard case .awaitingCommitment = state else { throw .outOfOrder }
        guard !constantTimeEqual(commitment, self.commitment) else { throw .reflected }
        state = .awaitingReveal(commitment: commitment)
    }

    /// Checks the peer's nonce against its commitment.
    /// - Returns: The digits for both users to compare.
    package mutating func receive(reveal: [UInt8]) throws(Failure) -> ShortAuthenticationDigits {
        guard case .awaitingReveal(let commitment) = state else { throw .outOfOrder }
        let peerRole: HandshakeRole = role == .initiator ? .responder : .initiator
        guard reveal.count == Self.nonceByteCount,
            constantTimeEqual(Self.commitment(by: peerRole, handshakeHash: handshakeHash, nonce: reveal), commitment)
        else { throw .wrongReveal }
        state = .done
        let nonces = role == .initiator ? nonce + reveal : reveal + nonce
        let number = HKDF.derive(
            from: nonces, salt: handshakeHash, info: Array("nearshare short code".utf8), byteCount: 8
        ).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return ShortAuthenticationDigits(number: number)
    }

    private static func commitment(by role: HandshakeRole, handshakeHash: [UInt8], nonce: [UInt8]) -> [UInt8] {
        SHA256Hasher.digest(
            Array("nearshare commitment".utf8) + [role == .initiator ? 1 : 2] + handshakeHash + nonce)
    }
}
