/// A party of a handshake (Noise specification, section 7).
package enum HandshakeRole: Sendable, Hashable {
    /// The party that sends the first message.
    case initiator
    /// The party that answers it.
    case responder
}
