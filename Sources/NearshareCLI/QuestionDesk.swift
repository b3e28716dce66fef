internal import Nearshare

/// Asks the person about several things at once: each question has a number when there is more than one, and none waits for
/// another (R4).
actor QuestionDesk {
    enum Answer: Sendable {
        case yes
        case no
        case block
        /// The question is no longer there: the invitation was withdrawn or has expired.
        case over(TransferOutcome)
    }

    private struct Question {
        let number: Int
        let words: String
        let answer: CheckedContinuation<Answer, Never>
    }

    private let terminal: TerminalDevice
    private var open: [Question] = []
    private var lastNumber = 0

    init(_ terminal: TerminalDevice) {
        self.terminal = terminal
    }

    /// Reads answers until the task is cancelled.
    func run() async {
        for await line in terminal.lines() { take(line) }
        for question in open { question.answer.resume(returning: .no) }
        open = []
        prompt()
    }

    /// - Parameters:
    ///   - text: what it is about, in whole lines.
    ///   - words: the question itself.
    ///   - end: waits for the end of what is asked about.
    func ask(_ text: String, _ words: String, until end: @escaping @Sendable () async -> TransferOutcome?) async -> Answer {
        lastNumber += 1
        let number = lastNumber
        return await withTaskGroup(of: Void.self) { group in
            group.addTask {
                if let outcome = await end() { await self.resolve(number, .over(outcome)) }
            }
            defer { group.cancelAll() }
            return await withCheckedContinuation { continuation in
                open.append(Question(number: number, words: words, answer: continuation))
                terminal.write(text)
                prompt()
            }
        }
    }

    /// What has been asked last is asked at the bottom; with nothing left to ask, nothing is.
    private func prompt() {
        let question = open.last.map { last in
            open.count == 1
                ? "\(last.words) [y]es, [n]o, [b]lock: "
                : "number \(last.number): \(last.words) [y]es, [n]o, [b]lock, or for another one as in \"y \(open[0].number)\": "
        }
        ProgressDisplay.shared.ask(question, on: terminal.descriptor)
    }

    private func take(_ line: String) {
        let words = line.split(separator: " ")
        guard !open.isEmpty else { return }
        ProgressDisplay.shared.answered(TerminalText.escaped(line, columns: 100))
        guard let word = words.first?.lowercased() else { return prompt() }
        let number = words.count > 1 ? Int(words[1]) : open.last?.number
        guard let number, open.contains(where: { $0.number == number }) else {
            terminal.write("there is no such question\n")
            return prompt()
        }
        switch word {
        case "y", "yes": resolve(number, .yes)
        case "n", "no": resolve(number, .no)
        case "b", "block": resolve(number, .block)
        default:
            terminal.write("please answer y, n or b\n")
            prompt()
        }
    }

    private func resolve(_ number: Int, _ answer: Answer) {
        guard let index = open.firstIndex(where: { $0.number == number }) else { return }
        let question = open.remove(at: index)
        question.answer.resume(returning: answer)
        prompt()
    }
}
