/// The receiver's reason for declining an offer, shown to the sender's user. The raw values are those of the wire format.
public enum DeclineReason: UInt8, Sendable, Hashable, Codable {
    /// The user declined.
    case declined = 0
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
    /// The receiver accepts a single file only, and no folder: it writes to standard output.
    case singleFileOnly = 8

    /// The number on the wire where the user has not answered in time: the offer has expired, and was not declined.
    package static let expiredNumber: UInt8 = 1
}
