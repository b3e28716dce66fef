/// The receiver's reason for declining an offer, shown to the sender's user. The raw values are those of the wire format.
public enum DeclineReason: UInt8, Sendable, Hashable, Codable {
    /// The user declined.
    case declined = 0
    /// The user did not answer in time.
    case expired = 1
    /// The receiver accepts offers from friends only, or cannot ask its user.
    case notAllowed = 2
    /// The offer exceeds the receiver's size limit.
    case tooLarge = 3
    /// The receiver's disk is full.
    case noSpace = 4
    /// Too many offers are pending, or the sender has asked too often.
    case busy = 5
    /// The receiver knows the sender's name with another key.
    case identityChanged = 6
    /// The receiver does not accept offers from any peer at the moment.
    case acceptsNothing = 7
}
