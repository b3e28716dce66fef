package import NearshareBase
package import NearshareCrypto

/// The actions that a ``DirectConnection`` asks its driver to perform, in order.
package enum DirectReaction: Sendable, Hashable {
    /// Seal and send the frame.
    case send(ControlFrame)
    /// The peer has sent its name and the time of its clock, both unauthenticated claims.
    case helloReceived(DisplayName, time: WallTime)
    /// The short authentication string is known: both users see the same digits, unless an attacker is in the middle.
    case authenticationStringReady(ShortAuthenticationDigits)
    /// The peer's user asks to compare the digits; answer with ``DirectConnection/answerVerification(matches:)``.
    case verificationRequested
    /// The peer's user has compared the digits.
    case verificationAnswered(matches: Bool)
    /// The peer offers content; answer with ``DirectConnection/accept(_:now:)`` or ``DirectConnection/decline(_:reason:)``.
    case offerReceived(TransferOffer, expiry: MonotonicInstant)
    /// The peer has accepted an offer; content may flow after ``startSending(_:from:)``.
    case offerAccepted(TransferID)
    /// The receiver of an accepted offer passes over entries that are withdrawn.
    case withdrawalAllowed(TransferID)
    /// Send only these entries of an accepted offer.
    case partSelected(TransferID, EntrySelection)
    /// List the files of an accepted offer.
    case listFiles(TransferID)
    /// Send the digests of these listed files.
    case sendDigests(TransferID, of: FileSet)
    /// The content of these listed files need not be sent.
    case filesPresent(TransferID, identical: FileSet, newer: FileSet)
    /// Send content, after the part that the receiver has kept.
    case startSending(TransferID, from: ResumePoint)
    /// Content may be sent up to this number of bytes, counted from the start of the content stream.
    case windowRaised(TransferID, upTo: UInt64)
    /// Send no further content of this transfer.
    case stopSending(TransferID)
    /// The receiver of an outgoing transfer had to change names. It is about to end.
    case namesChanged(TransferID, ChangedNames)
    /// The program that reads the output of an outgoing transfer's receiver has closed it. The transfer is about to end.
    case outputClosed(TransferID)
    /// An outgoing transfer has ended.
    case outgoingEnded(TransferID, TransferOutcome)
    /// An incoming transfer has ended.
    case incomingEnded(TransferID, TransferOutcome)
    /// The agreement on a Wi-Fi network for a transfer has come one step further.
    case hotspot(HotspotEvent)
    /// The connection has ended; always the last reaction.
    case closed(DirectClosure)
}

/// The reason why a connection has ended.
package enum DirectClosure: Error, Sendable, Hashable {
    /// One side closed it.
    case closed(by: TransferOutcome.Side, CloseReason)
    /// The peer violated the protocol.
    case violation(MalformedInput)
    /// The peer fell silent, or the link broke.
    case lost
}
