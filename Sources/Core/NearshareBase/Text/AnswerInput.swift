/// A key that the user presses while an answer is typed.
package enum AnswerKey: Sendable, Hashable {
    /// Characters, also those of a paste.
    case text(String)
    case backspace
    case deleteWord
    case deleteLine
    case enter
    /// The question is to be shown again, as after a return of the process to the foreground.
    case redraw
    /// A line that was typed while no question was shown. It answers none, so its text is discarded.
    case idleLine
}

/// The line in which the user types an answer: keys in, the answer out.
package struct AnswerInput: Sendable, Hashable {
    package private(set) var text = ""

    /// Limit on the answer, in characters. The longest answers list the entries of an offer.
    private static let maximumCharacterCount = 200

    package init() {}

    package var isEmpty: Bool { text.isEmpty }

    /// Changes the answer by a key.
    /// - Returns: the whole answer after Enter, which also removes it from the value; nil after other keys.
    package mutating func handle(_ key: AnswerKey) -> String? {
        switch key {
        case .text(let typed): text = String((text + typed).prefix(Self.maximumCharacterCount))
        case .backspace: text = String(text.dropLast())
        case .deleteWord: text = String(text.reversed().drop { $0 == " " }.drop { $0 != " " }.reversed())
        case .deleteLine: text = ""
        case .enter:
            defer { text = "" }
            return text
        case .redraw, .idleLine: break
        }
        return nil
    }

    package mutating func removeAll() { text = "" }
}
