public import NearshareSecurity
public import NearshareSession

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
    let radioEvent: OneTimeEvent<Node.RadioState>

    /// Waits until it is known whether others can reach this node over its radio; for ever where it has none. nil when the task
    /// is cancelled before.
    public var radio: Node.RadioState? {
        get async { await radioEvent.happened }
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
