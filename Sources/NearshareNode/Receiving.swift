internal import NearshareEdges
public import NearshareSecurity
public import NearshareSession
public import NearshareWire

/// A node that waits for others.
public struct Receiving: Sendable {
    struct Continuations: Sendable {
        let invitations: AsyncStream<Invitation>.Continuation
        let comparisons: AsyncStream<Comparison>.Continuation
    }

    /// Where it listens.
    public let port: UInt16
    /// What others offer. Each is declined when it is dropped.
    public let invitations: AsyncStream<Invitation>
    /// Others who want the short code compared.
    public let comparisons: AsyncStream<Comparison>
    let advertisement: (any RunningAdvertisement)?
    let record: PeerTXTRecord

    /// Tells browsers something else than before.
    /// - Throws: ``NodeError/unavailable(_:)`` when discovery does not work any more.
    public func update(info: DiscoveryInfo) throws(NodeError) {
        var record = self.record
        record.info = info
        do {
            try advertisement?.update(txt: record.strings)
        } catch {
            throw .unavailable(error.description)
        }
    }
}

/// Somebody asks whether this screen shows the same short code as theirs.
public struct Comparison: Sendable {
    public let peer: Peer
    public let shortCode: ShortCodeText
    let link: LinkDriver
    let end: OneTimeEvent<TransferOutcome>

    /// Waits until the link is over, and with it the question; nil when the task is cancelled before.
    public var ended: TransferOutcome? {
        get async { await end.happened }
    }

    /// Tells them what the person here has seen.
    public func answer(isSame: Bool) {
        link.answerComparison(isSame: isSame)
    }
}
