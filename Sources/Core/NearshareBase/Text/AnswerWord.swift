/// A word of an answer that the user has typed: in lower case, without the punctuation around it.
package struct AnswerWord: Sendable, Hashable {
    package let text: String

    private static let ignored = " \t.,;:!?\"'()[]#"

    package init(_ typed: some StringProtocol) {
        let isIgnored = { Self.ignored.contains($0) }
        text = String(typed.lowercased().drop(while: isIgnored).reversed().drop(while: isIgnored).reversed())
    }

    /// Whether it is a word, or the beginning of one.
    package func abbreviates(_ word: String) -> Bool { !text.isEmpty && word.hasPrefix(text) }
}
