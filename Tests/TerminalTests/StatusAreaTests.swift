import NearshareTesting
import Testing

@testable import NearshareTerminal

@Suite("status area")
struct StatusAreaTests {
    /// Emulates a terminal with the control sequences that the status area uses.
    private struct TerminalEmulator {
        let columns: Int
        private(set) var rows: [[Character]] = [[]]
        private var row = 0
        private var column = 0
        private var saved = (row: 0, column: 0)

        init(columns: Int) {
            self.columns = columns
        }

        /// The rows, without cleared ones at the end.
        var shown: [String] {
            var shown = rows.map { String($0) }
            while shown.last == "" { shown.removeLast() }
            return shown
        }

        var cursor: (row: Int, column: Int) { (row, column) }

        mutating func write(_ text: String) {
            var rest = Substring(text.unicodeScalars.map(String.init).joined())
            while let character = rest.popFirst() {
                switch character {
                case "\r": column = 0
                // The line discipline writes CR LF for a line feed (ONLCR).
                case "\n": moveDown()
                case "\u{1b}": parseEscapeSequence(&rest)
                default: put(character)
                }
            }
        }

        private mutating func moveDown() {
            (row, column) = (row + 1, 0)
            if row == rows.count { rows.append([]) }
        }

        private mutating func put(_ character: Character) {
            if column == columns { moveDown() }
            while rows[row].count <= column { rows[row].append(" ") }
            rows[row][column] = character
            column += 1
        }

        private mutating func parseEscapeSequence(_ rest: inout Substring) {
            switch rest.popFirst() {
            case "7": saved = (row, column)
            case "8": (row, column) = saved
            case "[":
                let digits = rest.prefix { $0.isNumber || $0 == ";" }
                rest.removeFirst(digits.count)
                switch rest.popFirst() {
                case "A": row = max(0, row - (Int(digits) ?? 1))
                // Colours take no columns.
                case "m": break
                case "K" where digits == "2": rows[row] = []
                case let other: Issue.record("unknown final byte \(String(describing: other))")
                }
            case let other: Issue.record("unknown escape sequence \(String(describing: other))")
            }
        }
    }

    @Test("text being typed survives an update of the status lines")
    func typing() {
        var (terminal, area) = (TerminalEmulator(columns: 40), StatusArea())
        terminal.write(area.show(["anna → a  1%", "ben → b  1%"], columns: 40))
        terminal.write(area.ask("accept? ye", columns: 40))
        terminal.write(area.show(["anna → a  2%", "ben → b  50%"], columns: 40))
        terminal.write(area.ask("accept? yes", columns: 40))
        #expect(terminal.shown == ["anna → a  2%", "ben → b  50%", "accept? yes"])
    }

    @Test("a question and its answer stay above the status lines")
    func answering() {
        var (terminal, area) = (TerminalEmulator(columns: 40), StatusArea())
        terminal.write(area.show(["anna → a  1%"], columns: 40))
        terminal.write(area.ask("accept? y", columns: 40))
        terminal.write(area.recordAnswer(columns: 40))
        #expect(terminal.shown == ["accept? y", "anna → a  1%"])
        terminal.write(area.erase(columns: 40))
        terminal.write("a note\n")
        terminal.write(area.draw(columns: 40))
        #expect(terminal.shown == ["accept? y", "a note", "anna → a  1%"])
        #expect(area.recordAnswer(columns: 40).isEmpty)
    }

    @Test("after the terminal has become narrower, all wrapped rows are cleared")
    func narrower() {
        var (terminal, area) = (TerminalEmulator(columns: 20), StatusArea())
        _ = area.show(["anna → a long line 1%"], columns: 40)
        _ = area.ask("accept this? ", columns: 40)
        // A terminal that wraps its rows again after it was narrowed to 20 columns.
        terminal.write("anna → a long line 1%\naccept this? ")
        terminal.write(area.show(["anna → 2%"], columns: 20))
        #expect(terminal.shown == ["anna → 2%", "accept this? "])
    }

    @Test("styled lines that fit the terminal erase nothing above them")
    func styled() {
        var (terminal, area) = (TerminalEmulator(columns: 20), StatusArea())
        let style = ANSIStyle(isEnabled: true)
        terminal.write("$ first\n$ second\n")
        for number in 0..<5 {
            let bar = style.green("████████") + style.dim("██████") + style.bold("\(number)")
            terminal.write(area.show([bar, style.red("●") + style.yellow(" recording")], columns: 20))
        }
        #expect(terminal.shown == ["$ first", "$ second", "██████████████4", "● recording"])
    }

