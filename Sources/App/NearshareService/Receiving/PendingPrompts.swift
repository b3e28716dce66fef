internal import Nearshare

/// The open questions, and the answers in typed lines. A value without any output.
struct PendingPrompts<Reply> {
    struct Prompt {
        let number: Int
        let question: Question
        let reply: Reply
        /// ``Question/deadline`` by this machine's clock, as shown to the user; nil where there is none.
        let answerTime: String?
        /// The page that is shown next.
        var nextPage = 0
        /// Whether its number has been shown, because several were open at a time: the question and the typed line may be far
        /// apart.
        var isNumbered = false

        /// Whether a part is an answer.
        var allowsPart: Bool { question.parts != nil }
    }

    enum Word: String, Sendable, Hashable, CaseIterable {
        case yes, always, no, block, list
    }

    /// The meaning of a typed line.
    enum ParsedLine: Hashable {
        case answer(number: Int, Word)
        /// - Parameter selection: what was typed about the part.
        case part(number: Int, selection: String)
        /// The line answers no question.
        /// - Parameter hint: how to answer, for the user.
        case notAnAnswer(hint: String)
        case blank
    }

    /// The open prompts, those of known peers first: new peers, which cost an attacker nothing, do not hide them (R4).
    private(set) var open: [Prompt] = []
    /// The prompts that are shown at a time, by number.
    private var shown: [Prompt] { open.prefix(Self.maximumShown).sorted { $0.number < $1.number } }
    private var lastNumber = 0

    /// Limit on the questions in one prompt: a flood does not fill the screen (R4).
    private static var maximumShown: Int { 4 }

    /// - Parameter number: one that was never used; nil for the next one.
    /// - Returns: the number, which is never used again, so that a late answer does not match another question.
    mutating func add(_ question: Question, number: Int? = nil, answerTime: String? = nil, _ reply: Reply) -> Int {
        let number = number ?? lastNumber + 1
        lastNumber = max(lastNumber, number)
        let index = question.isKnown ? open.firstIndex { !$0.question.isKnown } : nil
        open.insert(
            Prompt(number: number, question: question, reply: reply, answerTime: answerTime), at: index ?? open.endIndex)
        if open.count > 1 { for index in open.indices { open[index].isNumbered = true } }
        return number
    }

    /// - Returns: nil when the question is no longer open.
    mutating func remove(_ number: Int) -> Prompt? {
        open.firstIndex { $0.number == number }.map { open.remove(at: $0) }
    }

    mutating func removeAll() -> [Prompt] {
        defer { open = [] }
        return open
    }

    /// The lines at the bottom of the terminal, one for each of several questions; nil when no question is open.
    /// - Parameters:
    ///   - target: the question for which an answer is being typed. It alone is shown, as when typing began.
    ///   - now: for the time that is left; nil for a prompt that is not drawn again, and names the time for an answer.
    func prompt(answering target: Int? = nil, now: MonotonicInstant? = nil) -> String? {
        guard let first = open.first(where: { $0.number == target }) ?? open.first else { return nil }
        guard open.count > 1, first.number != target else {
            let facts =
                (first.isNumbered ? ["number \(first.number)", first.question.peerName] : []) + Self.timeLeft(first, now)
            let choices = Self.choices([first])
            return "\(facts.isEmpty ? "" : facts.joined(separator: ", ") + ": ")\(first.question.prompt) \(choices): "
        }
        let shown = shown.map { prompt -> String in
            let facts = ["number \(prompt.number)", prompt.question.peerName] + Self.timeLeft(prompt, now)
            return "\(facts.joined(separator: ", ")): \(prompt.question.prompt)"
        }
        let more = open.count > Self.maximumShown ? ["and \(open.count - Self.maximumShown) more"] : []
        let question = "which one? \(Self.choices(open)), as in \"y \(first.number)\": "
        return (shown + more + [question]).joined(separator: "\n")
    }

    private static func timeLeft(_ prompt: Prompt, _ now: MonotonicInstant?) -> [String] {
        guard let deadline = prompt.question.deadline else { return [] }
        // Other lines may repeat it later.
        guard let now else { return prompt.answerTime.map { ["answer by \($0)"] } ?? [] }
        return ["\(max(.zero, deadline - now).asLargestUnit) left"]
    }

