package import NearshareBase

/// An action that the router requests from its driver, in this order: a store must be durable before the next reaction, because
/// a following receipt or acknowledgement is a promise.
package enum BundleReaction: Sendable {
    /// Store a bundle, so that it can be forwarded later, also after a restart.
    case store(StoredBundle)
    /// Delete bundles from the store.
    case delete([BundleID])
    /// Record that a bundle was delivered to this node, so that it is never delivered again.
    case recordDelivery(BundleID, expiry: WallTime)
    /// Send a copy of a stored bundle to a neighbour, with these fields; a ``Bundle/requiresSession`` inside a session only.
    case forward(
        BundleID, to: EndpointID, hopCount: Int, forwarding: BundleCopy.ForwardingMode, visitedTags: [UInt32])
    /// Send a report or receipts to a neighbour.
    case send(BundlePacket, to: EndpointID)
    case emit(BundleEvent)
}

/// The progress of bundles.
package enum BundleEvent: Sendable, Hashable {
    /// A neighbour holds this node's bundle.
    case sent(BundleID)
    /// The destination has acknowledged this node's bundle.
    case delivered(BundleID)
    /// No acknowledgement was received within the time to live of this node's bundle.
    case expired(BundleID)
    /// A bundle for this node, or for everyone.
    case received(DeliveredBundle)
    /// A bundle was created in the future: the clock of the endpoint that has signed it is wrong, or this node's. Such bundles are
    /// not accepted.
    case clockDiffers(of: EndpointID, by: Duration)
    /// Bundles of this node, in the order of their creation, are not forwarded before their time: they were created while the clock
    /// was ahead. See ``BundleRouter/redate(_:created:now:)``.
    case createdAhead([BundleID])
}

/// A bundle in the store.
package struct StoredBundle: Sendable, Hashable {
    package var id: BundleID
    package var copy: BundleCopy
    /// The neighbour that sent it; nil for this node's own.
    package var previousNode: EndpointID?
    /// The host of that neighbour; for an acknowledgement of this node, the one that handed over the acknowledged bundle.
    package var host: BundleHost
    /// Number of times that this node has forwarded it.
    package var forwardCount: Int

    package init(
        id: BundleID, copy: BundleCopy, previousNode: EndpointID?, host: BundleHost = .unknown, forwardCount: Int = 0
    ) {
        self.id = id
        self.copy = copy
        self.previousNode = previousNode
        self.host = host
        self.forwardCount = forwardCount
    }
}

/// A link between two routers, which may lose packets: the receiver confirms copies and reports.
package struct BundleLink: Sendable, Hashable {
    /// Only bodies of at most ``Bundle/maximumRadioBodyByteCount`` bytes are sent over it.
    package var isRadio: Bool
    /// The machine at its other end, which may be that of several neighbours; nil where the neighbour counts alone.
    package var host: BundleHost?

    package init(isRadio: Bool, host: BundleHost? = nil) {
        self.isRadio = isRadio
        self.host = host
    }
}
