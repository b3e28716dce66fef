package import Nearshare

/// A direct link that a node offers to another process of the user. The process claims it by its number before it serves it.
package struct OfferedLink: Sendable {
    package let number: Int
    package let link: PassedLink
}

/// The direct links that a node offers to other processes of the user, which serve them in its place. A link is served once: by the
/// process that has claimed it in time, or else by the node. So a process that is stopped delays a link, and loses none.
///
///     offered ──claimed──► served by the process
///        └──time is over──► served by the node, as are the next ones, until the process claims a link again
final class LinkOffers: Sendable {
    private struct Receiver {
        var id: Int
        var continuation: AsyncStream<OfferedLink>.Continuation
        /// Whether it has left a link unclaimed, and has claimed none since.
        var isStalled = false
    }

    private struct Offer {
        var receiver: Int
        var isClaimed = false
        /// Fulfilled when waiting for the receiver is over.
        let isDecided = Promise<Void>()
    }

    private struct State {
        var lastID = 0
        /// The latest one last.
        var receivers: [Receiver] = []
        var open: [Int: Offer] = [:]

        mutating func setStalled(_ isStalled: Bool, _ id: Int) {
            for index in receivers.indices where receivers[index].id == id { receivers[index].isStalled = isStalled }
        }
    }

    private let state = Monitor(State())
    private let timeout: Duration

    /// Limit on links that wait for one process; above it the node serves them itself.
    private static let maximumWaitingCount = 64

    /// - Parameter timeout: for a claim; shorter than that of a peer's handshake.
    init(timeout: Duration = .milliseconds(1_500)) { self.timeout = timeout }

    /// The links for one more process, which gets them before those that have asked earlier, until the stream is released.
    func links() -> AsyncStream<OfferedLink> {
        let (links, continuation) = AsyncStream.makeStream(
            of: OfferedLink.self, bufferingPolicy: .bufferingOldest(Self.maximumWaitingCount))
        let id = state.withLock { state in
            state.lastID += 1
            state.receivers.append(Receiver(id: state.lastID, continuation: continuation))
            return state.lastID
        }
        continuation.onTermination = { [weak self] _ in self?.remove(id) }
        return links
    }

    /// Number of processes that have asked for links.
    var receiverCount: Int { state.withLock { $0.receivers.count } }

    /// Offers a link to the latest process.
    /// - Returns: whether the process has claimed it; otherwise the node serves it.
    func offer(_ link: PassedLink) async -> Bool {
        let open = state.withLock { state -> (number: Int, offer: Offer, to: AsyncStream<OfferedLink>.Continuation)? in
            guard let receiver = state.receivers.last(where: { !$0.isStalled }) else { return nil }
            state.lastID += 1
            let offer = Offer(receiver: receiver.id)
            state.open[state.lastID] = offer
            return (state.lastID, offer, receiver.continuation)
        }
        guard let open else { return false }
        if case .enqueued = open.to.yield(OfferedLink(number: open.number, link: link)) {
            await withTimeout(timeout) { _ = await open.offer.isDecided.value }
        }
        return state.withLock { state in
            let isClaimed = state.open.removeValue(forKey: open.number)?.isClaimed ?? false
            if !isClaimed { state.setStalled(true, open.offer.receiver) }
            return isClaimed
        }
    }

    /// Claims a link for the process to which it was offered.
    /// - Returns: false when the node serves it.
    func claim(_ number: Int) -> Bool {
        let offer = state.withLock { state -> Offer? in
            guard let offer = state.open[number], !offer.isClaimed else {
                // A process that runs again after a stop.
                for receiver in state.receivers { state.setStalled(false, receiver.id) }
                return nil
            }
            state.open[number]?.isClaimed = true
            state.setStalled(false, offer.receiver)
            return offer
        }
        offer?.isDecided.fulfil()
        return offer != nil
    }

    /// Ends all streams.
    func finish() {
        for receiver in state.withLock(\.receivers) { receiver.continuation.finish() }
    }

    private func remove(_ id: Int) {
        let offers = state.withLock { state in
            state.receivers.removeAll { $0.id == id }
            return state.open.values.filter { $0.receiver == id }
        }
        for offer in offers { offer.isDecided.fulfil() }
    }
}
