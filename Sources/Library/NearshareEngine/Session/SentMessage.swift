package import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces

/// A reliable message on its way to its receivers.
public struct SentMessage: Sendable {
    /// One receiver's copy of the message.
    struct Receipt: Sendable {
        let member: PeerID
        let generation: Int
        let ticket: MessageChannel.Ticket
        /// The channel after its last acknowledgement; not fulfilled while the peer may acknowledge the message.
        let settlement: Promise<MessageChannel>
    }

    let session: Session
    let receipts: [Receipt]
    /// Receivers whose windows had no room in time.
    var dropped: [PeerID] = []

    /// The members to which the message was sent.
    package var receivers: [PeerID] { receipts.map(\.member) }

    /// Waits until each receiver's program has read the message, or cannot read it any more. Returns at once for an unreliable
    /// message, which has no receivers.
    ///
    /// The timeout of the send does not bound this: a message that was sent in its time waits until its receiver's program reads
    /// it, for as long as both are members. Cancel the task to wait no longer. An outcome that was known before the session's end
    /// stays, and so does that of a message whose receiver has left or restarted since, however many others have.
    /// - Throws: ``SessionError/notDelivered(to:)`` with all receivers that have not read it, once each of the others has; when the
    ///   session ends before, ``SessionError/left`` or another reason of ``Session/ended``; ``SessionError/cancelled``.
    public var delivered: Void {
        get async throws(SessionError) {
            let failed = try await session.waitForDelivery(of: receipts) + dropped
            guard failed.isEmpty else { throw .notDelivered(to: failed) }
        }
    }
}
