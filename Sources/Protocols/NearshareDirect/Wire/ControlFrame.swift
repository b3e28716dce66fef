package import NearshareBase

/// The frames that two peers exchange besides content (`docs/PROTOCOL.md`, section 5).
package enum ControlFrame: Sendable, Hashable {
    /// The first frame of each direction: the sender's display name, its commitment for the short authentication string (32
    /// bytes), and the time of its clock, so that users can be warned of a wrong clock.
    case hello(name: DisplayName, commitment: [UInt8], time: WallTime)
    /// The nonce that opens the commitment (32 bytes).
    case reveal(nonce: [UInt8])
    /// Asks the peer for an answer, so that its silence is noticed.
    case ping(UInt64)
    /// The answer to a ping, with its token.
    case pong(UInt64)
    /// The last frame; the receiver ignores frames after it.
    case close(CloseReason)
    /// Asks the peer's user to compare the short authentication string.
    case compare
    /// A user's answer to the comparison.
    case compared(isSame: Bool)
    /// The abilities of the sender of the offers that follow.
    case features(TransferFeatures)
    /// The first entries of the offer that follows, in their listed form and in the order of the stream.
    case contents(TransferID, [EntryHeader])
    /// Asks the receiver to accept content.
    case offer(TransferOffer)
    /// Accepts an offer. `window` is the number of bytes of the content stream that the sender may send before the first credit.
    /// The sender waits for ``resume(_:_:)``, which follows when the receiver has inspected the content that it has kept.
    case accept(TransferID, window: UInt64)
    /// Declines an offer; without a reason where it was not answered in time.
    case decline(TransferID, DeclineReason?)
    /// The content that the receiver has kept from an interrupted transfer.
    case resume(TransferID, ResumePoint)
    /// The entries of an accepted offer that the receiver wants, before ``resume(_:_:)`` and all frames about files.
    case select(TransferID, EntrySelection)
    /// Asks the sender to list the files of an accepted offer, before ``resume(_:_:)``.
    case listFiles(TransferID)
    /// Asks for the digests of listed files: the receiver has files of their names and sizes.
    case candidates(TransferID, FileSet)
    /// The listed files whose content need not be sent.
    case present(TransferID, identical: FileSet, newer: FileSet)
    /// Raises the limit on bytes of the content stream, counted from its start.
    case credit(TransferID, upTo: UInt64)
    /// The names that the receiver could not store as they are. Precedes ``stored(_:)``.
    case changedNames(TransferID, ChangedNames)
    /// The receiver has stored all content.
    case stored(TransferID)
    /// Ends a transfer, from either side.
    case cancel(TransferID, CancelReason)
    /// Confirms the peer's cancel: no further frame of the transfer will follow.
    case cancelled(TransferID)
    /// A step of the agreement on a Wi-Fi network for a transfer.
    case hotspot(HotspotFrame)
}
