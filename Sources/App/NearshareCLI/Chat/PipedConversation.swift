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
        /// Whether the authors of lines that are shown learn it.
        var sendsReadReceipts = true
        /// Whether the contacts are reported first.
        var reportsContacts = false
        var reporter: any CommandReporter

        /// Whether text output includes received lines, which then count as read.
        var showsMessages: Bool { follows }
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

    /// The state that outlives a node: the next one goes on from it.
    private struct ResumableState: Sendable {
        var conversation: Conversation?
        /// The receiver's name, escaped for a terminal.
        var name = "everyone"
        var tracker: DeliveryTracker?
        var acceptedIDs: Set<String> = []
        /// The line that was read last, while the node has not replied. A node that has ended may have stored it.
        var unanswered: String?
        var lineNumber: UInt64 = 0
        var inputHasEnded = false
        var isStopped = false
        /// Receives the inputs of the current run.
        var continuation: AsyncStream<Input>.Continuation?
    }

    private let parameters: Parameters
    private let lines: LineReader
    private let state = Mutex(ResumableState())

    /// Timeout of the search for an unknown peer.
    private static let lookupTimeout = Duration.seconds(10)
    /// Time after which the user is told about the search.
    private static let noticeDelay = Duration.milliseconds(500)
    private static let maximumHistory = 500
    private static let emptyInputNotice =
        "standard input has no lines, so nothing was sent; --follow shows what arrives, and on a terminal the conversation opens"
    /// Number of events after which the stored states are read. A reader that falls behind loses the oldest of the events that are
    /// buffered, so at least one reading follows each loss.
    private static let refreshEventCount = ControlClient.maximumBufferedEventCount / 2

    init(parameters: Parameters, input: Int32 = STDIN_FILENO) {
        self.parameters = parameters
        self.lines = LineReader(input, maximumLineByteCount: ChatMessage.maximumTextByteCount * 2)
    }

    /// Makes ``run(through:)`` end soon.
    func stop() {
        lines.stop()
        state.withLock { state in
            state.isStopped = true
            state.continuation?.yield(.stopped)
        }
    }

    /// Runs until everything is sent, from where an earlier node has left off.
    /// - Throws: ``ControlFailure`` of kind `gone` when the node ends.
    func run(through client: any NodeClient) async throws {
        // Subscribes before the first line is sent, so that no state is missed.
        let events = try await client.events()
        let (inputs, continuation) = AsyncStream.makeStream(of: Input.self)
        let isFirst = state.withLock { state in
            state.continuation = continuation
            if state.isStopped { continuation.yield(.stopped) }
            return state.conversation == nil
        }
        if isFirst {
            let contact: Contact?
            if let peer = parameters.peer {
                contact = try await find(peer, through: client)
            } else {
                contact = nil
            }
            state.withLock { state in
                state.conversation = contact.map { .peer($0.id) } ?? .publicRoom
                if let contact { state.name = contact.name.shown }
            }
        }
        let (conversation, name) = state.withLock { ($0.conversation ?? .publicRoom, $0.name) }
        let report = ChatReport(
            conversation: conversation, name: name, reporter: parameters.reporter, showsMessages: parameters.showsMessages)
        if parameters.reportsContacts { report.emit(.contacts(try await client.contacts())) }
        if parameters.history > 0, isFirst { try await emitHistory(conversation, report, client) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                for await event in events { continuation.yield(.event(event)) }
                continuation.yield(.nodeEnded)
            }
            group.addTask { try await self.sendLines(in: conversation, client, continuation) }
            try await process(
                inputs, of: conversation, name: name, reportingTo: report, through: client, continuation: continuation,
                in: &group)
            lines.stop()
        }
    }

    /// Looks for the peer, and says so when it takes longer than a moment.
    private func find(_ peer: String, through client: any NodeClient) async throws -> Contact {
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                try await Task.sleep(for: Self.noticeDelay)
                Console.notice("looking for \(TerminalText.escaped(peer))…")
            }
            let contact = try await client.find(peer, timeout: Self.lookupTimeout)
            let contacts = (try? await client.contacts()) ?? []
            // An id means one peer.
            if PeerID(hex: peer) == nil, contact.isNear || parameters.showsMessages,
                let notice = SharedName.notice(for: contact, among: contacts)
            {
                Console.notice(notice)
            }
            if PeerID(hex: peer) == nil, let notice = Self.newcomerNotice(for: contact) {
                parameters.reporter.writeText { Console.notice(notice) }
            }
            return contact
        }
    }

    private func process(
        _ inputs: AsyncStream<Input>, of conversation: Conversation, name: String, reportingTo report: ChatReport,
        through client: any NodeClient, continuation: AsyncStream<Input>.Continuation,
        in group: inout ThrowingTaskGroup<Void, any Error>
    ) async throws {
        let earlier = state.withLock(\.tracker)
        var tracker = earlier ?? DeliveryTracker(conversation, requiredStatus: parameters.requiredStatus)
        defer { state.withLock { $0.tracker = tracker } }
        // Lines may have been delivered between two nodes.
        if earlier != nil { try await refresh(&tracker, report, client) }
        var eventCount = 0
        for await input in inputs {
            switch input {
            case .event(let event):
                tracker.handle(event)
                if !tracker.consumeRepeat(of: event) { report.emit(event) }
                eventCount += 1
                if eventCount.isMultiple(of: Self.refreshEventCount) { try await refresh(&tracker, report, client) }
                if parameters.showsMessages, case .chatMessage(let message, _) = event, message.conversation == conversation,
                    !message.isLocal
                {
                    try await client.markRead(conversation, notifiesAuthors: parameters.sendsReadReceipts)
                }
            case .accepted(let id, let line):
                tracker.recordAcceptance(of: id)
                report.emitAccepted(id, line: line)
            case .refused(let failure, let line):
                tracker.recordRefusal(reason: failure.description, isOverLimit: failure.kind == .tooLarge)
                report.emitRefused(failure, line: line)
            case .ended:
                tracker.recordEndOfInput()
                try await refresh(&tracker, report, client)
                if !parameters.follows {
                    group.addTask { [parameters] in
                        try? await Task.sleep(for: parameters.timeout)
                        continuation.yield(.timedOut)
                    }
                }
            case .timedOut:
                try await refresh(&tracker, report, client)
                if !tracker.pending.isEmpty, tracker.failures.isEmpty { try await requireReceiver(client) }
                let isNear = try await isNear(conversation, client)
                if let failure = Self.failure(of: tracker, name: name, isNear: isNear, hasTimedOut: true) {
                    throw failure
                }
                return
            case .nodeEnded:
                throw ControlFailure(
                    .gone, "the node has stopped; run the command again, and check the conversation with `nearshare chat`")
            case .stopped: return
            }
            if tracker.isDone, !parameters.follows {
                if let failure = Self.failure(of: tracker, name: name) { throw failure }
                if tracker.requiredStatus < .delivered, tracker.reachedCount > 0 { try await requireReceiver(client) }
                if tracker.reachedCount == 0, !parameters.showsMessages { Console.notice(Self.emptyInputNotice) }
                return
            }
        }
    }

    /// Reads the states that the node has stored, and reports those that have changed: their events may be lost, or not be read
    /// before the command ends.
    private func refresh(
        _ tracker: inout DeliveryTracker, _ report: ChatReport, _ client: any NodeClient
    ) async throws {
        guard !tracker.pending.isEmpty else { return }
        let limit = min(Self.maximumHistory, tracker.pending.count + 50)
        for message in try await client.history(of: tracker.conversation, limit: limit) {
            if let change = tracker.updateFromStore(message) { report.emit(change) }
        }
    }

    /// Fails where the lines wait for a known peer that is away while another device with its name is near (K2). Relaying nodes
    /// may have them, but the key for which they are encrypted may be gone for good.
    private func requireReceiver(_ client: any NodeClient) async throws {
        guard let peer = parameters.peer, PeerID(hex: peer) == nil,
            case .peer(let id)? = state.withLock({ $0.conversation })
        else { return }
        if let failure = Self.failure(ofLinesFor: id, among: try await client.contacts()) { throw failure }
    }

    private func isNear(_ conversation: Conversation, _ client: any NodeClient) async throws -> Bool {
        guard case .peer(let id) = conversation else { return false }
        return try await client.contacts().contains { $0.id == id && $0.isNear }
    }

    /// Submits each line before the next one is read.
    private func sendLines(
        in conversation: Conversation, _ client: any NodeClient, _ continuation: AsyncStream<Input>.Continuation
    ) async throws {
        if let text = state.withLock(\.unanswered) {
            // The node that has ended may have stored it: the same line must not be sent twice.
            if let id = try await storedID(of: text, in: conversation, client) {
                recordAcceptance(of: id, continuation)
            } else if await !submit(text, in: conversation, client, continuation) {
                return
            }
        }
        while !state.withLock(\.inputHasEnded) {
            guard let line = await lines.next() else {
                // The line after a cancellation is read by the next run.
                if Task.isCancelled { return }
                state.withLock { $0.inputHasEnded = true }
                break
            }
            state.withLock { $0.lineNumber += 1 }
            guard line.contains(where: { !$0.isWhitespace }) else { continue }
            state.withLock { $0.unanswered = line }
            guard await submit(line, in: conversation, client, continuation) else { return }
        }
        continuation.yield(.ended)
    }

    /// - Returns: false when the node has ended, so that the line is still unanswered.
    private func submit(
        _ text: String, in conversation: Conversation, _ client: any NodeClient, _ continuation: AsyncStream<Input>.Continuation
    ) async -> Bool {
        do throws(ControlFailure) {
            guard text.utf8.count <= ChatMessage.maximumTextByteCount else {
                throw ControlFailure(
                    .tooLarge,
                    "a message holds at most \(UInt64(ChatMessage.maximumTextByteCount).formattedByteCount); send it as a file")
            }
            recordAcceptance(of: try await client.sendLine(text, in: conversation), continuation)
        } catch {
            if error.kind == .gone { return false }
            let number = state.withLock { state in
                state.unanswered = nil
                return state.lineNumber
            }
            continuation.yield(.refused(error, line: number))
        }
        return true
    }

    private func recordAcceptance(of id: String, _ continuation: AsyncStream<Input>.Continuation) {
        let number = state.withLock { state in
            state.unanswered = nil
            state.acceptedIDs.insert(id)
            return state.lineNumber
        }
        continuation.yield(.accepted(id, line: number))
    }

    /// The id of a line of this user with this text that no node has reported yet.
    private func storedID(
        of text: String, in conversation: Conversation, _ client: any NodeClient
    ) async throws -> String? {
        let known = state.withLock(\.acceptedIDs)
        return try await client.history(of: conversation, limit: 2)
            .last { $0.isLocal && $0.text == text && !known.contains($0.id) }?.id
    }

    private func emitHistory(
        _ conversation: Conversation, _ report: ChatReport, _ client: any NodeClient
    ) async throws {
        let messages = try await client.history(of: conversation, limit: parameters.history)
        for message in messages { report.emit(.chatMessage(message)) }
        if parameters.showsMessages, messages.contains(where: { !$0.isLocal && $0.status < .read }) {
            try await client.markRead(conversation, notifiesAuthors: parameters.sendsReadReceipts)
        }
    }
}