    @Test("output stays above the status lines, and these above the question, in any order of events", arguments: 0..<200)
    func anyOrder(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let columns = Int.random(in: 12...40, using: &random)
        var (terminal, area) = (TerminalEmulator(columns: columns), StatusArea())
        var (history, lines): ([String], [String]) = ([], [])
        var question: String?
        for step in 0..<40 {
            switch Int.random(in: 0..<5, using: &random) {
            case 0:
                lines = (0..<Int.random(in: 0...3, using: &random)).map { "line \($0) at \(step)" }
                terminal.write(area.show(lines, columns: columns))
            case 1:
                terminal.write(area.erase(columns: columns))
                terminal.write("note \(step)\n")
                terminal.write(area.draw(columns: columns))
                history.append("note \(step)")
            case 2:
                question = "question \(step)" + String(repeating: ".", count: Int.random(in: 0...60, using: &random)) + ": "
                terminal.write(area.ask(question, columns: columns))
            case 3:
                question = nil
                terminal.write(area.ask(nil, columns: columns))
            default:
                guard let asked = question else { break }
                let answer = String(repeating: "y", count: Int.random(in: 1...30, using: &random))
                terminal.write(area.ask(asked + answer, columns: columns))
                terminal.write(area.recordAnswer(columns: columns))
                history += TextLayout.wrapWords(asked + answer, columns: columns)
                question = nil
            }
            let asked = (question.map { TextLayout.wrapWords($0, columns: columns) } ?? []).flatMap { wrapped($0, columns) }
            let expected = (history + lines).flatMap { wrapped($0, columns) } + asked
            #expect(terminal.shown == expected, "seed \(seed), step \(step)")
            let last = asked.last
            #expect(terminal.cursor.column == last?.count ?? 0, "seed \(seed), step \(step)")
        }
    }

    @Test func `a long question is broken between its words`() {
        var (terminal, area) = (TerminalEmulator(columns: 20), StatusArea())
        terminal.write(area.ask("accept? [y]es, [a]lways, [n]o: ", columns: 20))
        #expect(terminal.shown == ["accept? [y]es,", "  [a]lways, [n]o: "])
        terminal.write(area.ask("accept? [y]es, [a]lways, [n]o: no", columns: 20))
        terminal.write(area.show(["anna → a  1%"], columns: 20))
        terminal.write(area.show(["anna → a  2%"], columns: 20))
        #expect(terminal.shown == ["anna → a  2%", "accept? [y]es,", "  [a]lways, [n]o: no"])
    }

    @Test func `each line of a question begins a row, and all are cleared`() {
        var (terminal, area) = (TerminalEmulator(columns: 20), StatusArea())
        terminal.write(area.ask("1, anna: accept?\n2, ben: accept it now?\nwhich? y", columns: 20))
        #expect(terminal.shown == ["1, anna: accept?", "2, ben: accept it", "  now?", "which? y"])
        terminal.write(area.show(["anna → a  1%"], columns: 20))
        terminal.write(area.show(["anna → a  2%"], columns: 20))
        #expect(terminal.shown == ["anna → a  2%", "1, anna: accept?", "2, ben: accept it", "  now?", "which? y"])
        terminal.write(area.ask("accept? ", columns: 20))
        #expect(terminal.shown == ["anna → a  2%", "accept? "])
    }

    @Test func `in plain mode only whole lines and appended text are written`() {
        var (output, area) = ("", StatusArea(isPlain: true))
        output += area.show(["looking"], columns: 40)
        output += area.show(["looking 2"], columns: 40)
        for typed in ["", "n", "ne", "n"] { output += area.ask("accept? " + typed, columns: 40) }
        output += area.erase(columns: 40) + "note\n" + area.draw(columns: 40)
        output += area.recordAnswer(columns: 40)
        output += area.ask("again? ", columns: 40)
        output += area.show([], columns: 40)
        output += area.ask(nil, columns: 40)
        #expect(output == "looking\naccept? ne\naccept? n\nnote\naccept? n\nagain? \n")
    }

    @Test func `the change between plain mode and drawing loses neither lines nor the question`() {
        var (terminal, area) = (TerminalEmulator(columns: 40), StatusArea())
        terminal.write(area.show(["anna → a  1%"], columns: 40))
        terminal.write(area.ask("accept? y", columns: 40))
        terminal.write(area.setPlain(true, columns: 40))
        #expect(terminal.shown == ["accept? y"])
        terminal.write(area.ask("accept? ye", columns: 40))
        terminal.write(" output\n")
        terminal.write(area.setPlain(true, columns: 40))
        terminal.write(area.setPlain(false, columns: 40))
        #expect(terminal.shown == ["accept? ye output", "", "anna → a  1%", "accept? ye"])
    }

    private func wrapped(_ text: String, _ columns: Int) -> [String] {
        stride(from: 0, to: text.count, by: columns).map { String(text.dropFirst($0).prefix(columns)) }
    }
}
