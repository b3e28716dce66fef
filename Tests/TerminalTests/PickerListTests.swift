import NearshareBase
import Testing

@testable import NearshareTerminal

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
