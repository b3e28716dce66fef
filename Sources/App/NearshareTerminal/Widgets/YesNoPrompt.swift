internal import NearshareBase

/// A question that the user answers with yes or no.
package enum YesNoPrompt {
    /// Limit on a typed answer, in characters.
    private static let maximumTypedCount = 100

    private enum Input: Sendable {
        case key(TerminalKey)
        case timedOut
    }

    /// Asks on the terminal, below the progress and other output, and waits for the answer.
    /// - Parameters:
    ///   - question: ends with the possible answers; shown again after an empty line, and after a return to the foreground.
    ///   - timeout: nil without a limit.
    /// - Returns: false also at the timeout, when the terminal closes, or the task is cancelled.
    package static func ask(_ question: String, on terminal: TerminalDevice, timeout: Duration? = nil) async -> Bool {
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
            let answer = await answer(to: question, from: inputs, on: terminal, timeout: timeout)
            group.cancelAll()
            return answer
        }
    }

    private static func answer(
        to question: String, from inputs: AsyncStream<Input>, on terminal: TerminalDevice, timeout: Duration?
    ) async -> Bool {
        let display = StatusDisplay.shared
        // Only the last line is a prompt, which is drawn again with each key.
        let lines = question.split(separator: "\n", omittingEmptySubsequences: false)
        let introduction = lines.dropLast().map { $0 + "\n" }.joined()
        let asked = String(lines.last ?? "")
        var (prompt, typed) = (asked, "")
        func show() { display.ask(prompt + TerminalText.escaped(typed, columns: maximumTypedCount), on: terminal) }
        func showQuestion() {
            if !introduction.isEmpty { terminal.writeWrapped(introduction) }
            (prompt, typed) = (asked, "")
            show()
        }
        showQuestion()
        for await input in inputs {
            guard case .key(let key) = input else {
                display.recordAnswer()
                terminal.writeWrapped("no answer within \(timeout?.asClock ?? "the time")\n")
                return false
            }
            switch key {
            case .text(let text), .paste(let text): typed = String((typed + text).prefix(maximumTypedCount))
            case .backspace: typed = String(typed.dropLast())
            case .control("w"), .control("u"): typed = ""
            case .enter, .lineBreak:
                display.recordAnswer()
                if let answer = parse(typed) { return answer }
                if typed.isEmpty {
                    showQuestion()
                    continue
                }
                (prompt, typed) = ("please answer y or n: ", "")
            case .control("l"): break
            default: continue
            }
            show()
        }
        // Later text stands on a line of its own.
        display.recordAnswer()
        return false
    }

    /// - Returns: nil for a line that is neither.
    package static func parse(_ line: String) -> Bool? {
        let word = AnswerWord(line)
        return word.abbreviates("yes") ? true : word.abbreviates("no") ? false : nil
    }
}
