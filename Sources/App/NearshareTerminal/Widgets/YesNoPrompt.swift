internal import NearshareBase

/// A question that the user answers with yes or no.
package enum YesNoPrompt {
    /// Asks on the terminal, and waits for the answer.
    /// - Parameter question: ends with the possible answers; shown again after an empty line, and after a return to the
    ///   foreground.
    /// - Returns: false also when the terminal closes, or the task is cancelled.
    package static func ask(_ question: String, on terminal: TerminalDevice) async -> Bool {
        // Input from before the question was meant for something else: peers choose when some questions are asked.
        terminal.discardInput()
        terminal.writeWrapped(question)
        for await line in terminal.lines() {
            if let answer = parse(line) { return answer }
            terminal.writeWrapped(line.isEmpty ? question : "please answer y or n: ")
        }
        // Later text stands on a line of its own.
        terminal.write("\n")
        return false
    }

    /// - Returns: nil for a line that is neither.
    package static func parse(_ line: String) -> Bool? {
        let word = AnswerWord(line)
        return word.abbreviates("yes") ? true : word.abbreviates("no") ? false : nil
    }
}
