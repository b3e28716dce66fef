/// Which keys are sent and mixed in which message of a handshake (Noise specification, revision 34, section 7).
package struct HandshakePattern: Sendable, Hashable {
    enum Token {
        case e, s, ee, es, se, ss
    }

    /// With the names of the primitives, which are the same in all of them here.
    package let protocolName: String
    /// The initiator has the responder's static key beforehand: the pattern's "← s" before the first message.
    let knowsRecipient: Bool
    /// The initiator's and the responder's in turn.
    let messages: [[Token]]

    private init(_ name: String, knowsRecipient: Bool = false, _ messages: [[Token]]) {
        protocolName = "Noise_\(name)_25519_ChaChaPoly_SHA256"
        self.knowsRecipient = knowsRecipient
        self.messages = messages
    }

    /// Both sides prove their static keys; neither is told who the other is before (section 7.5).
    ///
    ///     → e
    ///     ← e, ee, s, es
    ///     → s, se
    package static let xx = HandshakePattern("XX", [[.e], [.e, .ee, .s, .es], [.s, .se]])

    /// One message to somebody whose key is known, and who need not be there (section 7.4): a letter that a third may carry.
    /// It can be replayed, and opened by whoever gets hold of the recipient's key later.
    ///
    ///     ← s
    ///     …
    ///     → e, es, s, ss
    package static let x = HandshakePattern("X", knowsRecipient: true, [[.e, .es, .s, .ss]])
}
