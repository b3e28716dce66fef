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
    /// The columns of the table whose cells are cut on a narrow terminal, the first one first.
    private let cutColumns: [Int]
    /// Shown while there are no items.
    package let placeholder: String
    package private(set) var items: [Item] = []
    package private(set) var selection: ID?

    /// Limit on the rows shown at once.
    private static var maximumShownItems: Int { 16 }

    /// - Parameter cutColumns: columns of the items whose cells are cut on a narrow terminal, the first one first; not the last.
    package init(title: String, placeholder: String, cutting cutColumns: [Int]) {
        self.title = title
        self.placeholder = placeholder
        self.cutColumns = cutColumns
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

    /// The title, and the items around the selection, as rows that a terminal neither wraps nor scrolls away.
    package func lines(in size: TerminalSize) -> [String] {
        // The last column stays free: some terminals wrap when it is written.
        let columns = max(1, size.columns - 1)
        let heading = Self.wrapped(title, columns: columns)
        guard !items.isEmpty else { return heading + Self.wrapped("  \(placeholder)", columns: columns) }
        // The cursor is in a row below the list.
        let count = max(1, min(Self.maximumShownItems, size.rows - heading.count - 1))
        let selected = items.firstIndex { $0.id == selection } ?? 0
        let start = max(0, min(selected - count / 2, items.count - count))
        let shown = items.dropFirst(start).prefix(count)
        let rows = Table.lines(shown.map(\.cells), columns: max(0, columns - 2), cutting: cutColumns)
        return heading + zip(shown, rows).map { item, row in "\(item.id == selection ? "▸" : " ") \(row)" }
    }

    private static func wrapped(_ text: String, columns: Int) -> [String] {
        TextLayout.wrapWords(text, columns: columns).map { TextLayout.truncated($0, to: columns) }
    }
}
