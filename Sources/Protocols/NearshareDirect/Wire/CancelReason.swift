/// The reason why either side cancels a transfer. The raw values are those of the wire format (docs/PROTOCOL.md, section 5);
/// other values count as ``cancelled``.
package enum CancelReason: UInt8, Sendable, Hashable, Codable {
    /// The user of the side that cancels has cancelled.
    case cancelled = 0
    /// The offer was not answered in time.
    case expired = 1
    /// The source differs from the offer.
    case sourceChanged = 2
    /// The source cannot be read.
    case sourceUnreadable = 3
    /// The receiver's file system is full, or its quota used up.
    case noSpace = 4
    /// The content exceeds the offer, or the receiver does not store entries of this type.
    case refused = 5
    /// The receiver cannot write.
    case storageFailed = 6
    /// The side that cancels is shutting down, or has waited too long for the other.
    case goingAway = 7
    /// The content is larger than the receiver accepts; its size was not known when it was offered.
    case tooLarge = 8
    /// The program that reads the receiver's output has closed it.
    case outputClosed = 9

    /// The reason that tells the peer of a failure.
    package init(_ failure: TransferFailure) {
        self =
            switch failure {
            case .sourceChanged: .sourceChanged
            case .sourceUnreadable: .sourceUnreadable
            case .noSpace: .noSpace
            case .refused: .refused
            case .storageFailed: .storageFailed
            case .tooLarge: .tooLarge
            }
    }
}
