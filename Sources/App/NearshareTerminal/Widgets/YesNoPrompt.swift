/// A question that the user answers with yes or no.
package enum YesNoPrompt {
    /// Waits for the answer on the terminal, where the question has been written.
    /// - Returns: false also when the terminal closes.
    package static func answer(on terminal: TerminalDevice) async -> Bool {
        for await line in terminal.lines() {
            if let answer = parse(line) { return answer }
            terminal.write("please answer y or n: ")
        }
        return false
    }

    /// - Returns: nil for a line that is neither.
    package static func parse(_ line: String) -> Bool? {
        switch line.lowercased() {
        case "y", "yes": true
        case "n", "no": false
        default: nil
        }
    }
}
