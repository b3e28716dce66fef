internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal
internal import Synchronization

/// A conversation without a screen: lines in, and what becomes of them out.
final class PipedConversation: Sendable {
    struct Order: Sendable {
        /// A name; nil for everybody.
        var peer: String?
        var goal: MessageStatus
        /// After the last line, for those that have not come so far.
        var timeout: Duration
        /// Goes on after the last line, and says what comes.
        var follows: Bool
        /// Lines of before that are said first.
        var history: Int
        var isJSON: Bool
    }

    private enum Happening: Sendable {
        case event(ControlEvent)
        case accepted(String, line: UInt64)
        case refused(ControlFailure, line: UInt64)
        case ended
        /// Time to look at what the node has stored.
        case look
        case timedOut
        case gone
        case stopped
    }

    private let client: any NodeClient
    private let order: Order
    private let input: LineReader
    private let happenings: AsyncStream<Happening>
    private let sink: AsyncStream<Happening>.Continuation

    /// Seconds that somebody is waited for who is not known.
    private static let findTimeout = Duration.seconds(10)
    private static let maximumHistory = 500

    init(client: any NodeClient, order: Order, input: Int32 = STDIN_FILENO) {
        self.client = client
        self.order = order
        self.input = LineReader(input, maximumLineByteCount: ChatMessage.maximumTextByteCount * 2)
        (happenings, sink) = AsyncStream.makeStream(of: Happening.self)
    }

    /// Makes ``run()`` end soon.
    func stop() {
        input.stop()
        sink.yield(.stopped)
    }

    func run() async throws {
        // Before anything is said, so that no mark is missed.
        let events = try await client.events()
        let conversation: Conversation
        var name = "everybody"
        if let peer = order.peer {
            let person = try await client.find(peer, timeout: Self.findTimeout)
            conversation = .peer(person.id)
            name = person.name.shown
        } else {
            conversation = .everybody
        }
        let report = ChatReport(conversation: conversation, name: name, isJSON: order.isJSON, says: order.follows)
        if order.isJSON { report.say(.contacts(try await client.contacts())) }
        if order.history > 0 { try await sayHistory(conversation, report) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask { [sink] in
                for await event in events { sink.yield(.event(event)) }
                sink.yield(.gone)
            }
            group.addTask { try await self.speak(in: conversation) }
            group.addTask { [sink] in
                while !Task.isCancelled {
                    try? await Task.sleep(for: .seconds(1))
                    sink.yield(.look)
                }
            }
            try await follow(conversation, name: name, report, &group)
            input.stop()
        }
    }

    private func follow(
        _ conversation: Conversation, name: String, _ report: ChatReport, _ group: inout ThrowingTaskGroup<Void, any Error>
    ) async throws {
        var pipe = ChatPipe(conversation, goal: order.goal)
        for await happening in happenings {
            switch happening {
            case .event(let event):
                pipe.take(event)
                report.say(event)
                if order.follows, case .entry(let entry) = event, entry.conversation == conversation, !entry.isOurs {
                    try await client.markRead(conversation)
                }
            case .accepted(let id, let line):
                pipe.accepted(id)
                report.accepted(id, line: line)
            case .refused(let failure, let line):
                pipe.refused(failure.description)
                report.refused(failure, line: line)
            case .ended:
                pipe.end()
                if !order.follows {
                    group.addTask { [sink, order] in
                        try? await Task.sleep(for: order.timeout)
                        sink.yield(.timedOut)
                    }
                }
            case .look:
                guard !pipe.open.isEmpty else { break }
                let limit = min(Self.maximumHistory, pipe.open.count + 50)
                for entry in try await client.history(of: conversation, limit: limit) { pipe.take(entry) }
            case .timedOut:
                let isNear = try await isNear(conversation)
                if let failure = pipe.failure(name: name, isNear: isNear, timedOutAfter: order.timeout.inSeconds) {
                    throw failure
                }
                return
            case .gone:
                throw CommandFailure(
                    .failure, "the node has ended in the middle; start it again, and look with `nearshare chat`")
            case .stopped: return
            }
            if pipe.isDone, !order.follows {
                if let failure = pipe.failure(name: name) { throw failure }
                return
            }
        }
    }

