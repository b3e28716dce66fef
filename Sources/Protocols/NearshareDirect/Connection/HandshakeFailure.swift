/// The reason why two peers could not establish an encrypted link. The text is for users.
package enum HandshakeFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// The peer speaks another protocol, or violates this one.
    case notAPeer(String)
    /// The two peers have no version of the protocol in common.
    case incompatible(remote: Preamble)
    /// A message was altered, or not sent by the key's owner.
    case notAuthentic(String)
    /// One peer requires encryption, and the other one does not use it.
    case encryption
    /// The peer presented this machine's own key.
    case ownKey

    package var description: String {
        switch self {
        case .notAPeer(let reason): reason
        case .incompatible(let remote):
            "the peer supports \(remote.shown) of the protocol, this machine \(Preamble.supported.shown); "
                + "update the older of the two"
        case .notAuthentic(let reason):
            "the encrypted handshake failed (\(reason)); try again, and suspect an attack if it fails again"
        case .encryption:
            "one peer requires encryption and the other does not use it; choose `optional` or `required` on both"
        case .ownKey: "the peer is this node, or has its key; connect to another peer"
        }
    }
}
