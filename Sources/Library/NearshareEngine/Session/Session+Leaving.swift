internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

extension Session {
    /// Leaves the session, after reliable messages, finished streams and transfers have arrived, or `waiting` has passed; a
    /// negative time counts as none, and more than a day as a day. A message has arrived when the member's program has read it.
    /// Cancelling the task ends the waiting. Of several calls, the first whose waiting ends leaves for all, which return the same.
    ///
    /// The other direction is waited for as well: a member sends the streams that its program has finished before this node goes, as
    /// far as this program reads them, and one that leaves at the same time also its messages. A member that does not answer within
    /// a second is waited for only if it leaves as well, streams from it have not ended, or finished ones have not arrived at it. While
    /// other members are connected through this node, the call also waits until their links through it have ended, or have carried
    /// nothing for a second.
    ///
    /// New messages, streams, offers, invitations and metadata throw ``SessionError/left`` from the beginning of the call. While the
    /// call waits, sends that had begun to wait for room go on, and so does writing to open streams. The sequences of the session end
    /// when the program has read what had arrived before the end; messages that are read after it count as lost at their sender.
    /// - Parameter waiting: 5 seconds by default.
    /// - Returns: what had not arrived, for each member concerned, by id, also where the session ends while the call waits, such as by
    ///   the founder's removal of this node or the end of the node; nothing when all has, and when the session was over before.
    @discardableResult
    public func leave(waiting: Duration = .seconds(5)) async -> [Undelivered] {
        let wasOver = state.withLock { state in
            state.isLeaving = true
            return state.isOver
        }
        if wasOver { return [] }
        // Calls that wait for a link end.
        progress.notifyAll()
        // Those of members that leave before this node are among them.
        let presentLinks = links
        if waiting > .zero {
            for link in presentLinks { announceDeparture(on: link) }
        }
        let limit = min(max(waiting, .zero), Self.maximumLeaveTime)
        let deadline = node.settings.clock() + limit
        await withTimeout(limit) {
            await self.waitUntilDelivered()
            await self.waitUntilOthersAreDone()
            await self.waitUntilStreamsAreHandled(of: presentLinks)
            await self.waitUntilRelaysAreQuiet()
        }
        let undelivered = state.withLock { $0.recordUndelivered() }
        declineOffers()
        await withTimeout(deadline - node.settings.clock()) { await self.endRelayedLinks() }
        announceLeave()
        end()
        return undelivered
    }

    /// Leaves on the links through other members, and waits until their far ends have read all and closed them. The relaying members
    /// learn of the departure afterwards: their news overtake what they relay.
    private func endRelayedLinks() async {
        let relayedLinks = links.filter { $0.relay != nil && $0.departure.withLock(\.isPeerDone) }
        for link in relayedLinks { link.driver.send(.leave(id)) }
        let areClosed = { @Sendable in !self.links.contains { link in relayedLinks.contains { $0 === link } } }
        await progress.wait(until: areClosed)
    }

    /// Declines the offers that the program has not answered. The other ends close their links as soon as they learn of the departure,
    /// from this node or another one, and take offers that are not answered by then for interrupted.
    private func declineOffers() {
        for link in links { link.driver.declineOffers() }
    }

    /// Tells the other members that this node leaves.
    func announceLeave() {
        declineOffers()
        for link in links { link.driver.send(.leave(id)) }
    }

    /// Bounds the time of a leave, so that no sum of times overflows.
    private static let maximumLeaveTime = Duration.seconds(86_400)

    private func waitUntilDelivered() async {
        let isDone = { @Sendable in self.state.withLock { $0.isOver || $0.members.areAllMessagesDelivered } }
        await progress.wait(until: isDone)
        for link in links { await link.driver.streams.waitUntilFinishedStreamsHaveArrived() }
        for transfer in state.withLock({ $0.transfers.running.map(\.transfer) }) {
            // Unlike the result, the progress ends for a task that is cancelled.
            for await _ in transfer.progress {}
        }
    }

    /// Announces on a link that this node leaves, once both ends have agreed to join.
    func announceDeparture(on link: SessionLink) {
        guard link.isComplete.load(ordering: .acquiring), link.departure.withLock({ $0.announce() }) else { return }
        // Before the wait for streams from a member that does not answer.
        link.driver.streams.setIncomingEndHandler { [progress] in progress.notifyAll() }
        link.driver.send(.leaving(id, isDone: false))
    }

    /// Waits until the other members have sent what their programs had finished.
    private func waitUntilOthersAreDone() async {
        await withTimeout(Self.departureAnswerTime) { await self.waitForDepartureAnswers { _ in true } }
        await waitForDepartureAnswers { $0.departure.withLock(\.isPeerLeaving) || $0.driver.streams.hasIncoming }
    }

    private func waitForDepartureAnswers(on isAwaited: @escaping @Sendable (SessionLink) -> Bool) async {
        let isDone = { @Sendable in
            !self.links.contains { link in
                link.isComplete.load(ordering: .acquiring) && !link.departure.withLock(\.isPeerDone) && isAwaited(link)
            }
        }
        await progress.wait(until: isDone)
    }

    /// Time in which each member answers that is not busy, and whose link is not broken.
    private static let departureAnswerTime = Duration.seconds(1)

    /// Waits until the streams that have arrived on links, which may have ended meanwhile, are among the events.
    private func waitUntilStreamsAreHandled(of links: [SessionLink]) async {
        let isDone = { @Sendable in self.isOver || links.allSatisfy { $0.driver.streams.areAllHandled } }
        await progress.wait(until: isDone)
    }

    /// Answers a member that leaves, once all streams that the program has finished have arrived; while this node leaves as well, also
    /// once the member's program has read all messages.
    func answerDeparture(on link: SessionLink) async {
        let areMessagesRead = { @Sendable in
            self.state.withLock { state in
                state.isOver || !state.isLeaving || state.members.unacknowledgedCount(of: link.peer) == 0
            }
        }
        await link.driver.streams.waitUntilFinishedStreamsHaveArrived()
        await progress.wait(until: areMessagesRead)
        // Open streams may have been finished meanwhile.
        await link.driver.streams.waitUntilFinishedStreamsHaveArrived()
        link.driver.send(.leaving(id, isDone: true))
    }
}

extension Session.State {
    /// Records what members have not received, once: of several calls that leave, the first to go ends the session for all.
    @discardableResult
    mutating func recordUndelivered() -> [Session.Undelivered] {
        let recorded = undelivered ?? currentlyUndelivered
        undelivered = recorded
        return recorded
    }

    private var currentlyUndelivered: [Session.Undelivered] {
        let transferCounts = transfers.undeliveredCounts
        let ids = Set(members.roster.memberIDs).union(members.lost.members).union(transferCounts.keys)
        return ids.sorted().compactMap { id in
            let streams = members.undeliveredStreamCount(of: id)
            let messages = members.unacknowledgedCount(of: id) + members.lost.messageCount(of: id)
            let transfers = transferCounts[id] ?? 0
            guard messages + streams + transfers > 0 else { return nil }
            return Session.Undelivered(member: id, messages: messages, streams: streams, transfers: transfers)
        }
    }
}
