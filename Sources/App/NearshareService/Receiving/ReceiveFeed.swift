package import Nearshare
internal import Synchronization

/// A prompt that waits for an answer, for front ends besides the terminal. All texts are escaped as for a terminal.
package struct OpenPrompt: Sendable, Hashable, Codable {
    /// The number of the prompt, which the process never uses again.
    package var number: Int
    /// The question, with the peer's name.
    package var title: String
    /// The item and its peer, in a few words; nil from a node of another version.
    package var subject: String?
    /// Trust status, short code and content: the facts for the answer.
    package var lines: [String]
    /// The labels of the answers ``PromptAnswer/yes`` and ``PromptAnswer/no``.
    package var yes: String
    package var no: String
    /// The conversation to which it belongs; nil for none, and from a node of another version.
    package var conversation: Conversation?
    /// The name of the peer that it concerns; nil where it is not known.
    package var peerName: DisplayName?

    package init(
        number: Int, title: String, subject: String? = nil, lines: [String], yes: String, no: String,
        conversation: Conversation? = nil, peerName: DisplayName? = nil
    ) {
        (self.number, self.title, self.subject, self.lines) = (number, title, subject, lines)
        (self.yes, self.no, self.conversation, self.peerName) = (yes, no, conversation, peerName)
    }
}

/// The answer of a front end to a prompt.
package enum PromptAnswer: String, Sendable, Hashable, Codable {
    case yes, no
}

/// An item that has arrived, for front ends. Only ``path`` is not escaped.
package struct Arrival: Sendable, Hashable, Codable {
    package enum Kind: Sendable, Hashable, Codable {
        /// - Parameter startsPrograms: whether opening the file can start a program.
        case file(startsPrograms: Bool)
        case folder
        case voiceNote(Duration)
        /// - Parameter beginning: as much as is shown.
        case text(beginning: String)
    }

    package var kind: Kind
    /// Absolute; empty where nothing is in the inbox.
    package var path: String
    package var name: String
    /// Bytes.
    package var size: UInt64
    /// The sender; nil where it is not known.
    package var sender: PeerID?
    package var senderName: String
    /// The conversation to which it belongs; nil where it is not known.
    package var conversation: Conversation?

    package init(
        kind: Kind, path: String, name: String, size: UInt64, sender: PeerID?, senderName: String,
        conversation: Conversation? = nil
    ) {
        (self.kind, self.path, self.name, self.size) = (kind, path, name, size)
        (self.sender, self.senderName, self.conversation) = (sender, senderName, conversation)
    }
}

/// An event of the part of a node that receives.
package enum ReceiveEvent: Sendable, Hashable, Codable {
    case prompt(OpenPrompt)
    /// The question was answered, withdrawn or has expired.
    case promptEnded(number: Int)
    /// - Parameter label: peer and content, escaped.
    case started(TransferID, label: String)
    case progress(TransferID, done: UInt64, total: UInt64?)
    case arrived(Arrival, TransferID?)
    /// - Parameter failure: a sentence, escaped; nil for a complete transfer.
    case ended(TransferID, failure: String?)

    private enum CodingKeys: String, CodingKey {
        case prompt = "question"
        case promptEnded = "questionEnded"
        case started, progress, arrived, ended
    }
}