    private static func choices(_ prompts: [Prompt]) -> String {
        var choices = ["[y]es", "[n]o", "[b]lock"]
        if prompts.contains(where: \.question.allowsAlways) { choices.insert("[a]lways", at: 1) }
        if prompts.contains(where: { !$0.question.pages.isEmpty }) { choices.append("[l]ist") }
        if prompts.contains(where: \.allowsPart) { choices.append("[p]art") }
        return choices.joined(separator: ", ")
    }

    private var letters: String { Self.letters(open) }

    private static func letters(_ prompts: [Prompt]) -> String {
        let letters = choices(prompts).split(separator: ", ").map { "\($0.dropFirst().prefix(1))" }
        return letters.dropLast().joined(separator: ", ") + " or " + (letters.last ?? "")
    }

    /// The next page of the list of a question, the first one after the last; nil where there is nothing to list.
    mutating func nextPage(of number: Int) -> String? {
        guard let index = open.firstIndex(where: { $0.number == number }), !open[index].question.pages.isEmpty else {
            return nil
        }
        defer { open[index].nextPage = (open[index].nextPage + 1) % open[index].question.pages.count }
        return open[index].question.pages[open[index].nextPage]
    }

    /// Parses a line. A word without a number answers only the question that was the only one when typing began: untrusted
    /// peers choose when they ask (R4).
    /// - Parameter target: that question; nil when there was none.
    func parse(_ text: String, answering target: Int?) -> ParsedLine {
        let line = PromptLine(text)
        guard !line.isBlank else { return .blank }
        if line.word.abbreviates("part") { return parsePart(line, answering: target) }
        // Near to "always", which is more.
        if line.word.text != "a", line.word.abbreviates("all") {
            return .notAnAnswer(hint: "y accepts all of it; please answer \(letters)")
        }
        guard let word = Word.allCases.first(where: { line.word.abbreviates($0.rawValue) }) else {
            return .notAnAnswer(hint: "please answer \(letters)")
        }
        if line.number == nil, line.rest.isEmpty {
            if let prompt = open.first(where: { $0.number == target }) { return answer(prompt, word) }
            let examples = shown.map { "\(line.word.text) \($0.number)" }.joined(separator: " or ")
            return .notAnAnswer(hint: "which one? \(examples)")
        }
        guard line.rest.allSatisfy({ AnswerWord($0).text.allSatisfy(\.isNumber) }) else {
            return .notAnAnswer(hint: "please answer \(letters)")
        }
        let numbers = (line.number.map { [$0] } ?? []) + line.rest.map { Int(AnswerWord($0).text) ?? 0 }
        guard numbers.count == 1, let prompt = open.first(where: { $0.number == numbers[0] }) else {
            return .notAnAnswer(hint: "there is no such question; \(Self.advice(shown))")
        }
        return answer(prompt, word)
    }

    /// Parses the words after `p`. They begin with the number of the question wherever it has one, because the other words can
    /// be numbers as well; unless the number stands before `p`.
    private func parsePart(_ line: PromptLine, answering target: Int?) -> ParsedLine {
        var words = line.rest
        var number = line.number ?? open.first { $0.number == target && !$0.isNumbered }?.number
        if number == nil { number = words.popFirst().flatMap { Int($0) } }
        guard let prompt = open.first(where: { $0.number == number }) else {
            let examples = shown.filter(\.allowsPart).map { "p \($0.number) 1-3" }
            return .notAnAnswer(hint: "which question? \(TerminalText.escaped(examples.joined(separator: " or ")))")
        }
        guard prompt.allowsPart else { return .notAnAnswer(hint: "this can only be accepted as a whole") }
        if words.isEmpty, prompt.isNumbered { return .notAnAnswer(hint: PartChooser.missingSelection(of: prompt.number)) }
        return .part(number: prompt.number, selection: words.joined(separator: " "))
    }

    /// How to accept what the open questions are about.
    private static func advice(_ shown: [Prompt]) -> String {
        "write \(shown.map { "y \($0.number)" }.joined(separator: " or ")) to accept"
    }

    private func answer(_ prompt: Prompt, _ word: Word) -> ParsedLine {
        guard word != .always || prompt.question.allowsAlways else {
            return .notAnAnswer(hint: "always is not possible here; please answer \(Self.letters([prompt]))")
        }
        return .answer(number: prompt.number, word)
    }
}
