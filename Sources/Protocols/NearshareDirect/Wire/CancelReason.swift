/// The reason why either side cancels a transfer. The raw values are those of the wire format.
public enum CancelReason: UInt8, Sendable, Hashable, Codable {
    /// The user cancelled.
    case cancelled = 0
    /// The offer was not answered in time.
    case expired = 1
    /// The source differs from the offer.
    case sourceChanged = 2
    /// The source cannot be read.
    case sourceUnreadable = 3
    /// The receiver's disk is full.
    case noSpace = 4
    /// The content exceeds the offer, or cannot be stored as requested.
    case refused = 5
    /// The receiver cannot write.
    case storageFailed = 6
    /// One side is shutting down; the transfer may be resumed.
    case goingAway = 7
}
