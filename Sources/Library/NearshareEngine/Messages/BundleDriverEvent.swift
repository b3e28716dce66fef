package import NearshareBase
package import NearshareBundles
package import NearshareCrypto

/// The progress of a message.
package enum BundleDriverEvent: Sendable, Hashable {
    /// A message that a neighbour holds.
    case sent(BundleID)
    /// A message that the receiver has acknowledged.
    case delivered(BundleID)
    /// A message that could not be delivered, with the reason.
    case failed(BundleID, String)
    /// Messages of this node that wait for the time at which they were created: the clock was ahead then. See ``BundleDriver/redate(_:)``.
    case createdAhead([BundleID])
    /// A message for this node, or for everyone.
    case received(ReceivedMeshMessage)
    /// Messages can be sent to a peer directly now.
    case neighbourAppeared(PeerID)
}

/// A message for this node, or for everyone.
package struct ReceivedMeshMessage: Sendable, Hashable {
    /// The id, the same at every receiver.
    package var id: BundleID
    package var content: BundleContent
    /// The peer whose key sealed it; nil for a message that was not sealed.
    package var sender: AuthenticatedPeer?
    /// The endpoint whose key signed it: the sender, or a key that was generated for this message.
    package var signer: EndpointID
    package var isForEveryone: Bool
    /// The time of creation by the sender's clock.
    package var created: WallTime
    package var hops: Int

    init(_ delivered: DeliveredBundle, _ content: BundleContent) {
        id = delivered.id
        self.content = content
        sender = delivered.sealedBy
        signer = EndpointID(of: delivered.signingKey)
        isForEveryone = delivered.isForEveryone
        created = delivered.created
        hops = delivered.hopCount
    }
}
