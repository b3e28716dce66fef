package import Nearshare

/// Reports received messages: those that are stored, and those that arrive later.
package struct MessageListOperation: Sendable {
    private let machine: LocalMachine
    private let reporter: any Reporter
    /// The number of the last reported message. Kept while one node follows another.
    private let last: Monitor<Int>
    private let startNumber: Int
    /// The parts of chat lines that are not whole yet; nil where each part is reported.
    private let joiner: Monitor<ChatPartJoiner>?
    /// Notified when ``deadline`` may have changed.
    private let addition = AsyncCondition()

    /// Number of events after which the stored messages are read. A reader that falls behind loses the oldest of the events that
    /// wait for it (``Broadcast``), so at least one reading follows each loss.
    private static let refreshInterval = 512

    /// - Parameters:
    ///   - number: earlier messages, and the one with this number, are left out.
    ///   - joinsParts: whether a chat line that came in parts is reported once, as a whole.
    ///   - partTimeout: time after which the parts of a line that is not whole are reported.
    package init(
        _ machine: LocalMachine, after number: Int, joinsParts: Bool, partTimeout: Duration = .seconds(30),
        reporter: any Reporter
    ) {
        joiner = joinsParts ? Monitor(ChatPartJoiner(timeout: partTimeout)) : nil
        self.machine = machine
        self.reporter = reporter
        last = Monitor(number)
        startNumber = number
    }

    /// Whether no message was reported.
    package var isEmpty: Bool { last.withLock { $0 } == startNumber }

    /// Reports the stored messages, from the node that runs or else from the store. No node is started for it.
    package func list() async throws {
        defer { reportParts() }
        if try await withRunningNode(of: machine, { try await reportStored(at: $0) }) { return }
        let store = try NodeStores(directory: machine.state.path).conversations
        let contacts = try ContactDirectory(machine).snapshot()
        while true {
            let messages = try store.arrivals(after: last.withLock { $0 }, limit: ControlReply.maximumEntryCount)
            guard !messages.isEmpty else { return }
            for message in messages { report(ReceivedMessage(message, contacts: contacts)) }
        }
    }

    /// Reports the stored messages, and those that arrive until the node ends.
    package func follow(_ client: any NodeClient) async throws {
        // Subscribed before the list is requested, so that no message is lost between the two.
        let events = try await client.events()
        defer { reportParts() }
        try await reportStored(at: client)
        reportParts()
        try await firstResult(of: { try await report(events, of: client) }, { await reportExpiredParts() })
        // Only the user ends it then: that is no failure.
        if !client.isEndFinal { throw ControlFailure(.gone, "the node has ended") }
    }

    /// Reports the messages of a node that arrive until it ends.
    private func report(_ events: AsyncStream<ControlEvent>, of client: any NodeClient) async throws {
        var eventCount = 0
        for await event in events {
            eventCount += 1
            if case .received(let message) = event, message.number > last.withLock({ $0 }) {
                if message.number == last.withLock({ $0 }) + 1 {
                    report(message)
                } else {
                    // Events were lost.
                    try await reportStored(at: client)
                }
            }
            if eventCount.isMultiple(of: Self.refreshInterval) { try await reportStored(at: client) }
        }
    }

    private func reportStored(at client: any NodeClient) async throws {
        while true {
            let messages = try await client.messages(after: last.withLock { $0 })
            guard !messages.isEmpty else { return }
            for message in messages { report(message) }
        }
    }

    private func report(_ message: ReceivedMessage) {
        let now = SystemClock.monotonic()
        for shown in joiner?.withLock({ $0.add(message, at: now) }) ?? [message] { reporter.report(.node(.received(shown))) }
        last.withLock { $0 = message.number }
        addition.notifyAll()
    }

    /// Reports the parts of the lines that are not whole after all that is stored: the others may never come.
    private func reportParts() {
        for part in joiner?.withLock({ $0.drain() }) ?? [] { reporter.report(.node(.received(part))) }
    }

    /// The time of the next parts to report; nil while none are held.
    private var deadline: MonotonicInstant? { joiner?.withLock { $0.deadline } }

    /// Reports the parts of each line that is not whole in time, until the task is cancelled.
    private func reportExpiredParts() async {
        while let next = await addition.waitForValue({ deadline }) {
            guard (try? await Task.sleep(for: max(next - SystemClock.monotonic(), .zero))) != nil else { return }
            let now = SystemClock.monotonic()
            for part in joiner?.withLock({ $0.drainExpired(at: now) }) ?? [] { reporter.report(.node(.received(part))) }
        }
    }
}