    private func isNear(_ conversation: Conversation) async throws -> Bool {
        guard case .peer(let id) = conversation else { return false }
        return try await client.contacts().contains { $0.id == id && $0.isNear }
    }

    /// Hands each line over before the next one is read.
    private func speak(in conversation: Conversation) async throws {
        var number: UInt64 = 0
        while let line = await input.next() {
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

    private func sayHistory(_ conversation: Conversation, _ report: ChatReport) async throws {
        let entries = try await client.history(of: conversation, limit: order.history)
        for entry in entries { report.say(.entry(entry)) }
        if order.follows, entries.contains(where: { !$0.isOurs && $0.status < .read }) {
            try await client.markRead(conversation)
        }
    }
}

/// What is said on standard output.
struct ChatReport: Sendable {
    let conversation: Conversation
    /// Fit for a terminal.
    let name: String
    let isJSON: Bool
    /// People are told what others write.
    let says: Bool

    func say(_ event: ControlEvent) {
        if isJSON {
            if let (word, fields) = Self.fields(event, of: conversation) { JSONEvents.emit(word, fields) }
        } else if says, case .entry(let entry) = event, entry.conversation == conversation {
            for line in Self.lines(entry, called: name) { Console.result(line) }
        }
    }

    func accepted(_ id: String, line: UInt64) {
        if isJSON { JSONEvents.emit("accepted", ["id": .text(id), "line": .number(line)]) }
    }

    func refused(_ failure: ControlFailure, line: UInt64) {
        if isJSON { JSONEvents.emit("refused", ["line": .number(line), "reason": .text(failure.description)]) }
    }

    /// For people: also where the output goes on to a terminal, nothing in it steers one (T7).
    static func lines(_ entry: ChatMessage, called name: String) -> [String] {
        var author = "you"
        if let id = entry.author {
            author = entry.authorName?.shown ?? name
            if entry.conversation == .everybody { author += "#\(id.hex.prefix(4))" }
        }
        let clock = ChatScreen.LocalTime(entry.when).clock
        let lines = entry.text.split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" }
        return lines.enumerated().map { index, line in
            (index == 0 ? "\(clock) \(author): " : "    ") + TextLayout.escaped(line)
        }
    }

    /// - Returns: nil for what is of another conversation.
    static func fields(_ event: ControlEvent, of conversation: Conversation) -> (String, [String: JSONValue])? {
        switch event {
        case .entry(let entry):
            guard entry.conversation == conversation else { return nil }
            return ("line", ChatLine.describe(entry))
        case .marked(let id, conversation, let mark, let reason):
            return (
                "mark",
                [
                    "conversation": .text(conversation.text), "id": .text(id), "mark": .text(mark.word),
                    "reason": JSONValue(reason),
                ]
            )
        case .contacts(let contacts): return ("people", ["people": .list(contacts.map { .object(fields($0)) })])
        case .transfer(let transfer):
            guard conversation == .peer(transfer.peer) else { return nil }
            return (
                "transfer",
                [
                    "transfer": .text(transfer.id.hex), "incoming": .flag(transfer.isIncoming), "name": .text(transfer.name),
                    "done": .number(transfer.done), "total": JSONValue(transfer.total),
                    "outcome": JSONValue(transfer.outcome?.word), "detail": JSONValue(transfer.detail),
                ]
            )
        case .notice(let text): return ("notice", ["text": .text(text)])
        case .marked, .messageChanged, .received: return nil
        }
    }

    private static func fields(_ person: Contact) -> [String: JSONValue] {
        [
            "id": .text(person.id.hex), "name": .text(person.name.claimed), "standing": .text(person.trustStatus.label),
            "friend": .flag(person.isFriend), "near": .flag(person.isNear),
            "software": .text(person.software.rawValue),
        ]
    }
}

extension MessageStatus {
    /// One word for scripts.
    var word: String {
        switch self {
        case .waiting: "waiting"
        case .sent: "sent"
        case .delivered: "delivered"
        case .read: "read"
        case .failed: "failed"
        }
    }
}
