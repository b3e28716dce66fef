/// The numbers of a direct connection: what the protocol bounds, and what we have chosen within it.
package struct DirectLimits: Sendable {
    // MARK: Of the protocol (docs/PROTOCOL.md, section 7)

    /// The handshake takes no longer, and the other side's greeting after it no longer either.
    package static let handshakeTime = Duration.seconds(10)
    /// So long a sender's clock and the way of the answer may add to the timeout that the receiver was told.
    package static let expiryGrace = Duration.seconds(5)
    /// A cancel that the other side does not confirm in this time is final all the same.
    package static let cancelTime = Duration.seconds(1)
    /// Silence after which a sign of life is asked for.
    package static let quietTime = Duration.seconds(4)
    /// Silence after which the link counts as lost.
    package static let lossTime = Duration.seconds(12)

    // MARK: Ours

    /// Invitations of one peer that may wait for an answer at once.
    package var pendingInvitations = 1
    /// Transfers that one peer may have under way to us at once.
    package var incomingTransfers = 4
    /// Bytes of a content stream that may be on their way or waiting to be stored.
    package var window: UInt64 = 2 << 20

    /// As every node has them.
    package init() {}
}
