import NearshareBase
import Testing

@testable import NearshareTerminal

@Suite struct PickerListTests {
    private func picker(_ count: Int) -> PickerList<Int> {
        var list = PickerList<Int>(title: "send to:", placeholder: "looking…", cutting: [1, 0])
        list.setItems((0..<count).map { PickerList.Item(id: $0, cells: ["peer \($0)", "id \($0)"]) })
        return list
    }

    @Test("an empty list shows its placeholder, and Enter picks nothing")
    func empty() {
        var list = picker(0)
        #expect(list.lines(in: .standard) == ["send to:", "  looking…"])
        let reaction = list.handle(.enter)
        #expect(reaction == .none)
    }

    @Test("arrow keys move the selection, within the list")
    func moving() {
        var list = picker(3)
        #expect(list.lines(in: .standard) == ["send to:", "▸ peer 0  id 0", "  peer 1  id 1", "  peer 2  id 2"])
        for key in [TerminalKey.up, .down, .down, .down, .down, .up] { _ = list.handle(key) }
        #expect(list.selection == 1)
        let reaction = list.handle(.enter)
        #expect(reaction == .picked([1]))
    }

    @Test func `typed text leaves the items that contain it, in any letter case`() {
        var list = picker(12)
        for text in ["P", "eer", "q"] { _ = list.handle(.text(text)) }
        #expect(list.lines(in: .standard) == ["send to:", "with \"peerq\":", "  none; Backspace shows more"])
        let none = list.handle(.enter)
        #expect(none == .none)
        _ = list.handle(.backspace)
        #expect(list.lines(in: .standard).count == 14)
        for _ in 0..<4 { _ = list.handle(.backspace) }
        _ = list.handle(.text("1"))
        #expect(
            list.lines(in: .standard) == [
                "send to:", "with \"1\":", "▸ peer 1   id 1", "  peer 10  id 10", "  peer 11  id 11",
            ])
        for _ in 0..<5 { _ = list.handle(.down) }
        let reaction = list.handle(.enter)
        #expect(reaction == .picked([11]))
    }

    @Test func `Space marks several items, which the filter hides and does not release`() {
        var list = picker(3)
        for key in [TerminalKey.text(" "), .down, .text(" "), .down, .text(" "), .text(" ")] { _ = list.handle(key) }
        #expect(list.lines(in: .standard) == ["send to:", "  ✓ peer 0  id 0", "  ✓ peer 1  id 1", "▸   peer 2  id 2"])
        _ = list.handle(.text("2"))
        #expect(
            list.lines(in: .standard) == ["send to:", "with \"2\":", "2 marked: peer 0, peer 1", "▸   peer 2  id 2"])
        _ = list.handle(.text("x"))
        #expect(list.lines(in: .standard).suffix(2) == ["2 marked: peer 0, peer 1", "  none; Backspace shows more"])
        _ = list.handle(.backspace)
        list.setItems([2, 1, 0, 4].map { PickerList.Item(id: $0, cells: ["\($0)"]) })
        let reaction = list.handle(.enter)
        #expect(reaction == .picked([1, 0]))
    }

    @Test("marked items that a long list or a low terminal does not show are named above it", arguments: [8, 24])
    func scrolledAway(_ rows: Int) {
        var list = picker(100)
        for _ in 0..<40 { for key in [TerminalKey.text(" "), .down] { _ = list.handle(key) } }
        let lines = list.lines(in: TerminalSize(columns: 40, rows: rows))
        #expect(lines.count < rows && lines[1].hasPrefix("40 marked: peer 0, peer 1"))
        #expect(lines.contains { $0.hasPrefix("▸   peer 40 ") })
    }

    @Test("several ways cancel", arguments: [TerminalKey.escape, .control("c")])
    func cancelling(_ key: TerminalKey) {
        var list = picker(1)
        let reaction = list.handle(key)
        #expect(reaction == .cancelled)
    }

    @Test("the selection stays on its item, and moves to the first one when the item is gone")
    func changes() {
        var list = picker(3)
        _ = list.handle(.down)
        list.setItems([2, 1, 0].map { PickerList.Item(id: $0, cells: ["\($0)"]) })
        #expect(list.selection == 1)
        list.setItems([2, 0].map { PickerList.Item(id: $0, cells: ["\($0)"]) })
        #expect(list.selection == 2)
        list.setItems([])
        #expect(list.selection == nil)
    }

    @Test("a long list scrolls with its selection", arguments: [0, 1, 7, 8, 30, 99])
    func scrolling(_ steps: Int) {
        var list = picker(100)
        for _ in 0..<steps { _ = list.handle(.down) }
        #expect(list.lines(in: .standard).count == 17)
        #expect(list.lines(in: .standard).contains { $0.hasPrefix("▸ peer \(steps) ") })
    }

    @Test("rows fit the terminal: the id is cut first, then the name, and the trust status stays", arguments: 26...60)
    func narrow(_ columns: Int) {
        var list = PickerList<Int>(
            title: "send to (↑ ↓ Enter; Space marks several, letters search, Esc cancels):",
            placeholder: "looking… is `nearshare receive` running there?",
            cutting: [1, 0])
        let size = TerminalSize(columns: columns, rows: 12)
        #expect(list.lines(in: size).allSatisfy { TerminalText.width(of: $0) < columns })
        list.setItems([
            .init(id: 0, cells: ["anna", "1a2b3c4d5e6f7081", "new"]),
            .init(id: 1, cells: ["ben's old laptop", "2a2b3c4d5e6f7081", "new"]),
        ])
        let lines = list.lines(in: size)
        #expect(lines.allSatisfy { TerminalText.width(of: $0) < columns }, "\(lines)")
        #expect(lines.suffix(2).allSatisfy { $0.hasSuffix("  new") }, "\(lines)")
        #expect(columns < 36 || lines.last?.contains("ben's old laptop  2a2b3c") == true, "\(lines)")
        #expect(columns < 44 || lines.last?.contains("2a2b3c4d5e6f7081") == true, "\(lines)")
    }

    @Test("a list is no higher than the terminal, and its selection stays visible", arguments: [3, 5, 12])
    func low(_ rows: Int) {
        var list = picker(30)
        for _ in 0..<20 { _ = list.handle(.down) }
        let lines = list.lines(in: TerminalSize(columns: 80, rows: rows))
        #expect(lines.count < rows)
        #expect(lines.contains { $0.hasPrefix("▸ peer 20 ") })
    }

    @Test("a redrawn block erases the rows that it took, also after the terminal has become narrower")
    func redrawing() {
        func erasedRowCount(_ output: String) -> Int { output.ranges(of: "\u{1b}[1A\u{1b}[2K").count }
        var block = LineBlock()
        let first = block.replace(with: ["title", "0123456789"], columns: 20)
        #expect(first == "title\n0123456789\n")
        let same = block.replace(with: ["title", "0123456789"], columns: 20)
        #expect(erasedRowCount(same) == 2)
        let narrower = block.replace(with: ["title"], columns: 4)
        #expect(erasedRowCount(narrower) == 5)
        let last = block.replace(with: [], columns: 5)
        #expect(erasedRowCount(last) == 1)
    }
}