/// The connection between a ``ReceiveController`` and front ends besides the terminal: each reads the same events, and the first
/// answer to a question counts.
package final class ReceiveFeed: Sendable {
    private struct State {
        var open: [OpenPrompt] = []
        var answer: (@Sendable (Int, PromptAnswer) -> Bool)?
    }

    private let state = Mutex(State())
    private let subscribers: Broadcast<ReceiveEvent>
    private let departures = Broadcast<Void>(bound: 1)

    package init() {
        subscribers = Broadcast { [departures] in departures.publish(()) }
    }

    /// Whether questions are shown by at least one front end.
    package var hasSubscribers: Bool { subscribers.hasSubscribers }

    /// The events from now on, after the questions that are open.
    package func subscribe() -> AsyncStream<ReceiveEvent> {
        state.withLock { subscribers.subscribe(after: $0.open.map { .prompt($0) }) }
    }

    /// Waits until no front end has shown questions for a while, or the task is cancelled.
    /// - Parameter grace: for one that is started again.
    func waitUntilUnwatched(for grace: Duration) async {
        let departures = departures.subscribe()
        if !hasSubscribers, await !hasNewSubscriber(within: grace) { return }
        for await _ in departures where !hasSubscribers {
            if await !hasNewSubscriber(within: grace) { return }
        }
    }

    private func hasNewSubscriber(within time: Duration) async -> Bool {
        try? await Task.sleep(for: time)
        return hasSubscribers
    }

    /// Answers a prompt.
    /// - Returns: false when it is no longer open.
    package func answer(_ number: Int, _ answer: PromptAnswer) -> Bool {
        let handler = state.withLock(\.answer)
        return handler?(number, answer) ?? false
    }

    /// Passes answers to the queue that has asked.
    func onAnswer(_ handler: @escaping @Sendable (Int, PromptAnswer) -> Bool) { state.withLock { $0.answer = handler } }

    func publish(_ event: ReceiveEvent) {
        state.withLock { state in
            switch event {
            case .prompt(let prompt): state.open.append(prompt)
            case .promptEnded(let number): state.open.removeAll { $0.number == number }
            default: break
            }
            // With the lock held, so that a new subscriber sees each question once.
            subscribers.publish(event)
        }
    }

    func finish() { subscribers.finish() }
}

/// Passes the events of receiving on to a feed.
struct ReceiveFeedReporter: Reporter {
    let reporter: any Reporter
    let feed: ReceiveFeed

    /// Limit on the part of a text that is shown, in columns.
    private static let maximumTextColumns = 300

    func report(_ event: OperationEvent) {
        reporter.report(event)
        guard feed.hasSubscribers else { return }
        switch event {
        case .progress(let progress): feed.publish(.progress(progress.id, done: progress.done, total: progress.total))
        case .delivered(let item, let content, let sender, let transfer, let conversation):
            if !item.isPresent { feed.publish(.arrived(Self.arrival(item, content, from: sender, in: conversation), transfer)) }
        case .receiveEnded(let result):
            guard let transfer = result.transfer else { return }
            let failure =
                result.outcome == .completed
                ? nil
                : "\(OfferText.summary(result.offer)) from \(result.name): \(Self.sentence(result))"
            feed.publish(.ended(transfer, failure: failure))
        default: break
        }
    }

    func showProgress(of transfers: RunningTransfers) async { await reporter.showProgress(of: transfers) }

    private static func sentence(_ result: ReceiveResult) -> String {
        result.missing?.sentence ?? result.outcome.receiverSentence(result.name, isResumable: result.isResumable)
    }

    private static func arrival(
        _ item: DeliveredItem, _ content: DeliveredContent, from sender: ShownPeer?, in conversation: Conversation?
    ) -> Arrival {
        let name = item.path.pathComponents.last ?? ""
        let kind: Arrival.Kind =
            switch content {
            case .text(let text): .text(beginning: TerminalText.escaped(text, columns: maximumTextColumns))
            case .voiceNote(let note): .voiceNote(note.duration)
            case .notShown: item.kind == .folder ? .folder : .file(startsPrograms: startsPrograms(name, item.detectedType))
            }
        return Arrival(
            kind: kind, path: item.isInInbox ? item.path : "", name: TerminalText.quoted(middleCut: name, columns: 60),
            size: item.size, sender: sender?.id, senderName: sender.map { $0.name.shown(of: $0.id) } ?? "",
            conversation: conversation)
    }

    private static func startsPrograms(_ name: String, _ type: String?) -> Bool {
        ClaimedFileName(bytes: Array(name.utf8)).map { ProgramStarter.startsProgram([$0], claimedType: type) } ?? true
    }
}
