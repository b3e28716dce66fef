import Testing

@testable import NearshareTerminal

private let limit = 10_000

@Suite struct LineEditorTests {
    private func editor(_ text: String, _ keys: [TerminalKey] = []) -> LineEditor {
        var editor = LineEditor(maximumByteCount: limit)
        _ = editor.insert(text)
        for key in keys { editor.handle(key) }
        return editor
    }

    @Test("keys edit at the cursor")
    func editing() {
        #expect(editor("hallo", [.left, .left, .left, .left, .delete]).text == "hllo")
        #expect(editor("one two  ", [.control("w")]).text == "one ")
        #expect(editor("one two", [.wordLeft, .control("k")]).text == "one ")
        #expect(editor("one two", [.wordLeft, .control("u")]).text == "two")
        #expect(editor("one two", [.control("w"), .home, .control("y")]).text == "twoone ")
        #expect(editor("ab", [.home, .backspace, .end, .delete]).text == "ab")
        var moved = editor("ac", [.left])
        let isInserted = moved.insert("b")
        #expect(isInserted)
        #expect(moved.text == "abc")
        #expect(moved.cursor == 2)
    }

    @Test("an editor that adopts another one has both histories, and no text is lost")
    func adoption() {
        var first = editor("submitted")
        _ = first.submit()
        _ = first.insert("begun")
        var second = editor("theirs")
        _ = second.submit()
        var withoutText = first
        withoutText.adopt(second)
        #expect(withoutText.text == "begun")
        _ = second.insert("draft")
        first.adopt(second)
        #expect(first.text == "draft")
        let recalled = (0..<4).map { _ in
            first.handle(.up)
            return first.text
        }
        #expect(recalled == ["theirs", "begun", "submitted", "submitted"])
    }

    @Test("a combining mark joins its letter, also when it is typed later")
    func accents() {
        var accented = editor("e")
        let isInserted = accented.insert("\u{301}")
        #expect(isInserted)
        #expect(accented.characters.count == 1)
        #expect(accented.cursor == 1)
        accented.handle(.backspace)
        #expect(accented.isEmpty)
        // Deleting the line break lets the mark join the letter before it.
        let joined = editor("a\n\u{301}", [.home, .right, .delete])
        #expect(joined.text == "a\u{301}" && joined.characters.count == 1 && joined.cursor == 1)
    }

    @Test("the arrow keys recall submitted texts, repetitions once, and the draft")
    func history() {
        var editor = LineEditor(maximumByteCount: limit)
        for text in ["one", "two", "two"] {
            let isInserted = editor.insert(text)
            #expect(isInserted)
            let submitted = editor.submit()
            #expect(submitted == text)
        }
        let isDraftInserted = editor.insert("thr")
        #expect(isDraftInserted)
        editor.handle(.up)
        #expect(editor.text == "two")
        editor.handle(.up)
        #expect(editor.text == "one")
        editor.handle(.up)
        #expect(editor.text == "one")
        editor.handle(.down)
        editor.handle(.down)
        #expect(editor.text == "thr")
        editor.handle(.down)
        #expect(editor.text == "thr")
    }

    @Test func `a text that was not sent is recalled with the up key, and what is typed stays`() {
        var editor = editor("one")
        _ = editor.submit()
        let isInserted = editor.insert("draft")
        #expect(isInserted)
        editor.recordUnsent("two")
        editor.recordUnsent("one")
        #expect(editor.text == "draft")
        editor.handle(.up)
        #expect(editor.text == "two")
        editor.handle(.up)
        #expect(editor.text == "one")
        // An older text that is shown stays the same one, also where the oldest makes room.
        for number in 0..<98 { editor.recordUnsent("\(number)") }
        editor.handle(.down)
        #expect(editor.text == "two")
        editor.recordUnsent("last")
        editor.handle(.down)
        #expect(editor.text == "0")
    }

    @Test("an insertion beyond the size limit is rejected")
    func sizeLimit() {
        var editor = LineEditor(maximumByteCount: limit)
        let isInserted = editor.insert(String(repeating: "x", count: limit))
        #expect(isInserted)
        let isMoreInserted = editor.insert("é")
        #expect(!isMoreInserted)
        #expect(editor.text.utf8.count == limit)
    }
}
