package import NearshareBase

/// The frame that asks a receiver to accept content: an ``Offer`` with the parameters of its transfer.
package struct TransferOffer: Sendable, Hashable {
    /// Limit on ``context``.
    package static let maximumContextByteCount = 1024
    /// Upper bound that the receiver applies to ``timeout``.
    package static let maximumTimeout = Duration.seconds(600)

    /// Whether a program can give a timeout to an offer.
    package static func isValid(timeout: Duration) -> Bool { (.seconds(1)...maximumTimeout).contains(timeout) }

    /// The sentence for a timeout that is not valid.
    package static var timeoutRule: String {
        "the timeout of an offer must be 1 to \(maximumTimeout.components.seconds) seconds"
    }

    /// Drawn at random; unique on its link.
    package var id: TransferID
    /// The time for which the sender waits for an answer, in whole seconds on the wire.
    package var timeout: Duration
    /// The key under which the receiver finds the content that it has kept: equal for repetitions of one send. 32 bytes.
    package var resumeKey: [UInt8]
    /// Bytes for the program at the receiver, at most ``maximumContextByteCount``. The command-line tool leaves it empty.
    package var context: [UInt8]
    /// The offered content.
    package var offer: Offer

    /// The abilities of its sender, which a frame before the offer states.
    package var features: TransferFeatures

    /// The first entries in their listed form, which a frame before the offer states; empty for an offer without folders.
    package var contents: [EntryHeader]

    /// Describes a transfer. The limits are not checked.
    package init(
        id: TransferID, timeout: Duration, resumeKey: [UInt8], context: [UInt8], offer: Offer,
        features: TransferFeatures = [], contents: [EntryHeader] = []
    ) {
        self.id = id
        self.timeout = timeout
        self.resumeKey = resumeKey
        self.context = context
        self.offer = offer
        self.features = features
        self.contents = contents
    }
}
