import NearshareBase
import Testing

@testable import NearshareTerminal

@Suite struct TableTests {
    @Test("columns are aligned by display width")
    func columns() {
        #expect(Table.lines([["a", "x"], ["日本", "y"]]) == ["a     x", "日本  y"])
        #expect(Table.lines([["e\u{301}", "x"], ["ab", "y"]]) == ["e\u{301}   x", "ab  y"])
    }

    @Test("where a row is wider than the terminal, the last cells have lines of their own")
    func narrow() {
        let rows = [["a", "x", "/some/path"], ["bbb", "y", "/p"], ["c", "z", ""], ["d"]]
        #expect(Table.lines(rows, columns: nil) == Table.lines(rows))
        #expect(Table.lines(rows, columns: 18) == Table.lines(rows))
        #expect(Table.lines(rows, columns: 17) == ["a    x", "    /some/path", "bbb  y", "    /p", "c    z", "d"])
    }

    @Test("rows of different lengths keep their cells")
    func ragged() {
        #expect(Table.lines([["a"], ["bb", "c"], []]) == ["a", "bb  c", ""])
        #expect(Table.lines([]).isEmpty)
    }
}

@Suite struct BlockGraphicsTests {
    private let plain = ANSIStyle(isEnabled: false)

    @Test("bars reach from a line to the top, in eighths")
    func chart() {
        #expect(BlockGraphics.chart([0, 0.25, 0.5, 0.75, 1, 2, -1], rows: 2) == ["   ▄██ ", "▁▄████▁"])
    }

    @Test("a meter has its width at every level", arguments: [-1, 0, 0.001, 0.3, 0.7, 0.95, 1, 7])
    func meter(_ level: Double) {
        for width in 1...40 { #expect(BlockGraphics.levelMeter(level, width: width, style: plain).count == width) }
    }

    @Test("a meter warns near the top")
    func colors() {
        let style = ANSIStyle(isEnabled: true)
        #expect(!BlockGraphics.levelMeter(0.5, width: 20, style: style).contains("\u{1b}[33m"))
        #expect(BlockGraphics.levelMeter(0.8, width: 20, style: style).contains("\u{1b}[33m"))
        #expect(BlockGraphics.levelMeter(1, width: 20, style: style).contains("\u{1b}[31m"))
    }

    @Test("a progress bar has its width at every share", arguments: [-1, 0, 0.01, 0.5, 0.999, 1, 2])
    func progressBar(_ share: Double) {
        for width in 1...30 { #expect(BlockGraphics.progressBar(share, width: width).count == width) }
        #expect(BlockGraphics.progressBar(1, width: 4) == "████")
        #expect(BlockGraphics.progressBar(0, width: 4) == "░░░░")
    }

    @Test("a slider shows its position, also outside its range", arguments: [(-1, 0), (0, 0), (0.5, 5), (1, 9), (3, 9)])
    func slider(_ share: Double, _ position: Int) {
        let slider = BlockGraphics.slider(share, width: 10, style: plain)
        #expect(slider.count == 10)
        #expect(slider.firstIndex(of: "●").map { slider.distance(from: slider.startIndex, to: $0) } == position)
    }
}

@Suite struct PickerListTests {
    private func picker(_ count: Int) -> PickerList<Int> {
        var list = PickerList<Int>(title: "send to:", placeholder: "looking…")
        list.setItems((0..<count).map { PickerList.Item(id: $0, cells: ["peer \($0)", "id \($0)"]) })
        return list
    }

    @Test("an empty list shows its placeholder, and Enter picks nothing")
    func empty() {
        var list = picker(0)
        #expect(list.lines == ["send to:", "  looking…"])
        let reaction = list.handle(.enter)
        #expect(reaction == .none)
    }

    @Test("arrow keys and letters move the selection, within the list")
    func moving() {
        var list = picker(3)
        #expect(list.lines == ["send to:", "▸ peer 0  id 0", "  peer 1  id 1", "  peer 2  id 2"])
        for key in [TerminalKey.up, .down, .text("jj"), .down, .text("k")] { _ = list.handle(key) }
        #expect(list.selection == 1)
        let reaction = list.handle(.enter)
        #expect(reaction == .picked(1))
    }

    @Test("several ways cancel", arguments: [TerminalKey.escape, .control("c"), .text("q")])
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
        #expect(list.lines.count == 17)
        #expect(list.lines.contains { $0.hasPrefix("▸ peer \(steps) ") })
    }
}

@Suite struct YesNoPromptTests {
    @Test(arguments: [("y", true), ("YES", true), ("n", false), ("No", false)])
    func answers(_ line: String, _ answer: Bool) {
        #expect(YesNoPrompt.parse(line) == answer)
    }

    @Test("other lines are not answers", arguments: ["", " ", "yy", "ja", "0"])
    func others(_ line: String) {
        #expect(YesNoPrompt.parse(line) == nil)
    }
}
