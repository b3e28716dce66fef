internal import NearshareBase

/// A question that the user answers with yes or no.
package enum YesNoPrompt {
    private enum Input: Sendable {
        case key(TerminalKey)
        case timedOut
    }

    /// Asks for a consent, see ``answer(to:on:timeout:)``.
    /// - Returns: false also without an answer.
    package static func ask(_ question: String, on terminal: TerminalDevice, timeout: Duration? = nil) async -> Bool {
        await answer(to: question, on: terminal, timeout: timeout) ?? false
    }

    /// Asks on the terminal, below the progress and other output, after the questions that are open, and waits for the answer.
    /// - Parameters:
    ///   - question: ends with the possible answers; shown again after an empty line, and after a return to the foreground.
    ///   - timeout: since the question is shown; nil without a limit.
    /// - Returns: nil at the timeout, when the terminal closes, and when the task is cancelled.
    package static func answer(to question: String, on terminal: TerminalDevice, timeout: Duration? = nil) async -> Bool? {
        await QuestionTurn.run { await askAlone(question, on: terminal, timeout: timeout) } ?? nil
    }

    private static func askAlone(_ question: String, on terminal: TerminalDevice, timeout: Duration?) async -> Bool? {
        // Input from before the question was meant for something else: peers choose when some questions are asked.
        terminal.discardInput()
        let (inputs, continuation) = AsyncStream.makeStream(of: Input.self)
        return await withTaskGroup(of: Void.self) { group in
            group.addTask {
                await terminal.readKeys { continuation.yield(.key($0)) }
                continuation.finish()
            }
            if let timeout {
                group.addTask {
                    guard (try? await Task.sleep(for: timeout)) != nil else { return }
                    continuation.yield(.timedOut)
                }
            }
            let answer = await readAnswer(to: question, from: inputs, on: terminal, timeout: timeout)
            group.cancelAll()
            return answer
        }
    }

    private static func readAnswer(
        to question: String, from inputs: AsyncStream<Input>, on terminal: TerminalDevice, timeout: Duration?
    ) async -> Bool? {
        let display = StatusDisplay.shared
        // Only the last line is a prompt, which is drawn again with each key.
        let lines = question.lines
        let introduction = lines.dropLast().map { $0 + "\n" }.joined()
        let asked = String(lines.last ?? "")
        var (prompt, typed) = (asked, AnswerInput())
        func show() { display.ask(prompt + TerminalText.escaped(typed.text, columns: 100), on: terminal) }
        func showQuestion() {
            if !introduction.isEmpty { terminal.writeWrapped(introduction) }
            prompt = asked
            show()
        }
        showQuestion()
        for await input in inputs {
            guard case .key(let key) = input else {
                display.recordAnswer()
                terminal.writeWrapped("no answer within \(timeout?.asClock ?? "the time")\n")
                return nil
            }
            guard let key = AnswerKey(key) else { continue }
            guard let line = typed.handle(key) else {
                show()
                continue
            }
            display.recordAnswer()
            if let answer = parse(line) { return answer }
            if line.isEmpty {
                showQuestion()
            } else {
                prompt = "please answer y or n: "
                show()
            }
        }
        // Later text stands on a line of its own.
        display.recordAnswer()
        return nil
    }

    /// - Returns: nil for a line that is neither.
    package static func parse(_ line: String) -> Bool? {
        let word = AnswerWord(line)
        return word.abbreviates("yes") ? true : word.abbreviates("no") ? false : nil
    }
}
