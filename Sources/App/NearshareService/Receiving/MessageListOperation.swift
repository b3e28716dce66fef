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

    /// Number of events after which the stored messages are read. A reader that falls behind loses the oldest of the events that
    /// wait for it (``Broadcast``), so at least one reading follows each loss.
    private static let refreshInterval = 512

    /// - Parameters:
    ///   - number: earlier messages, and the one with this number, are left out.
    ///   - joinsParts: whether a chat line that came in parts is reported once, as a whole.
    package init(_ machine: LocalMachine, after number: Int, joinsParts: Bool, reporter: any Reporter) {
        joiner = joinsParts ? Monitor(ChatPartJoiner()) : nil
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
        try await reportStored(at: client)
        reportParts()
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
        // Only the user ends it then: that is no failure.
        if !client.isEndFinal { throw ControlFailure(.gone, "the node has ended") }
    }

    private func reportStored(at client: any NodeClient) async throws {
        while true {
            let messages = try await client.messages(after: last.withLock { $0 })
            guard !messages.isEmpty else { return }
            for message in messages { report(message) }
        }
    }

    private func report(_ message: ReceivedMessage) {
        for shown in joiner?.withLock({ $0.add(message) }) ?? [message] { reporter.report(.node(.received(shown))) }
        last.withLock { $0 = message.number }
    }

    /// Reports the parts of the lines that are not whole after all that is stored: the others may never come.
    private func reportParts() {
        for part in joiner?.withLock({ $0.drain() }) ?? [] { reporter.report(.node(.received(part))) }
    }
}
