/// A handshake pattern: the tokens of each message (Noise specification, revision 34, section 7).
package struct HandshakePattern: Sendable, Hashable {
    /// A token of a message pattern: a public key to send, or a Diffie-Hellman operation.
    enum Token {
        case e, s, ee, es, se, ss
    }

    /// The Noise protocol name, with the primitives that all patterns here share.
    package let protocolName: String
    /// Whether the pattern has the pre-message "← s": the initiator knows the responder's static key.
    let hasResponderPreMessage: Bool
    /// The message patterns, the initiator's first.
    let messages: [[Token]]

    private init(_ name: String, hasResponderPreMessage: Bool = false, _ messages: [[Token]]) {
        protocolName = "Noise_\(name)_25519_ChaChaPoly_SHA256"
        self.hasResponderPreMessage = hasResponderPreMessage
        self.messages = messages
    }

    /// Mutual authentication without prior knowledge of static keys (section 7.5).
    ///
    ///     → e
    ///     ← e, ee, s, es
    ///     → s, se
    package static let xx = HandshakePattern("XX", [[.e], [.e, .ee, .s, .es], [.s, .se]])

    /// A one-way pattern to a responder whose static key is known (section 7.4), for messages that are delivered later.
    /// The message can be replayed, and has no forward secrecy if the responder's static key is compromised.
    ///
    ///     ← s
    ///     …
    ///     → e, es, s, ss
    package static let x = HandshakePattern("X", hasResponderPreMessage: true, [[.e, .es, .s, .ss]])
}
