internal import Nearshare

/// A line that the user types at questions: a word, the number that belongs to it, and other words. `y 7`, `7 y`, `y7` and
/// `Yes, 7.` mean the same.
package struct PromptLine {
    let word: AnswerWord
    /// The number before the word; nil where the words after it begin with the number, if there is one.
    let number: Int?
    /// The words after it, as they were typed.
    let rest: ArraySlice<Substring>
    let isBlank: Bool

    package init(_ text: String) {
        var words = text.split(separator: " ")[...]
        isBlank = words.isEmpty
        let first = AnswerWord(words.popFirst() ?? "").text
        let digits = first.prefix(while: Self.isDigit)
        if !digits.isEmpty, digits.count < first.count || !words.isEmpty {
            // No question has the number 0.
            number = Int(digits) ?? 0
            word = digits.count < first.count ? AnswerWord(first.dropFirst(digits.count)) : AnswerWord(words.popFirst() ?? "")
            rest = words
        } else {
            let letters = first.prefix { !Self.isDigit($0) }
            let tail = first.dropFirst(letters.count)
            let isJoined = !letters.isEmpty && !tail.isEmpty && tail.allSatisfy(Self.isDigit)
            number = nil
            word = AnswerWord(isJoined ? letters : first[...])
            rest = isJoined ? [tail] + words : words
        }
    }

    /// Whether the word is one of these, or the beginning of one.
    package func abbreviates(_ words: String...) -> Bool { words.contains { word.abbreviates($0) } }

    /// The only number in the line, before the word or after it; nil where there is none, or more than that.
    package var onlyNumber: Int? {
        guard let number else { return rest.count == 1 ? rest.first.flatMap { Int(AnswerWord($0).text) } : nil }
        return rest.isEmpty ? number : nil
    }

    private static func isDigit(_ character: Character) -> Bool { character.isASCII && character.isNumber }
}
