package import NearshareBase

/// Why a receiver does not take an offer. Shown to the sender's person.
public enum DeclineReason: UInt8, Sendable, Hashable, Codable {
    /// The person said no, or nobody answered in time.
    case declined = 0
    /// Nobody answered in time.
    case expired = 1
    /// The receiver takes offers from friends or verified peers only.
    case notAllowed = 2
    /// Beyond what the receiver takes at once.
    case tooLarge = 3
    /// The receiver's disk is full.
    case noSpace = 4
    /// Too much waits for an answer there, or it was asked too often.
    case busy = 5
    /// The name belongs to another key that is known there.
    case identityChanged = 6
    /// The receiver takes nothing from anybody at the moment.
    case takesNothing = 7
}

/// Why a transfer ends before its end. From either side, at any time.
public enum CancelReason: UInt8, Sendable, Hashable, Codable {
    /// The person stopped it.
    case cancelled = 0
    /// Nobody answered the invitation in time.
    case expired = 1
    /// The source is no longer what was offered.
    case sourceChanged = 2
    /// It can't be read any more.
    case sourceUnreadable = 3
    /// The receiver's disk is full.
    case noSpace = 4
    /// More than was offered, or something that can't be stored.
    case refused = 5
    /// The receiver can't write.
    case storageFailed = 6
    /// A side is being shut down; the transfer may be resumed.
    case goingAway = 7
}

/// Why a link is closed. The text of these is for the other side's person.
package enum CloseReason: UInt8, Sendable, Hashable {
    /// Nothing is left to do.
    case done = 0
    /// The program there ends. What was under way may be resumed.
    case goingAway = 1
    /// The other side broke the protocol.
    case violation = 2
    /// The person there has blocked this key.
    case blocked = 3
    /// The short codes did not come about.
    case verificationFailed = 4
    /// Too many are connected.
    case tooManyLinks = 5
}

/// Everything that two peers say to each other besides content (`docs/PROTOCOL.md`, section 5).
package enum ControlFrame: Sendable, Hashable {
    /// The first frame of each direction: what its sender is called, the commitment for the short code (32 bytes), and what
    /// its clock says, so that people can be told when a clock is wrong.
    case hello(name: DisplayName, commitment: [UInt8], time: WallTime)
    /// Opens the commitment: the nonce (32 bytes).
    case reveal(nonce: [UInt8])
    /// Asks for a sign of life.
    case ping(UInt64)
    /// Answers a ping, with its token.
    case pong(UInt64)
    /// The last frame: nothing behind it counts.
    case close(CloseReason)
    /// Asks the other person whether their screen shows the same short code.
    case compare
    /// What that person said.
    case compared(isSame: Bool)
    /// Asks the other person whether they take something.
    case offer(TransferOffer)
    /// `window`: how many bytes of the content stream may be sent before more are granted. Content waits for
    /// ``resume(_:_:)``, which follows as soon as the receiver has looked at what it kept.
    case accept(TransferID, window: UInt64)
    /// Does not take it.
    case decline(TransferID, DeclineReason)
    /// What the receiver has of an earlier try.
    case resume(TransferID, ResumePoint)
    /// So many bytes of the content stream, counted from its start, may be sent.
    case grant(TransferID, upTo: UInt64)
    /// The receiver has everything and has stored it.
    case stored(TransferID)
    /// Ends a transfer, from either side.
    case cancel(TransferID, CancelReason)
    /// The answer to the other side's cancel: nothing more of this transfer will come.
    case cancelled(TransferID)
}

/// An invitation.
package struct TransferOffer: Sendable, Hashable {
    /// For the program at the other side.
    package static let maximumContextByteCount = 1024
    /// Longer is cut to this by the receiver.
    package static let maximumPatience = 600

    /// Drawn at random; used once on a link.
    package var id: TransferID
    /// Seconds for which the sender waits for an answer.
    package var timeout: UInt16
    /// Same for the same send repeated, so that the receiver finds what it kept: 32 bytes.
    package var resumeKey: [UInt8]
    /// Bytes for the program on the other side; empty for the tool. At most ``maximumContextByteCount``.
    package var context: [UInt8]
    /// What is offered.
    package var offer: Offer

    /// Puts an offer together; the bounds are the caller's to keep.
    package init(id: TransferID, timeout: UInt16, resumeKey: [UInt8], context: [UInt8], offer: Offer) {
        self.id = id
        self.timeout = timeout
        self.resumeKey = resumeKey
        self.context = context
        self.offer = offer
    }
}
