internal import NearshareBase

/// A question that the user answers with a line of text.
package enum LinePrompt {
    /// Asks on the terminal, below the progress and other output, after the questions that are open, and waits for the answer.
    /// - Parameters:
    ///   - question: shown again after a return to the foreground.
    ///   - prepare: writes what the user reads before the question.
    /// - Returns: nil after Enter alone, and when the terminal closes or the task is cancelled.
    package static func ask(
        _ question: String, on terminal: TerminalDevice, prepare: @Sendable () -> Void = {}
    ) async -> String? {
        await QuestionTurn.run { await askAlone(question, on: terminal, prepare: prepare) } ?? nil
    }

    private static func askAlone(
        _ question: String, on terminal: TerminalDevice, prepare: @Sendable () -> Void
    ) async -> String? {
        // Input from before the question was meant for something else: peers choose when some questions are asked.
        terminal.discardInput()
        prepare()
        let (keys, continuation) = AsyncStream.makeStream(of: TerminalKey.self)
        return await withTaskGroup(of: Void.self) { group in
            group.addTask {
                await terminal.readKeys { continuation.yield($0) }
                continuation.finish()
            }
            let line = await readLine(from: keys, after: question, on: terminal)
            group.cancelAll()
            return line
        }
    }

    private static func readLine(
        from keys: AsyncStream<TerminalKey>, after question: String, on terminal: TerminalDevice
    ) async -> String? {
        let display = StatusDisplay.shared
        // Later text stands on a line of its own.
        defer { display.recordAnswer() }
        var typed = AnswerInput()
        display.ask(question, on: terminal)
        for await key in keys {
            guard let key = AnswerKey(key) else { continue }
            if let line = typed.handle(key) { return line.isEmpty ? nil : line }
            display.ask(question + TerminalText.escaped(typed.text, columns: 100), on: terminal)
        }
        return nil
    }
}
