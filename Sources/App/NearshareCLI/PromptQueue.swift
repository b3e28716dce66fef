internal import Nearshare
internal import NearshareTerminal
internal import Synchronization

/// Asks the person about several things at once: each question has a number when there is more than one, and none waits for
/// another (R4).
final class PromptQueue: Sendable {
    enum Answer: Sendable {
        case yes
        case no
        case block
        /// The question is no longer there: the invitation was withdrawn or has expired.
        case over(TransferOutcome)
    }

    private struct State {
        var questions = PendingPrompts<CheckedContinuation<Answer, Never>>()
        /// Nobody answers any more.
        var isClosed = false
    }

    private let terminal: TerminalDevice
    private let state = Mutex(State())

    init(_ terminal: TerminalDevice) {
        self.terminal = terminal
    }

    /// Reads answers until the task is cancelled or the terminal has gone.
    func run() async {
        for await line in terminal.lines() { take(line) }
        close()
    }

    /// The person wants to stop: what is asked is answered with no, and so is what would be asked yet.
    func close() {
        let left = state.withLock { state in
            state.isClosed = true
            defer { prompt(state) }
            return state.questions.removeAll()
        }
        for answer in left { answer.resume(returning: .no) }
    }

    /// - Parameters:
    ///   - text: what it is about, in whole lines.
    ///   - words: the question itself.
    ///   - name: whom it is about.
    ///   - end: waits for the end of what is asked about.
    func ask(
        _ text: String, _ words: String, about name: String, until end: @escaping @Sendable () async -> TransferOutcome?
    ) async -> Answer {
        await withTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            return await withCheckedContinuation { continuation in
                let number: Int? = state.withLock { state in
                    guard !state.isClosed else { return nil }
                    let number = state.questions.add(words, about: name, continuation)
                    terminal.discardInput()
                    terminal.write((state.questions.open.count > 1 ? "number \(number): " : "") + text)
                    prompt(state)
                    return number
                }
                guard let number else { return continuation.resume(returning: .no) }
                group.addTask {
                    if let outcome = await end() { self.resolve(number, .over(outcome), isTyped: false) }
                }
            }
        }
    }

    /// In the lock, so that what stands at the bottom is what was asked last.
    private func prompt(_ state: borrowing State) {
        StatusDisplay.shared.ask(state.questions.prompt, on: terminal)
    }

    private func take(_ line: String) {
        let verdict = state.withLock { state -> PendingPrompts<CheckedContinuation<Answer, Never>>.Verdict? in
            guard !state.questions.open.isEmpty else { return nil }
            StatusDisplay.shared.recordAnswer(TerminalText.escaped(line, columns: 100))
            return state.questions.take(line)
        }
        switch verdict {
        case .answer(let number, .yes)?: resolve(number, .yes, isTyped: true)
        case .answer(let number, .no)?: resolve(number, .no, isTyped: true)
        case .answer(let number, .block)?: resolve(number, .block, isTyped: true)
        case .none(let words)?:
            if let words { terminal.write("\(words)\n") }
            state.withLock { prompt($0) }
        case nil: break
        }
    }

    private func resolve(_ number: Int, _ answer: Answer, isTyped: Bool) {
        let question = state.withLock { state in
            let question = state.questions.remove(number)
            // Typed for what is no longer there: it must not answer what is asked instead.
            if question != nil, !isTyped { terminal.discardInput() }
            prompt(state)
            return question
        }
        question?.resume(returning: answer)
    }
}
