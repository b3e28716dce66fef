/// The reason why two peers could not establish an encrypted link. The text is for users.
package enum HandshakeFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// The peer speaks another protocol.
    case notNearshare
    /// The peer violates the protocol.
    case protocolViolation(String)
    /// The link ended, or the peer was too slow, before the handshake was complete.
    case interrupted(String)
    /// The two peers have no version of the protocol in common.
    case incompatible(remote: Preamble)
    /// A message was altered, or not sent by the key's owner.
    case notAuthentic(String)
    /// One peer requires encryption, and the other one does not use it.
    case encryptionMismatch
    /// The peer presented this machine's own key.
    case ownKey

    package var description: String {
        switch self {
        case .notNearshare: "the peer does not speak nearshare's protocol"
        case .protocolViolation(let reason), .interrupted(let reason): reason
        case .incompatible(let remote):
            "the peer supports \(remote.shown) of the protocol, this machine \(Preamble.supported.shown); "
                + "update the older of the two"
        case .notAuthentic(let reason):
            "the encrypted handshake failed (\(reason)); try again, and suspect an attack if it fails again"
        case .encryptionMismatch:
            "one peer requires encryption and the other does not use it; choose `optional` or `required` on both"
        case .ownKey: "the peer at this address is this machine itself, or has its key; connect to another peer"
        }
    }
}
