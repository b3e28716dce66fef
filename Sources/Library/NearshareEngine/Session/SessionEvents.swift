internal import NearshareBase
internal import NearshareInterfaces
internal import Synchronization

/// A session's events for its program, besides messages. The program may not read them, so their number is limited.
final class SessionEvents: Sendable {
    /// An event with its place among all events and messages.
    struct Entry<Event: Sendable>: Sendable {
        let event: Event
        /// The event's number among those of all kinds.
        let number: UInt64
        /// Messages that had arrived before it.
        let messageCount: UInt64
    }

    /// Events of one kind.
    final class Queue<Event: Sendable>: Sendable {
        let entries: AsyncQueue<Entry<Event>>
        private let limit: AsyncQueue<Entry<Event>>.Limit

        fileprivate init(_ limit: AsyncQueue<Entry<Event>>.Limit) {
            self.limit = limit
            entries = AsyncQueue()
        }

        /// The events in the order of arrival, for one reader.
        var stream: AsyncStream<Event> { AsyncStream(unfolding: { [entries] in await entries.dequeue()?.event }) }

        fileprivate func enqueue(_ entry: Entry<Event>, replacing isReplaced: ((Event) -> Bool)?) {
            if let isReplaced { _ = entries.removeAll { isReplaced($0.event) } }
            entries.enqueue(entry, limit: limit)
        }
    }

    let changes = Queue<Session.Change>(.droppingOldest(beyond: SessionEvents.maximumChangeCount))
    // Events beyond the limit are dropped, which resets a stream, declines an offer, and answers a question with no.
    let streams = Queue<ByteStream>(.droppingNewest(beyond: SessionEvents.maximumEventCount))
    let resources = Queue<Invitation>(.droppingNewest(beyond: SessionEvents.maximumEventCount))
    let questions = Queue<IdentityQuestion>(.droppingNewest(beyond: SessionEvents.maximumEventCount))
    let endedTransfers = Queue<(member: PeerID, transfer: Transfer)>(
        .droppingOldest(beyond: SessionEvents.maximumEventCount))
    /// Wakes the reader of all events and messages.
    private let arrival = AsyncCondition(polls: true)
    private let inbox: SessionInbox
    private let lastNumber = Mutex<UInt64>(0)

    private static let maximumChangeCount = 4096
    /// Limit on unread events of each kind.
    private static let maximumEventCount = 256

    init(_ inbox: SessionInbox) {
        self.inbox = inbox
    }

    /// Appends an event to its queue.
    /// - Parameter isReplaced: selects the unread events that this one replaces.
    func emit<Event: Sendable>(_ event: Event, to queue: Queue<Event>, replacing isReplaced: ((Event) -> Bool)? = nil) {
        // Under one lock, so that each queue is in the order of the numbers. A dropped event is released after it.
        lastNumber.withLock { last in
            last += 1
            queue.enqueue(
                Entry(event: event, number: last, messageCount: inbox.arrivedCount), replacing: isReplaced)
        }
        arrival.notifyAll()
    }

    /// Wakes the reader of all events after messages have arrived.
    func notifyArrival() { arrival.notifyAll() }

    func finish() {
        changes.entries.finish()
        streams.entries.finish()
        resources.entries.finish()
        questions.entries.finish()
        // Released, they are answered with no.
        while questions.entries.dequeueWithoutWaiting() != nil {}
        endedTransfers.entries.finish()
        arrival.notifyAll()
    }

    // MARK: All events

    /// Waits for the next event or message, in the order of arrival.
    /// - Returns: nil when the session is over, and all were read; or the task is cancelled.
    func next() async -> Session.Event? {
        while true {
            // Before the queues are read: a session that is over gets no more.
            let isFinished = changes.entries.isFinished && inbox.isFinished
            if let event = dequeue() { return event }
            if isFinished || Task.isCancelled { return nil }
            await arrival.wait { [self] in hasEvent || inbox.hasMessages || changes.entries.isFinished }
        }
    }

    private var hasEvent: Bool { firstNumber != nil }

    /// The number of the first event that waits.
    private var firstNumber: UInt64? {
        [
            changes.entries.first?.number, streams.entries.first?.number, resources.entries.first?.number,
            questions.entries.first?.number, endedTransfers.entries.first?.number,
        ].compactMap(\.self).min()
    }

    private func dequeue() -> Session.Event? {
        guard let number = firstNumber else { return inbox.dequeueWithoutWaiting().map(Session.Event.message) }
        func dequeueIfFirst<Event>(_ queue: Queue<Event>, _ make: (Event) -> Session.Event) -> Session.Event? {
            queue.entries.dequeueWithoutWaiting { entry in
                entry.number == number && inbox.hasPassedOn(entry.messageCount)
            }.map { make($0.event) }
        }
        return dequeueIfFirst(changes, Session.Event.change) ?? dequeueIfFirst(streams, Session.Event.stream)
            ?? dequeueIfFirst(resources, Session.Event.resource) ?? dequeueIfFirst(questions, Session.Event.question)
            ?? dequeueIfFirst(endedTransfers) { .transferEnded($0.transfer, with: $0.member) }
            ?? inbox.dequeueWithoutWaiting().map(Session.Event.message)
    }
}
