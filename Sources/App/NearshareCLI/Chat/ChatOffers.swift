internal import Nearshare
internal import NearshareService

/// The offers about which the chat asks, and the offer that a typed answer means.
struct ChatOffers: Sendable {
    /// The offer that an answer means, or a hint for the user.
    enum Choice: Sendable, Hashable {
        case offer(Int)
        case hint(String)
    }

    private(set) var open: [OpenPrompt] = []
    /// The last end of an offer that the user has not answered.
    private var lastEnd: WallTime?

    /// Time after the end of another offer in which an answer needs a number: the user may have meant that one, and untrusted
    /// peers choose when they withdraw and offer (R4).
    private static let replacementMilliseconds: Int64 = 60_000

    mutating func add(_ question: OpenPrompt) {
        open.removeAll { $0.number == question.number }
        open.append(question)
    }

    /// Records the user's answer, so that the end of the offer is expected.
    mutating func answer(_ number: Int) { open.removeAll { $0.number == number } }

    /// Records the end of an offer.
    /// - Returns: the offer, unless the user has answered it here.
    mutating func end(_ number: Int, at now: WallTime) -> OpenPrompt? {
        guard let index = open.firstIndex(where: { $0.number == number }) else { return nil }
        lastEnd = now
        return open.remove(at: index)
    }

    /// - Parameters:
    ///   - argument: what was typed behind the command.
    ///   - command: "/accept" or "/decline".
    func choose(_ argument: String, for command: String, at now: WallTime) -> Choice {
        guard let first = open.first else { return .hint("no offer is open") }
        if let number = Int(argument) {
            return open.contains { $0.number == number } ? .offer(number) : .hint("offer \(number) is not open")
        }
        // The wall clock may have been set back.
        let isSettled =
            lastEnd.map { abs($0.milliseconds.distance(to: now.milliseconds)) >= Self.replacementMilliseconds } ?? true
        if argument.isEmpty, open.count == 1, isSettled { return .offer(first.number) }
        return .hint("which one? \(open.map { "\(command) \($0.number)" }.joined(separator: ", "))")
    }
}
