/// A list from which the user picks one item with the arrow keys. A value: items and keys in, lines out.
package struct PickerList<ID: Hashable & Sendable>: Sendable {
    package struct Item: Sendable {
        package var id: ID
        /// Cells of the item's row, escaped for a terminal.
        package var cells: [String]

        package init(id: ID, cells: [String]) {
            self.id = id
            self.cells = cells
        }
    }

    package enum Reaction: Sendable, Hashable {
        case none
        case picked(ID)
        case cancelled
    }

    package let title: String
    /// Shown while there are no items.
    package let placeholder: String
    package private(set) var items: [Item] = []
    package private(set) var selection: ID?

    /// Limit on the rows shown at once.
    private static var maximumShownItems: Int { 16 }

    package init(title: String, placeholder: String) {
        self.title = title
        self.placeholder = placeholder
    }

    /// Replaces the items. The selection stays on its item; it moves to the first one when its item is gone.
    package mutating func setItems(_ items: [Item]) {
        self.items = items
        if !items.contains(where: { $0.id == selection }) { selection = items.first?.id }
    }

    package mutating func handle(_ key: TerminalKey) -> Reaction {
        switch key {
        case .enter, .lineBreak: return selection.map { .picked($0) } ?? .none
        case .escape, .control("c"): return .cancelled
        case .up: move(by: -1)
        case .down: move(by: 1)
        case .text(let text):
            for character in text {
                switch character {
                case "q": return .cancelled
                case "k": move(by: -1)
                case "j": move(by: 1)
                default: break
                }
            }
        default: break
        }
        return .none
    }

    private mutating func move(by distance: Int) {
        guard let index = items.firstIndex(where: { $0.id == selection }) else { return }
        selection = items[min(max(0, index + distance), items.count - 1)].id
    }

    /// The title, and the items around the selection.
    package var lines: [String] {
        let selected = items.firstIndex { $0.id == selection } ?? 0
        let start = max(0, min(selected - Self.maximumShownItems / 2, items.count - Self.maximumShownItems))
        let shown = items.dropFirst(start).prefix(Self.maximumShownItems)
        let rows = Table.lines(shown.map(\.cells))
        let lines = zip(shown, rows).map { item, row in "\(item.id == selection ? "▸" : " ") \(row)" }
        return [title] + (lines.isEmpty ? ["  \(placeholder)"] : lines)
    }
}
