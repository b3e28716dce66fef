package import Nearshare
internal import Synchronization

/// Asks the user several questions at a time. Questions are numbered when there are several, and none waits for another (R4).
package final class PromptQueue: Sendable {
    package enum Answer: Sendable, Hashable {
        case yes
        case no
        case block
        /// The question is no longer open: the invitation was withdrawn or has expired.
        case ended(TransferOutcome)
    }

    private struct State {
        var prompts = PendingPrompts<CheckedContinuation<Answer, Never>>()
        /// Whether reading of answers has ended.
        var isClosed = false
    }

    private let display: any PromptDisplay
    private let state = Mutex(State())

    package init(_ display: any PromptDisplay) {
        self.display = display
    }

    /// Reads answers until the task is cancelled or the terminal closes.
    package func run() async {
        for await line in display.lines() { receive(line) }
        close()
    }

    /// Answers all questions with no, also later ones: the user wants to stop.
    package func close() {
        let open = state.withLock { state in
            state.isClosed = true
            defer { updatePrompt(state) }
            return state.prompts.removeAll()
        }
        for answer in open { answer.resume(returning: .no) }
    }

    /// - Parameters:
    ///   - text: the subject, in whole lines.
    ///   - question: the question itself.
    ///   - name: of the peer, escaped.
    ///   - end: waits for the end of the subject, after which the question is removed.
    package func ask(
        _ text: String, question: String, about name: String, until end: @escaping @Sendable () async -> TransferOutcome?
    ) async -> Answer {
        await withTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            return await withCheckedContinuation { continuation in
                let number: Int? = state.withLock { state in
                    guard !state.isClosed else { return nil }
                    let number = state.prompts.add(question, about: name, continuation)
                    display.discardTypedInput()
                    display.show((state.prompts.open.count > 1 ? "number \(number): " : "") + text)
                    updatePrompt(state)
                    return number
                }
                guard let number else { return continuation.resume(returning: .no) }
                group.addTask {
                    if let outcome = await end() { self.resolve(number, .ended(outcome), isTyped: false) }
                }
            }
        }
    }

    /// Called with the lock held, so that the prompt matches the latest state.
    private func updatePrompt(_ state: borrowing State) {
        display.setPrompt(state.prompts.prompt)
    }

    private func receive(_ line: String) {
        let result = state.withLock { state -> PendingPrompts<CheckedContinuation<Answer, Never>>.Result? in
            guard !state.prompts.open.isEmpty else { return nil }
            display.confirmAnswer(TerminalText.escaped(line, columns: 100))
            return state.prompts.parse(line)
        }
        switch result {
        case .answer(let number, .yes)?: resolve(number, .yes, isTyped: true)
        case .answer(let number, .no)?: resolve(number, .no, isTyped: true)
        case .answer(let number, .block)?: resolve(number, .block, isTyped: true)
        case .none(let hint)?:
            if let hint { display.show("\(hint)\n") }
            state.withLock { updatePrompt($0) }
        case nil: break
        }
    }

    private func resolve(_ number: Int, _ answer: Answer, isTyped: Bool) {
        let reply = state.withLock { state in
            let reply = state.prompts.remove(number)
            // Input for a question that has just been removed must not answer the next one.
            if reply != nil, !isTyped { display.discardTypedInput() }
            updatePrompt(state)
            return reply
        }
        reply?.resume(returning: answer)
    }
}
