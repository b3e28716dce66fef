internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

extension Session {
    /// Leaves the session, after reliable messages, finished streams and transfers have arrived, or `waiting` has passed; a
    /// negative time counts as none, and more than a day as a day. A message has arrived when the member's program has read it.
    /// Cancelling the task ends the waiting.
    ///
    /// New messages, streams, offers, invitations and metadata throw ``SessionError/left`` from the beginning of the call. While the
    /// call waits, sends that had begun to wait for room go on, and so does writing to open streams. The sequences of the session end
    /// when the program has read what had arrived before the end; messages that are read after it count as lost at their sender.
    /// - Parameter waiting: 5 seconds by default.
    /// - Returns: what had not arrived, for each member concerned, by id; nothing when all has, and when the session was over.
    @discardableResult
    public func leave(waiting: Duration = .seconds(5)) async -> [Undelivered] {
        state.withLock { $0.isLeaving = true }
        // Calls that wait for a link end.
        progress.notifyAll()
        await withTimeout(min(waiting, Self.maximumLeaveTime)) { await self.waitUntilDelivered() }
        let undelivered = state.withLock { state in state.isOver ? [] : state.undelivered }
        for link in links { link.driver.send(.leave(id)) }
        end()
        return undelivered
    }

    /// Bounds the time of a leave, so that no sum of times overflows.
    private static let maximumLeaveTime = Duration.seconds(86_400)

    private func waitUntilDelivered() async {
        let isDone = { @Sendable in self.state.withLock { $0.isOver || $0.members.areAllMessagesDelivered } }
        while !Task.isCancelled, !isDone() { await progress.wait(until: isDone) }
        for link in links { await link.driver.streams.waitUntilFinishedStreamsAreSent() }
        for transfer in state.withLock({ $0.transfers.running.map(\.transfer) }) {
            // Unlike the result, the progress ends for a task that is cancelled.
            for await _ in transfer.progress {}
        }
    }
}

extension Session.State {
    /// Content that members have not received.
    fileprivate var undelivered: [Session.Undelivered] {
        let transferCounts = transfers.undeliveredCounts
        let ids = Set(members.roster.memberIDs).union(members.lost.members).union(transferCounts.keys)
        return ids.sorted().compactMap { id in
            let streams = members.unsentStreamCount(of: id)
            let messages = members.unacknowledgedCount(of: id) + members.lost.messageCount(of: id)
            let transfers = transferCounts[id] ?? 0
            guard messages + streams + transfers > 0 else { return nil }
            return Session.Undelivered(member: id, messages: messages, streams: streams, transfers: transfers)
        }
    }
}
