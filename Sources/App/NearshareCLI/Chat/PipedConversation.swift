internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal
internal import Synchronization

/// A conversation without a screen: sends the lines of standard input and reports their delivery.
final class PipedConversation: Sendable {
    struct Parameters: Sendable {
        /// The peer as named by the user; nil for the public room.
        var peer: String?
        var requiredStatus: MessageStatus
        /// Time to wait after the last line.
        var timeout: Duration
        /// Keeps running after the last line, and shows received lines.
        var follows: Bool
        /// Number of earlier lines that are shown first.
        var history: Int
        var isJSON: Bool
    }

    private enum Input: Sendable {
        case event(ControlEvent)
        case accepted(String, line: UInt64)
        case refused(ControlFailure, line: UInt64)
        case ended
        case timedOut
        case nodeEnded
        case stopped
    }

    private let client: any NodeClient
    private let parameters: Parameters
    private let lines: LineReader
    private let inputs: AsyncStream<Input>
    private let sink: AsyncStream<Input>.Continuation

    /// Time to look for an unknown peer, in seconds.
    private static let findTimeout = Duration.seconds(10)
    private static let maximumHistory = 500
    /// Number of events after which the stored states are read. A reader that falls behind loses the oldest of the 1,024 events
    /// that wait for it, so at least one reading follows each loss.
    private static let refreshInterval = 512

    init(client: any NodeClient, parameters: Parameters, input: Int32 = STDIN_FILENO) {
        self.client = client
        self.parameters = parameters
        self.lines = LineReader(input, maximumLineByteCount: ChatMessage.maximumTextByteCount * 2)
        (inputs, sink) = AsyncStream.makeStream(of: Input.self)
    }

    /// Makes ``run()`` end soon.
    func stop() {
        lines.stop()
        sink.yield(.stopped)
    }

    func run() async throws {
        // Subscribes before the first line is sent, so that no state is missed.
        let events = try await client.events()
        let conversation: Conversation
        var name = "everyone"
        if let peer = parameters.peer {
            let person = try await client.find(peer, timeout: Self.findTimeout)
            conversation = .peer(person.id)
            name = person.name.shown
        } else {
            conversation = .publicRoom
        }
        let report = ChatReport(
            conversation: conversation, name: name, isJSON: parameters.isJSON, showsEntries: parameters.follows)
        if parameters.isJSON { report.emit(.contacts(try await client.contacts())) }
        if parameters.history > 0 { try await emitHistory(conversation, report) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask { [sink] in
                for await event in events { sink.yield(.event(event)) }
                sink.yield(.nodeEnded)
            }
            group.addTask { try await self.sendLines(in: conversation) }
            try await follow(conversation, name: name, report, &group)
            lines.stop()
        }
    }

    private func follow(
        _ conversation: Conversation, name: String, _ report: ChatReport, _ group: inout ThrowingTaskGroup<Void, any Error>
    ) async throws {
        var tracker = DeliveryTracker(conversation, requiredStatus: parameters.requiredStatus)
        var eventCount = 0
        for await input in inputs {
            switch input {
            case .event(let event):
                tracker.handle(event)
                report.emit(event)
                eventCount += 1
                if eventCount.isMultiple(of: Self.refreshInterval) { try await refresh(&tracker) }
                if parameters.follows, case .entry(let entry) = event, entry.conversation == conversation, !entry.isOurs {
                    try await client.markRead(conversation)
                }
            case .accepted(let id, let line):
                tracker.recordAcceptance(of: id)
                report.accepted(id, line: line)
            case .refused(let failure, let line):
                tracker.recordRejection(reason: failure.description)
                report.refused(failure, line: line)
            case .ended:
                tracker.recordEndOfInput()
                try await refresh(&tracker)
                if !parameters.follows {
                    group.addTask { [sink, parameters] in
                        try? await Task.sleep(for: parameters.timeout)
                        sink.yield(.timedOut)
                    }
                }
            case .timedOut:
                try await refresh(&tracker)
                let isNear = try await isNear(conversation)
                if let failure = tracker.failure(name: name, isNear: isNear, hasTimedOut: true) {
                    throw failure
                }
                return
            case .nodeEnded:
                throw CommandFailure(
                    .failure, "the node has stopped; run the command again, and check the conversation with `nearshare chat`")
            case .stopped: return
            }
            if tracker.isDone, !parameters.follows {
                if let failure = tracker.failure(name: name) { throw failure }
                return
            }
        }
    }

    /// Reads the states that the node has stored, in case an event was lost.
    private func refresh(_ tracker: inout DeliveryTracker) async throws {
        guard !tracker.pending.isEmpty else { return }
        let limit = min(Self.maximumHistory, tracker.pending.count + 50)
        for entry in try await client.history(of: tracker.conversation, limit: limit) { tracker.update(with: entry) }
    }

    private func isNear(_ conversation: Conversation) async throws -> Bool {
        guard case .peer(let id) = conversation else { return false }
        return try await client.contacts().contains { $0.id == id && $0.isNear }
    }

    /// Submits each line before the next one is read.
    private func sendLines(in conversation: Conversation) async throws {
        var number: UInt64 = 0
        while let line = await lines.next() {
            number += 1
            guard line.contains(where: { !$0.isWhitespace }) else { continue }
            do throws(ControlFailure) {
                guard line.utf8.count <= ChatMessage.maximumTextByteCount else {
                    throw ControlFailure(
                        .refused,
                        "a message holds at most \(UInt64(ChatMessage.maximumTextByteCount).asByteCount); send it as a file")
                }
                sink.yield(.accepted(try await client.say(line, in: conversation), line: number))
            } catch {
                sink.yield(.refused(error, line: number))
            }
        }
        sink.yield(.ended)
    }

    private func emitHistory(_ conversation: Conversation, _ report: ChatReport) async throws {
        let entries = try await client.history(of: conversation, limit: parameters.history)
        for entry in entries { report.emit(.entry(entry)) }
        if parameters.follows, entries.contains(where: { !$0.isOurs && $0.status < .read }) {
            try await client.markRead(conversation)
        }
    }
}
