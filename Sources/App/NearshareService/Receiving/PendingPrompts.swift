internal import Nearshare

/// The open questions, and the answers in typed lines. A value without any output.
struct PendingPrompts<Reply> {
    struct Prompt {
        let number: Int
        /// The peer's name, escaped.
        let name: String
        let question: String
        /// The answer to `l`, in whole lines; nil where there is nothing to list.
        let list: String?
        let reply: Reply
        /// Whether its number has been shown, because several were open at a time: the question and the typed line may be far
        /// apart.
        var isNumbered: Bool
        /// Whether "always" is an answer.
        let allowsAlways: Bool
    }

    enum Word: Sendable, Hashable {
        case yes, always, no, block, list
    }

    enum Result: Hashable {
        case answer(number: Int, Word)
        /// The line answers no question. The hint, if any, is to be shown.
        case none(hint: String?)
    }

    private(set) var open: [Prompt] = []
    private var lastNumber = 0

    /// Limit on the questions in one prompt: a flood does not fill the screen (R4).
    private static var maximumShown: Int { 4 }

    /// - Returns: a number that is never used again, so that a late answer does not match another question.
    mutating func add(
        _ question: String, about name: String, list: String? = nil, allowsAlways: Bool = false, _ reply: Reply
    ) -> Int {
        lastNumber += 1
        open.append(
            Prompt(
                number: lastNumber, name: name, question: question, list: list, reply: reply, isNumbered: false,
                allowsAlways: allowsAlways))
        if open.count > 1 { for index in open.indices { open[index].isNumbered = true } }
        return lastNumber
    }

    /// - Returns: nil when the question is no longer open.
    mutating func remove(_ number: Int) -> Reply? {
        open.firstIndex { $0.number == number }.map { open.remove(at: $0).reply }
    }

    mutating func removeAll() -> [Reply] {
        defer { open = [] }
        return open.map(\.reply)
    }

    /// The line at the bottom of the terminal; nil when no question is open.
    /// - Parameter target: the question for which an answer is being typed. It alone is shown, as when typing began.
    func prompt(answering target: Int? = nil) -> String? {
        guard let first = open.first(where: { $0.number == target }) ?? open.first else { return nil }
        guard open.count > 1, first.number != target else {
            let about = first.isNumbered ? "number \(first.number), \(first.name): " : ""
            let choices = Self.choices(allowsAlways: first.allowsAlways, hasList: first.list != nil)
            return "\(about)\(first.question) \(choices): "
        }
        let shown = open.prefix(Self.maximumShown).map { "number \($0.number), \($0.name): \($0.question)" }
            .joined(separator: "  ")
        let more = open.count > Self.maximumShown ? "  and \(open.count - Self.maximumShown) more" : ""
        let choices = Self.choices(allowsAlways: open.contains { $0.allowsAlways }, hasList: hasList)
        return "\(shown)\(more)  which one? \(choices), as in \"y \(first.number)\": "
    }

    private static func choices(allowsAlways: Bool, hasList: Bool) -> String {
        "[y]es, \(allowsAlways ? "[a]lways, " : "")[n]o, [b]lock\(hasList ? ", [l]ist" : "")"
    }

    private var letters: String {
        "y, \(open.contains { $0.allowsAlways } ? "a, " : "")n\(hasList ? ", b or l" : " or b")"
    }

    private var hasList: Bool { open.contains { $0.list != nil } }

    /// The list of a question; nil where there is nothing to list.
    func list(of number: Int) -> String? { open.first { $0.number == number }?.list }

    /// Parses a line. A word without a number answers only the question that was the only one when typing began: untrusted
    /// peers choose when they ask (R4).
    /// - Parameter target: that question; nil when there was none.
    func parse(_ line: String, answering target: Int?) -> Result {
        let words = line.split(separator: " ")
        guard let first = words.first else { return .none(hint: nil) }
        let word: Word
        switch first.lowercased() {
        case "y", "yes": word = .yes
        case "a", "always": word = .always
        case "n", "no": word = .no
        case "b", "block": word = .block
        case "l", "list": word = .list
        default: return .none(hint: "please answer \(letters)")
        }
        guard words.count > 1 else {
            if let prompt = open.first(where: { $0.number == target }) { return Self.answer(prompt, word) }
            let examples = open.prefix(Self.maximumShown).map { "\(first) \($0.number)" }.joined(separator: " or ")
            return .none(hint: "which one? \(TerminalText.escaped(examples))")
        }
        guard words.count == 2, let number = Int(words[1]), let prompt = open.first(where: { $0.number == number }) else {
            return .none(hint: "there is no such question")
        }
        return Self.answer(prompt, word)
    }

    private static func answer(_ prompt: Prompt, _ word: Word) -> Result {
        guard word != .always || prompt.allowsAlways else {
            return .none(
                hint:
                    "always is not possible: the key or the protocol version of this peer has changed; please answer y, n or b")
        }
        return .answer(number: prompt.number, word)
    }
}