extension PipedConversation {
    /// The sentence that tells the user which peer gets the lines; nil for one that the user knows, and for one that is away.
    static func newcomerNotice(for contact: Contact) -> String? {
        guard contact.isNear, !contact.trustStatus.isKnown else { return nil }
        let standing =
            if case .nameClash = contact.trustStatus { "which has the name of a known peer, but another key" } else {
                "which is new here"
            }
        return "each line goes to \(contact.name.identified(by: contact.id)), \(standing)"
    }

    /// The failure of lines that are stored for a peer that is away, where another device in range has its name; nil for none.
    static func failure(ofLinesFor id: PeerID, among contacts: [Contact]) -> CommandFailure? {
        guard let contact = contacts.first(where: { $0.id == id }), !contact.isNear,
            let notice = SharedName.notice(for: contact, among: contacts)
        else { return nil }
        return CommandFailure(.timedOut, "what you wrote waits: \(notice)")
    }

    /// The failure of the command; nil for success.
    /// - Parameters:
    ///   - name: the receiver's name, escaped for a terminal.
    ///   - isNear: whether the receiver is in range.
    ///   - hasTimedOut: whether the timeout has expired.
    static func failure(of tracker: DeliveryTracker, name: String, isNear: Bool = false, hasTimedOut: Bool = false)
        -> CommandFailure?
    {
        if let reason = tracker.failures.first {
            let count = tracker.failures.count
            let text = TextLayout.sanitized(reason)
            guard tracker.reachedCount + tracker.pending.count > 0 else {
                return CommandFailure(tracker.areAllOverLimit ? .noSpace : .failure, "not sent: \(text)")
            }
            return CommandFailure(
                .partly, "\(count) of \(count + tracker.reachedCount + tracker.pending.count) messages were not sent: \(text)")
        }
        guard hasTimedOut, !tracker.pending.isEmpty else { return nil }
        let waitingCount = tracker.pending.values.count { $0 == .waiting }
        let subject = tracker.pending.count == 1 ? "the message" : "\(tracker.pending.count) messages"
        let (verb, object) = tracker.pending.count == 1 ? ("is", "it") : ("are", "them")
        guard waitingCount > 0 else {
            return CommandFailure(
                .timedOut, "\(subject) \(verb) sent, but not acknowledged by \(name); use a longer --timeout to wait longer")
        }
        let reason =
            if case .publicRoom = tracker.conversation {
                "no peers nearby; stored, and sent when a peer is in range"
            } else if isNear {
                "\(name) is near, but has not accepted \(object); stored, and sent again later"
            } else {
                "neither \(name) nor a relaying node is in range; stored, and sent when one of them is"
            }
        return CommandFailure(.timedOut, "\(subject) \(verb) not sent yet: \(reason)")
    }
}
