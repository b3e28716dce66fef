internal import Nearshare
internal import NearshareService

/// The offers about which the chat asks, and the offer that a typed answer means. Each node counts its questions from 1; the numbers
/// here are those of the chat, which goes on through several nodes, and none is used twice (R4).
struct ChatOffers: Sendable {
    /// The offer that an answer means, or a hint for the user.
    enum Choice: Sendable, Hashable {
        case offer(Int)
        case hint(String)
    }

    /// By number.
    private(set) var open: [OpenPrompt] = []
    /// The times since which the open offers are shown, by number.
    private var shownSince: [Int: WallTime] = [:]
    /// The offers that the user could have read before beginning the line.
    private var readNumbers: Set<Int> = []
    /// The last end of an offer that the user has not answered.
    private var lastEnd: WallTime?
    private var highestNumber = 0
    /// The highest number at the end of the former node: the difference between a number here and the node's own.
    private var offset = 0

    /// Time after the end of another offer in which an answer needs a number: the user may have meant that one, and untrusted
    /// peers choose when they withdraw and offer (R4).
    private static let replacementMilliseconds: Int64 = 60_000
    /// Time that the user needs to notice an offer, before an answer without a number can mean it.
    private static let readingMilliseconds: Int64 = 1_000

    /// - Parameter question: as the node has asked it.
    /// - Returns: the question with its number here.
    @discardableResult
    mutating func add(_ question: OpenPrompt, at now: WallTime) -> OpenPrompt {
        var question = question
        question.number &+= offset
        highestNumber = max(highestNumber, question.number)
        open.removeAll { $0.number == question.number }
        open.insert(question, at: open.firstIndex { $0.number > question.number } ?? open.endIndex)
        if shownSince[question.number] == nil { shownSince[question.number] = now }
        return question
    }

    /// The node's number of an offer.
    func nodeNumber(of number: Int) -> Int { number &- offset }

    /// Records that the user begins to type a line.
    /// - Parameter isVisible: whether an offer is asked about in the visible view.
    mutating func beginLine(at now: WallTime, isVisible: (OpenPrompt) -> Bool = { _ in true }) {
        let visible = open.filter(isVisible)
        readNumbers = Set(
            visible.map(\.number).filter { number in
                shownSince[number].map { Self.hasPassed(Self.readingMilliseconds, since: $0, now) } ?? false
            })
    }

    /// Records the user's answer, so that the end of the offer is expected.
    /// - Returns: the offer.
    @discardableResult
    mutating func answer(_ number: Int) -> OpenPrompt? { remove(number) }

    private mutating func remove(_ number: Int) -> OpenPrompt? {
        shownSince[number] = nil
        return open.firstIndex { $0.number == number }.map { open.remove(at: $0) }
    }

    /// Where the wall clock was set back, not before it has reached the time again.
    private static func hasPassed(_ milliseconds: Int64, since time: WallTime, _ now: WallTime) -> Bool {
        time.milliseconds.distance(to: now.milliseconds) >= milliseconds
    }

    /// Records the end of an offer.
    /// - Parameter nodeNumber: the node's number.
    /// - Returns: the offer, unless the user has answered it here.
    mutating func end(_ nodeNumber: Int, at now: WallTime) -> OpenPrompt? {
        guard let ended = remove(nodeNumber &+ offset) else { return nil }
        lastEnd = now
        return ended
    }

    /// Records the end of the node, which ends all its offers.
    /// - Returns: the offers that the user has not answered.
    mutating func endAll(at now: WallTime) -> [OpenPrompt] {
        let ended = open
        if !ended.isEmpty { lastEnd = now }
        (open, shownSince, readNumbers, offset) = ([], [:], [], highestNumber)
        return ended
    }

    /// The command for a text that has the form of an answer to an open offer elsewhere, such as "y 1"; nil for other texts.
    func command(for text: String) -> (name: String, answer: PromptAnswer)? {
        let line = PromptLine(text)
        guard let number = line.onlyNumber, open.contains(where: { $0.number == number }) else { return nil }
        if line.abbreviates("yes", "accept") { return ("/accept \(number)", .yes) }
        return line.abbreviates("no", "decline") ? ("/decline \(number)", .no) : nil
    }

    /// - Parameters:
    ///   - argument: what was typed behind the command.
    ///   - command: "/accept" or "/decline".
    func choose(_ argument: String, for command: String, at now: WallTime) -> Choice {
        guard let first = open.first else { return .hint("no offer is open") }
        if let number = Int(argument) {
            return open.contains { $0.number == number } ? .offer(number) : .hint("offer \(number) is not open")
        }
        let isSettled = lastEnd.map { Self.hasPassed(Self.replacementMilliseconds, since: $0, now) } ?? true
        if argument.isEmpty, open.count == 1, isSettled, readNumbers.contains(first.number) { return .offer(first.number) }
        return .hint("which one? \(open.map { "\(command) \($0.number)" }.joined(separator: ", "))")
    }
}
