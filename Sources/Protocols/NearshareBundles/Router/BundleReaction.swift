package import NearshareBase

/// What a carrier wants done, in this order: what is kept must be durable before what follows it is done, for a receipt is a
/// promise.
package enum BundleReaction: Sendable {
    /// Keep a copy, so that it can be forwarded later, also after a restart.
    case keep(StoredBundle)
    /// These are done with.
    case drop([BundleID])
    /// The ids of messages for us that were delivered, to be remembered until they expire, so that they never are again.
    case remember(BundleID, until: WallTime)
    /// Send a kept copy on, with these words on its way; what ``Bundle/goesInSession`` inside a session and not otherwise.
    case forward(BundleID, to: EndpointID, hops: Int, way: BundleCopy.Way, carriers: [UInt32])
    /// Send a report or a receipt to a neighbour.
    case send(BundlePacket, to: EndpointID)
    case tell(BundleEvent)
}

/// What becomes of messages.
package enum BundleEvent: Sendable, Hashable {
    /// Somebody has taken our message.
    case sent(BundleID)
    /// The receiver has it.
    case delivered(BundleID)
    /// Nobody has acknowledged our message within its time to live.
    case expired(BundleID)
    /// A message for us.
    case received(IncomingMessage)
    /// Messages that claim to come from the future can't be carried: the sender's clock is wrong, or ours.
    case clockDiffers(by: Duration)
}

/// A copy as it is kept.
package struct StoredBundle: Sendable, Hashable {
    package var id: BundleID
    package var copy: BundleCopy
    /// Who handed it to us; nil for our own.
    package var depositor: EndpointID?
    /// How often this node has forwarded it.
    package var forwards: Int

    package init(id: BundleID, copy: BundleCopy, depositor: EndpointID?, forwards: Int = 0) {
        self.id = id
        self.copy = copy
        self.depositor = depositor
        self.forwards = forwards
    }
}

/// What connects two carriers.
package struct BundleLink: Sendable, Hashable {
    /// Only messages of ``Bundle/maximumRadioBodyByteCount`` go over it.
    package var isRadio: Bool
    /// What is written arrives while the link stands. Else the other end confirms what has come.
    package var isReliable: Bool

    package init(isRadio: Bool, isReliable: Bool) {
        self.isRadio = isRadio
        self.isReliable = isReliable
    }
}
