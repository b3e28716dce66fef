/// A text being edited, with the history of submitted texts.
package struct LineEditor: Sendable {
    /// Size limit of the text, in bytes of UTF-8.
    package let maximumByteCount: Int
    /// Grapheme clusters: a combining mark is deleted with its letter.
    package private(set) var characters: [Character] = []
    /// Number of characters before the cursor.
    package private(set) var cursor = 0
    /// The text that the last deletion of several characters removed; Ctrl-Y inserts it.
    private var killed: [Character] = []
    private var history: [String] = []
    /// Index of the shown text in the history; the history's count for the new text.
    private var historyIndex = 0
    /// The new text while an older one is shown.
    private var draft: [Character] = []

    private static let maximumHistory = 100

    package init(maximumByteCount: Int) {
        self.maximumByteCount = maximumByteCount
    }

    package var text: String { String(characters) }
    package var isEmpty: Bool { characters.isEmpty }
    package var isAtEnd: Bool { cursor == characters.count }

    /// Inserts a text at the cursor.
    /// - Returns: false, without a change, when the result would be longer than the limit.
    package mutating func insert(_ text: String) -> Bool {
        let before = String(characters[..<cursor]) + text
        let after = characters[cursor...]
        guard before.utf8.count + String(after).utf8.count <= maximumByteCount else { return false }
        // A combining mark forms one character with the letter before it.
        let head = Array(before)
        characters = head + after
        cursor = head.count
        return true
    }

    package mutating func replace(with text: String) {
        characters = Array(text)
        cursor = characters.count
    }

    /// Appends the text to the history and clears the editor.
    /// - Returns: the text.
    package mutating func submit() -> String {
        let text = self.text
        moveTextToHistory()
        return text
    }

    /// Appends the text to the history and clears the editor, for a text that is not submitted.
    package mutating func moveTextToHistory() {
        let text = self.text
        if !text.isEmpty { appendToHistory(text) }
        characters = []
        cursor = 0
        historyIndex = history.count
        draft = []
    }

    /// Adds a text that was not sent to the history, unless it was submitted here, so that the Up key brings it back. What the
    /// user has begun to type stays.
    package mutating func recordUnsent(_ text: String) {
        guard !history.contains(text) else { return }
        let isOlderShown = historyIndex < history.count
        appendToHistory(text)
        if !isOlderShown { historyIndex = history.count }
    }

    private mutating func appendToHistory(_ text: String) {
        if history.last != text { history.append(text) }
        guard history.count > Self.maximumHistory else { return }
        history.removeFirst()
        historyIndex = max(0, historyIndex - 1)
    }

    /// Continues the work of another editor: its history comes after this one's, and its text replaces this one, which goes into
    /// the history.
    package mutating func adopt(_ other: LineEditor) {
        let text = self.text
        moveTextToHistory()
        for text in other.history where history.last != text { history.append(text) }
        history.removeFirst(max(0, history.count - Self.maximumHistory))
        historyIndex = history.count
        replace(with: other.isEmpty ? text : other.text)
    }

    package mutating func handle(_ key: TerminalKey) {
        switch key {
        case .left, .control("b"): cursor = max(0, cursor - 1)
        case .right, .control("f"): cursor = min(characters.count, cursor + 1)
        case .home, .control("a"): cursor = 0
        case .end, .control("e"): cursor = characters.count
        case .wordLeft: cursor = wordStart
        case .wordRight: cursor = wordEnd
        case .backspace: remove(max(0, cursor - 1)..<cursor)
        case .delete, .control("d"): remove(cursor..<min(characters.count, cursor + 1))
        case .control("u"): kill(0..<cursor)
        case .control("k"): kill(cursor..<characters.count)
        case .control("w"): kill(wordStart..<cursor)
        case .control("y"): _ = insert(String(killed))
        case .up: recall(historyIndex - 1)
        case .down: recall(historyIndex + 1)
        default: break
        }
    }

    private var wordStart: Int {
        var index = cursor
        while index > 0, characters[index - 1].isWhitespace { index -= 1 }
        while index > 0, !characters[index - 1].isWhitespace { index -= 1 }
        return index
    }

    private var wordEnd: Int {
        var index = cursor
        while index < characters.count, characters[index].isWhitespace { index += 1 }
        while index < characters.count, !characters[index].isWhitespace { index += 1 }
        return index
    }

    private mutating func remove(_ range: Range<Int>) {
        // The two sides may join: a letter and a combining mark.
        let head = Array(String(characters[..<range.lowerBound]))
        characters = Array(String(head) + String(characters[range.upperBound...]))
        cursor = min(head.count, characters.count)
    }

    private mutating func kill(_ range: Range<Int>) {
        guard !range.isEmpty else { return }
        killed = Array(characters[range])
        remove(range)
    }

    private mutating func recall(_ index: Int) {
        guard (0...history.count).contains(index), index != historyIndex else { return }
        if historyIndex == history.count { draft = characters }
        historyIndex = index
        characters = index == history.count ? draft : Array(history[index])
        cursor = characters.count
    }
}
