internal import Nearshare

/// What is asked at the moment, and what a line that somebody has typed answers. A value: it draws and waits for nothing.
struct PendingPrompts<Reply> {
    struct Question {
        let number: Int
        /// Whom it is about, as a terminal shows them.
        let name: String
        let words: String
        let reply: Reply
        /// Its number has been shown: what was read and what is asked may lie far apart.
        var hasCompany: Bool
    }

    enum Word: Sendable, Hashable {
        case yes, no, block
    }

    enum Verdict: Hashable {
        case answer(number: Int, Word)
        /// Nothing is answered by it, and this is to be said; nil for nothing.
        case none(String?)
    }

    private(set) var open: [Question] = []
    private var lastNumber = 0

    /// - Returns: its number, which no other question ever has: an answer that comes late answers nothing else.
    mutating func add(_ words: String, about name: String, _ reply: Reply) -> Int {
        lastNumber += 1
        open.append(Question(number: lastNumber, name: name, words: words, reply: reply, hasCompany: false))
        if open.count > 1 { for index in open.indices { open[index].hasCompany = true } }
        return lastNumber
    }

    /// - Returns: nil when it is over already.
    mutating func remove(_ number: Int) -> Reply? {
        open.firstIndex { $0.number == number }.map { open.remove(at: $0).reply }
    }

    mutating func removeAll() -> [Reply] {
        defer { open = [] }
        return open.map(\.reply)
    }

    /// What stands at the bottom; nil when nothing is asked.
    var prompt: String? {
        guard let first = open.first else { return nil }
        guard open.count > 1 else {
            let about = first.hasCompany ? "number \(first.number), \(first.name): " : ""
            return "\(about)\(first.words) [y]es, [n]o, [b]lock: "
        }
        let shown = open.prefix(4).map { "number \($0.number), \($0.name): \($0.words)" }.joined(separator: "  ")
        let more = open.count > 4 ? "  and \(open.count - 4) more" : ""
        return "\(shown)\(more)  which one? [y]es, [n]o, [b]lock, as in \"y \(first.number)\": "
    }

    /// What a line answers. With several questions open it takes a number: which one a bare word was meant for would be a matter of who
    /// asked last, and strangers choose when they ask.
    func take(_ line: String) -> Verdict {
        let words = line.split(separator: " ")
        guard let first = words.first else { return .none(nil) }
        let word: Word
        switch first.lowercased() {
        case "y", "yes": word = .yes
        case "n", "no": word = .no
        case "b", "block": word = .block
        default: return .none("please answer y, n or b")
        }
        guard words.count > 1 else {
            if let only = open.first, open.count == 1 { return .answer(number: only.number, word) }
            let ways = open.prefix(4).map { "\(first) \($0.number)" }.joined(separator: " or ")
            return .none("which one? \(TerminalText.escaped(ways))")
        }
        guard words.count == 2, let number = Int(words[1]), open.contains(where: { $0.number == number }) else {
            return .none("there is no such question")
        }
        return .answer(number: number, word)
    }
}
