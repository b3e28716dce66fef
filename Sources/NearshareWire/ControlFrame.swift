public import NearshareBase

/// Why a receiver does not take an offer. Shown to the sender's person.
public enum DeclineReason: UInt8, Sendable, Hashable {
    /// The person said no, or nobody answered in time.
    case declined = 0
    case expired = 1
    /// The receiver takes offers from friends or verified peers only.
    case notAllowed = 2
    case tooLarge = 3
    case noSpace = 4
    case busy = 5
    /// The name belongs to another key that is known there.
    case identityChanged = 6
}

/// Why a transfer ends before its end. From either side, at any time.
public enum CancelReason: UInt8, Sendable, Hashable {
    /// The person stopped it.
    case cancelled = 0
    /// Nobody answered the invitation in time.
    case expired = 1
    /// The source is no longer what was offered.
    case sourceChanged = 2
    case sourceUnreadable = 3
    case noSpace = 4
    /// More than was offered, or something that can't be stored.
    case refused = 5
    /// The receiver can't write.
    case storageFailed = 6
    /// A side is being shut down; the transfer may be resumed.
    case goingAway = 7
}

/// Why a link is closed. The text of these is for the other side's person.
public enum CloseReason: UInt8, Sendable, Hashable {
    case done = 0
    case goingAway = 1
    /// The other side broke the protocol.
    case violation = 2
    case blocked = 3
    case verificationFailed = 4
    case tooManyLinks = 5
}

/// Everything that two peers say to each other besides content (`docs/PROTOCOL.md`, section 5).
public enum ControlFrame: Sendable, Hashable {
    /// The first frame of each direction: what its sender is called, the commitment for the short code (32 bytes), and what
    /// its clock says, so that people can be told when a clock is wrong.
    case hello(name: DisplayName, commitment: [UInt8], time: WallTime)
    /// Opens the commitment: the nonce (32 bytes).
    case reveal(nonce: [UInt8])
    /// Asks for a sign of life.
    case ping(UInt64)
    case pong(UInt64)
    case close(CloseReason)
    /// Asks the other person whether their screen shows the same short code.
    case compare
    /// What that person said.
    case compared(isSame: Bool)
    case offer(TransferOffer)
    /// `window`: how many bytes of the content stream may be sent before more are granted. Content waits for
    /// ``resume(_:_:)``, which follows as soon as the receiver has looked at what it kept.
    case accept(TransferID, window: UInt64)
    case decline(TransferID, DeclineReason)
    case resume(TransferID, ResumePoint)
    /// So many bytes of the content stream, counted from its start, may be sent.
    case grant(TransferID, upTo: UInt64)
    /// The receiver has everything and has stored it.
    case stored(TransferID)
    case cancel(TransferID, CancelReason)
    /// The answer to the other side's cancel: nothing more of this transfer will come.
    case cancelled(TransferID)
}

/// An invitation.
public struct TransferOffer: Sendable, Hashable {
    public static let maximumContextByteCount = 1024
    /// Longer is cut to this by the receiver.
    public static let maximumPatience = 600

    public var id: TransferID
    /// Seconds for which the sender waits for an answer.
    public var patience: UInt16
    /// Same for the same send repeated, so that the receiver finds what it kept: 32 bytes.
    public var resumeKey: [UInt8]
    /// Bytes for the program on the other side; empty for the tool. At most ``maximumContextByteCount``.
    public var context: [UInt8]
    public var offer: Offer

    public init(id: TransferID, patience: UInt16, resumeKey: [UInt8], context: [UInt8], offer: Offer) {
        self.id = id
        self.patience = patience
        self.resumeKey = resumeKey
        self.context = context
        self.offer = offer
    }
}
