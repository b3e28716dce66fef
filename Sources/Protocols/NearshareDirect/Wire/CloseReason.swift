/// The reason why a link is closed, shown to the peer's user. The raw values are those of the wire format.
package enum CloseReason: UInt8, Sendable, Hashable {
    /// The link has nothing left to do.
    case done = 0
    /// The program is shutting down; unfinished transfers may be resumed.
    case goingAway = 1
    /// The peer violated the protocol.
    case violation = 2
    /// The user has blocked the peer's key.
    case blocked = 3
    /// The short authentication string could not be agreed on.
    case verificationFailed = 4
    /// Too many links are open.
    case tooManyLinks = 5
    /// The user cannot be asked to compare the short authentication string.
    case unattended = 6
    /// Another program with the receiver's key has joined the session of the link.
    case replaced = 7
}
