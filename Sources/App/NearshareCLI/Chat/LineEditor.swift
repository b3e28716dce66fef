internal import Nearshare

/// A text that is being written, and those that were sent before it.
struct LineEditor: Sendable {
    /// What a person would call characters: an accent is deleted with its letter.
    private(set) var characters: [Character] = []
    /// How many characters are before the cursor.
    private(set) var cursor = 0
    private var killed: [Character] = []
    private var history: [String] = []
    /// Where in the history one is; its count for the text that is new.
    private var place = 0
    private var unfinished: [Character] = []

    private static let maximumHistory = 100

    var text: String { String(characters) }
    var isEmpty: Bool { characters.isEmpty }
    var isAtEnd: Bool { cursor == characters.count }

    /// - Returns: false when the text would be longer than a message may be; then nothing has changed.
    mutating func insert(_ text: String) -> Bool {
        let before = String(characters[..<cursor]) + text
        let after = characters[cursor...]
        guard before.utf8.count + String(after).utf8.count <= ChatEntry.maximumTextByteCount else { return false }
        // An accent that comes after its letter becomes one character with it.
        let head = Array(before)
        characters = head + after
        cursor = head.count
        return true
    }

    mutating func replace(with text: String) {
        characters = Array(text)
        cursor = characters.count
    }

    /// Ends this text: the next one begins empty.
    /// - Returns: the text.
    mutating func take() -> String {
        let text = self.text
        if !text.isEmpty, history.last != text { history.append(text) }
        if history.count > Self.maximumHistory { history.removeFirst() }
        characters = []
        cursor = 0
        place = history.count
        unfinished = []
        return text
    }

    mutating func handle(_ key: TerminalKey) {
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
        case .up: recall(place - 1)
        case .down: recall(place + 1)
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
        // What is left may join: a letter and an accent that had something between them.
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
        guard (0...history.count).contains(index), index != place else { return }
        if place == history.count { unfinished = characters }
        place = index
        characters = index == history.count ? unfinished : Array(history[index])
        cursor = characters.count
    }
}
