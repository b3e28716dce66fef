/// The reason why one side could not continue a transfer. The raw values are those of ``CancelReason``.
public enum TransferFailure: UInt8, Sendable, Hashable, Codable {
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
    /// The content is larger than the receiver accepts; its size was not known when it was offered.
    case tooLarge = 8
}
