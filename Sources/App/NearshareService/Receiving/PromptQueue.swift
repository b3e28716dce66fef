package import Nearshare
internal import Synchronization

/// Asks the user several questions at a time, on the terminal and through the front ends of a ``ReceiveFeed``: the first answer
/// counts. Questions are numbered when there are several, and none waits for another (R4). While transfers run, the user can
/// cancel one of them.
package final class PromptQueue: Sendable {
    package enum Answer: Sendable, Hashable {
        case yes
        /// Yes, and to what the peer offers later.
        case always
        case no
        case block
        /// Yes, to a part of the offer.
        case part(OfferPart)
        /// The question is no longer open: the invitation was withdrawn or has expired.
        case ended(TransferOutcome)
        /// Nothing shows the question any more.
        case unwatched
        /// No user will answer: the process stops, or the terminal has closed. Says nothing about what the user wants.
        case closed
    }

    private typealias Reply = CheckedContinuation<Answer, Never>

    /// A question as front ends besides the terminal show it.
    package struct Outline: Sendable {
        package var title: String
        /// The item and its peer, in a few words.
        package var subject: String
        package var lines: [String]
        package var yes: String
        package var no: String
        /// The conversation to which the question belongs; nil for none.
        package var conversation: Conversation?
        /// The name of the peer that it concerns.
        package var peerName: DisplayName?

        package init(
            title: String, subject: String, lines: [String], yes: String, no: String, conversation: Conversation? = nil,
            peerName: DisplayName? = nil
        ) {
            (self.title, self.subject, self.lines, self.yes, self.no) = (title, subject, lines, yes, no)
            (self.conversation, self.peerName) = (conversation, peerName)
        }
    }

    private struct State {
        var prompts = PendingPrompts<Reply>()
        /// The answer typed so far. Questions that arrive or end leave it alone.
        var typed = AnswerInput()
        /// The question that was the only one when the answer was begun: the one that a word without a number answers.
        var target: Int?
        /// The question that the last line answered with "block", of which the user was asked again.
        var blockTarget: Int?
        /// The time at which a question last ended without an answer.
        var lastEnd: MonotonicInstant?
        /// Whether no more answers are read.
        var isClosed = false
        /// Whether a line has said how a transfer is cancelled, where no prompt does.
        var isCancelExplained = false
    }

    /// The terminal; nil for a process without one.
    private let display: (any PromptDisplay)?
    private let feed: ReceiveFeed?
    /// The transfers that the user can cancel.
    private let running: RunningTransfers
    private let clock: @Sendable () -> MonotonicInstant
    private let state = Mutex(State())

    /// Time in which a front end that has ended can be started again, before the question is given up.
    private static let frontEndGrace = Duration.seconds(2)
    /// Time after the end of a question in which an answer needs a number: the user may have meant the question that has just
    /// disappeared, and untrusted peers choose when they withdraw and ask (R4).
    private static let replacementTime = Duration.seconds(1)

    package init(
        _ display: (any PromptDisplay)?, feed: ReceiveFeed? = nil, running: RunningTransfers = RunningTransfers(),
        clock: @escaping @Sendable () -> MonotonicInstant = { SystemClock.monotonic() }
    ) {
        (self.display, self.feed, self.running) = (display, feed, running)
        self.clock = clock
        feed?.onAnswer { [weak self] number, answer in self?.receive(answer, to: number) ?? false }
    }

    /// Whether a question would be seen.
    package var canAsk: Bool { display != nil || feed?.hasSubscribers == true }

    /// The size of the terminal, in character cells, or of a small one for a process without a terminal.
    var size: (columns: Int, rows: Int) { display?.size ?? (80, 24) }

    /// Reserves the number of a question, which the transfer that it is about keeps.
    func reserveNumber() -> Int { running.reserveNumber() }

    /// Reads answers from the terminal until the task is cancelled or the terminal closes.
    package func run() async {
        guard let display else { return }
        for await key in display.keys() { receive(key) }
        close()
    }

    /// Ends all questions with ``Answer/closed``, also later ones.
    package func close() {
        let open = state.withLock { state in
            state.isClosed = true
            state.typed.removeAll()
            defer { updatePrompt(state) }
            return state.prompts.removeAll()
        }
        for prompt in open { end(prompt, .closed) }
    }

    private func end(_ prompt: PendingPrompts<Reply>.Prompt, _ answer: Answer) {
        if prompt.question.outline != nil { feed?.publish(.promptEnded(number: prompt.number)) }
        prompt.reply.resume(returning: answer)
    }

    /// Asks a question, and waits for its answer or its end.
    /// - Parameters:
    ///   - number: as ``reserveNumber()`` returned it; nil for the next one.
    ///   - end: waits for the end of the subject, after which the question is removed.
    package func ask(
        _ question: Question, number: Int? = nil, until end: @escaping @Sendable () async -> TransferOutcome?
    ) async -> Answer {
        await withTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            return await withCheckedContinuation { continuation in
                let number: Int? = state.withLock { state in
                    guard !state.isClosed else { return nil }
                    // Input from before the first question was meant for none.
                    if state.prompts.open.isEmpty { display?.discardTypedInput() }
                    // The heading of the only question has no number.
                    if state.prompts.open.count == 1, let first = state.prompts.open.first, !first.isNumbered {
                        display?.show("number \(first.number) is the question above, about \(first.question.peerName)\n")
                    }
                    let number = state.prompts.add(
                        question, number: number ?? running.reserveNumber(), answerTime: question.deadline.map(answerTime),
                        continuation)
                    display?.show((state.prompts.open.count > 1 ? "number \(number): " : "") + question.subject)
                    updatePrompt(state)
                    // With the lock held: the question is announced before an answer can end it.
                    if let outline = question.outline {
                        feed?.publish(
                            .prompt(
                                OpenPrompt(
                                    number: number, title: outline.title, subject: outline.subject, lines: outline.lines,
                                    yes: outline.yes, no: outline.no, conversation: outline.conversation,
                                    peerName: outline.peerName)))
                    }
                    return number
                }
                guard let number else { return continuation.resume(returning: .closed) }
                group.addTask {
                    if let outcome = await end() { self.resolve(number, .ended(outcome)) }
                }
                if let deadline = question.deadline { group.addTask { await self.countDown(to: deadline) } }
                if display == nil, let feed {
                    group.addTask {
                        await feed.waitUntilUnwatched(for: Self.frontEndGrace)
                        if !Task.isCancelled { self.resolve(number, .unwatched) }
                    }
                }
            }
        }
    }

    /// A deadline by this machine's clock.
    private func answerTime(_ deadline: MonotonicInstant) -> String {
        let remaining = max(.zero, deadline - clock()).components.seconds
        return LocalTime.format(WallTime(milliseconds: SystemClock.wall().milliseconds + remaining * 1_000), "%H:%M:%S")
    }

    /// Updates the prompt each second until the deadline.
    private func countDown(to deadline: MonotonicInstant) async {
        // A line that cannot be replaced would be repeated.
        guard display?.redraws == true else { return }
        // Timed: the prompt shows the seconds that are left.
        while clock() < deadline, (try? await Task.sleep(for: .seconds(1))) != nil {
            state.withLock { updatePrompt($0) }
        }
    }

    /// Updates the prompt after a transfer has begun or ended.
    func updateRunning() {
        state.withLock { state in
            if state.prompts.open.isEmpty, !hasTransfers { state.typed.removeAll() }
            if hasTransfers, !state.isClosed, !state.isCancelExplained, let display, !display.redraws {
                state.isCancelExplained = true
                display.show("c and Enter cancels a transfer\n")
            }
            updatePrompt(state)
        }
    }

    private var hasTransfers: Bool { !running.current.isEmpty }

    /// Called with the lock held, so that the prompt matches the latest state.
    private func updatePrompt(_ state: borrowing State) {
        let isCancelShown = !state.isClosed && hasTransfers
        // Where it cannot be drawn again in its place, other lines would repeat it.
        let cancelPrompt = display?.redraws == true ? "[c]ancel a transfer: " : ""
        display?.setPrompt(
            state.prompts.prompt(
                answering: state.typed.isEmpty ? nil : state.target, now: display?.redraws == true ? clock() : nil)
                ?? (isCancelShown ? cancelPrompt : nil),
            typed: TerminalText.escaped(state.typed.text, columns: 100))
    }

    private func receive(_ key: AnswerKey) {
        let line: String? = state.withLock { state in
            guard !state.prompts.open.isEmpty || hasTransfers else {
                if key == .idleLine, !state.isClosed {
                    display?.show("no question is open: y or n answers one, c cancels a transfer, Ctrl-C ends this\n")
                }
                return nil
            }
            if case .text = key, state.typed.isEmpty { state.target = onlyPrompt(in: state) }
            let line = state.typed.handle(key)
            if line == nil { updatePrompt(state) } else { display?.confirmAnswer() }
            return line
        }
        if let line { receive(line) }
    }

    /// The only open question, if the user has had the time to see that it is the only one.
    private func onlyPrompt(in state: borrowing State) -> Int? {
        guard state.prompts.open.count == 1 else { return nil }
        if let end = state.lastEnd, clock() - end < Self.replacementTime { return nil }
        return state.prompts.open.first?.number
    }

    private func receive(_ text: String) {
        let line = PromptLine(text)
        let blockTarget = state.withLock { state in
            defer { state.blockTarget = nil }
            return state.blockTarget
        }
        if line.word.abbreviates("cancel") { return cancel((line.number.map { ["\($0)"] } ?? []) + line.rest) }
        let result = state.withLock { state -> PendingPrompts<Reply>.ParsedLine in
            state.typed.removeAll()
            guard !state.prompts.open.isEmpty else {
                return line.isBlank ? .blank : .notAnAnswer(hint: "c lists the transfers that can be cancelled")
            }
            return state.prompts.parse(text, answering: state.target)
        }
        switch result {
        case .answer(let number, .yes): resolve(number, .yes)
        case .answer(let number, .always): resolve(number, .always)
        case .answer(let number, .no): resolve(number, .no)
        case .answer(let number, .block):
            let warning = state.withLock { state in state.prompts.open.first { $0.number == number }?.question.blockWarning }
            guard let warning, blockTarget != number else {
                resolve(number, .block)
                return
            }
            display?.show("\(warning)\n")
            state.withLock { state in
                state.blockTarget = number
                updatePrompt(state)
            }
        case .answer(let number, .list):
            state.withLock { state in
                display?.show(state.prompts.nextPage(of: number) ?? "there is nothing to list\n")
                updatePrompt(state)
            }
        case .part(let number, let selection):
            let parts = state.withLock { state in state.prompts.open.first { $0.number == number }?.question.parts }
            switch parts?.choose(selection) {
            case .part(let part): resolve(number, .part(part))
            case .all: resolve(number, .yes)
            case .invalid(let hint):
                display?.show("\(hint)\n")
                state.withLock { updatePrompt($0) }
            case nil: break
            }
        case .notAnAnswer(let hint):
            display?.show("\(hint)\n")
            state.withLock { updatePrompt($0) }
        case .blank: state.withLock { updatePrompt($0) }
        }
    }

    /// Lists the running transfers, or cancels the one with a number.
    private func cancel(_ words: [Substring]) {
        let transfers = running.numbered
        let chosen = words.first.flatMap { Int(AnswerWord($0).text) }.flatMap { number in
            transfers.first { $0.number == number }
        }
        if let chosen, words.count == 1 {
            chosen.transfer.cancel()
        } else if transfers.isEmpty {
            display?.show("no transfer is running\n")
        } else if words.isEmpty {
            let lines = transfers.map { "  \($0.number)  \($0.label.text)\n" }
            display?.show(lines.joined() + "c \(transfers[0].number) cancels number \(transfers[0].number)\n")
        } else {
            display?.show("there is no such transfer; c lists them\n")
        }
        state.withLock { state in
            state.typed.removeAll()
            updatePrompt(state)
        }
    }

    /// Takes the answer of a front end besides the terminal.
    private func receive(_ answer: PromptAnswer, to number: Int) -> Bool {
        let isShown = state.withLock { state in
            state.prompts.open.contains { $0.number == number && $0.question.outline != nil }
        }
        guard isShown else { return false }
        display?.show("question \(number) was answered in a chat or notification: \(answer.rawValue)\n")
        return resolve(number, answer == .yes ? .yes : .no)
    }

    /// - Returns: false when the question has ended before.
    @discardableResult
    private func resolve(_ number: Int, _ answer: Answer) -> Bool {
        let prompt = state.withLock { state in
            let prompt = state.prompts.remove(number)
            if prompt != nil, case .ended = answer { state.lastEnd = clock() }
            if state.prompts.open.isEmpty { state.typed.removeAll() }
            updatePrompt(state)
            return prompt
        }
        if let prompt { end(prompt, answer) }
        return prompt != nil
    }
}
