/// The limits of a direct connection: those that the protocol fixes, and this implementation's choices.
package struct DirectLimits: Sendable {
    // MARK: Of the protocol (docs/PROTOCOL.md, section 7)

    /// Limit on the duration of the handshake, and on the wait for the peer's hello after it.
    package static let handshakeTimeout = Duration.seconds(10)
    /// Grace period after an offer's timeout, for clock drift and the time that the answer travels.
    package static let expiryGrace = Duration.seconds(5)
    /// The time after which a cancel is final without the peer's confirmation.
    package static let cancelTimeout = Duration.seconds(1)
    /// The silence after which a ping is sent.
    package static let keepaliveInterval = Duration.seconds(4)
    /// The silence after which the link counts as lost.
    package static let idleTimeout = Duration.seconds(12)

    // MARK: Of this implementation

    /// The time for which a comparison of short authentication strings counts as use of the link.
    package static let comparisonTime = Duration.seconds(120)

    /// Offers of one peer that may await an answer at once.
    package var pendingInvitations = 1
    /// Transfers that may be received from one peer at once.
    package var incomingTransfers = 4
    /// The window: bytes of a content stream that may be in flight or waiting to be stored.
    package var window: UInt64 = 2 << 20

    /// The time after which an unused link is closed; nil for a link that may stay. Keepalives are no use.
    package var unusedLinkTimeout: Duration?

    /// Limit on the wait for credit, after which the sender takes the link for broken (R5).
    package static let creditTimeout = Duration.seconds(600)
    /// Limit on the wait for the receiver's next step where it may read or write a large file: until it knows where to resume, and
    /// after the last byte (R5).
    package static let stepTimeout = Duration.seconds(3_600)

    /// The defaults.
    package init() {}
}
