package import NearshareBase
internal import NearshareDirect

/// A reliable message on its way to its receivers.
public struct SentMessage: Sendable {
    /// One receiver's copy of the message.
    struct Receipt: Sendable, Hashable {
        let member: PeerID
        let epoch: UInt64
        let generation: Int
        let ticket: MessageChannel.Ticket
    }

    let session: Session
    let receipts: [Receipt]
    /// Receivers whose windows had no room in time.
    var dropped: [PeerID] = []

    /// The members to which the message was sent.
    package var receivers: [PeerID] { receipts.map(\.member) }

    /// Waits until the programs of all receivers have read the message. Returns at once for an unreliable message, which has no
    /// receivers.
    ///
    /// The timeout of the send does not bound this: a message that was sent in its time waits until its receiver's program reads
    /// it, for as long as both are members. Cancel the task to wait no longer.
    /// - Throws: ``SessionError/dropped(_:)`` when the message could not be sent to a receiver in its time;
    ///   ``SessionError/notDelivered(_:)`` when a receiver has left or restarted before; ``SessionError/left`` when this
    ///   node leaves before; cancelled.
    public var delivered: Void {
        get async throws(SessionError) {
            if let member = dropped.first { throw .dropped(member) }
            try await session.waitForDelivery(of: receipts)
        }
    }
}
