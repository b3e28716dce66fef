/// A key that signs in a peer's name, compared with the one that the peer has proven.
package enum SigningKeyStatus: Sendable, Hashable {
    /// The peer has stated it inside a session, or the user has its contact.
    case proven
    /// The peer signs with another key.
    case forged
    /// The peer has stated none: any peer can have announced it.
    case unknown
}
