internal import NearshareBase

/// A list from which the user picks items with the arrow keys: one with Enter, several that Space has marked. Typed text leaves the
/// items whose first cell contains it. A value: items and keys in, lines out.
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
        /// In the order of the list; not empty.
        case picked([ID])
        case cancelled
    }

    package let title: String
    /// The columns of the table whose cells are cut on a narrow terminal, the first one first.
    private let columnsToTruncate: [Int]
    /// Shown while there are no items.
    package let placeholder: String
    package private(set) var items: [Item] = []
    package private(set) var selection: ID?
    private var marked: Set<ID> = []
    /// Typed text, in lower case: only the items whose first cell contains it are shown.
    private var filter = ""

    /// Limit on the characters of the filter.
    private static var maximumFilterCount: Int { 40 }
    /// Limit on the rows shown at once.
    private static var maximumShownItemCount: Int { 16 }

    /// - Parameter columnsToTruncate: columns of the items whose cells are truncated on a narrow terminal, the first one first;
    ///   not the last column.
    package init(title: String, placeholder: String, cutting columnsToTruncate: [Int]) {
        self.title = title
        self.placeholder = placeholder
        self.columnsToTruncate = columnsToTruncate
    }

    /// Replaces the items. The selection stays on its item; it moves to the first one when its item is gone.
    package mutating func setItems(_ items: [Item]) {
        self.items = items
        keepSelection()
    }

    package mutating func handle(_ key: TerminalKey) -> Reaction {
        switch key {
        case .enter, .lineBreak:
            // Marked items that the filter hides count as well: the user has marked them.
            let several = items.map(\.id).filter { marked.contains($0) }
            if !several.isEmpty { return .picked(several) }
            return selection.map { .picked([$0]) } ?? .none
        case .escape, .control("c"): return .cancelled
        case .up: move(by: -1)
        case .down: move(by: 1)
        case .backspace:
            _ = filter.popLast()
            keepSelection()
        case .text(" "): toggleMark()
        case .text(let text):
            filter = String((filter + text.lowercased()).prefix(Self.maximumFilterCount))
            keepSelection()
        default: break
        }
        return .none
    }

    /// The items that the filter leaves.
    private var shownItems: [Item] {
        filter.isEmpty ? items : items.filter { $0.cells.first?.lowercased().contains(filter) == true }
    }

    private mutating func keepSelection() {
        let shown = shownItems
        if !shown.contains(where: { $0.id == selection }) { selection = shown.first?.id }
    }

    private mutating func toggleMark() {
        guard let selection else { return }
        if marked.remove(selection) == nil { marked.insert(selection) }
    }

    private mutating func move(by distance: Int) {
        let shown = shownItems
        guard let index = shown.firstIndex(where: { $0.id == selection }) else { return }
        selection = shown[min(max(0, index + distance), shown.count - 1)].id
    }

    /// The title, the names of marked items where some are not visible, and the items around the selection, as rows that a terminal
    /// neither wraps nor scrolls away.
    package func lines(in size: TerminalSize) -> [String] {
        // The last column stays free: some terminals wrap when it is written.
        let columns = max(1, size.columns - 1)
        var heading = Self.wrapped(title, columns: columns)
        guard !items.isEmpty else { return heading + Self.wrapped("  \(placeholder)", columns: columns) }
        if !filter.isEmpty { heading += Self.wrapped("with \(TerminalText.quoted(filter)):", columns: columns) }
        let left = shownItems
        var shown = visibleItems(of: left, in: size, below: heading)
        let picked = items.filter { marked.contains($0.id) }
        if picked.contains(where: { item in !shown.contains { $0.id == item.id } }) {
            let names = picked.compactMap(\.cells.first).joined(separator: ", ")
            heading += Self.wrapped("\(picked.count) marked: \(names)", columns: columns).prefix(max(1, size.rows / 4))
            shown = visibleItems(of: left, in: size, below: heading)
        }
        guard !shown.isEmpty else { return heading + Self.wrapped("  none; Backspace shows more", columns: columns) }
        let markColumns = marked.isEmpty ? 0 : 2
        let rows = Table.truncatedLines(
            shown.map(\.cells), maximumWidth: max(0, columns - 2 - markColumns), columnsToTruncate: columnsToTruncate)
        return heading
            + zip(shown, rows).map { item, row in
                let mark = marked.isEmpty ? "" : marked.contains(item.id) ? "✓ " : "  "
                return "\(item.id == selection ? "▸" : " ") \(mark)\(row)"
            }
    }

    /// The items around the selection for which the terminal has room below other rows: at least one of several.
    private func visibleItems(of left: [Item], in size: TerminalSize, below heading: [String]) -> ArraySlice<Item> {
        // The cursor is in a row below the list.
        let count = max(1, min(Self.maximumShownItemCount, size.rows - heading.count - 1))
        let selected = left.firstIndex { $0.id == selection } ?? 0
        let start = max(0, min(selected - count / 2, left.count - count))
        return left.dropFirst(start).prefix(count)
    }

    private static func wrapped(_ text: String, columns: Int) -> [String] {
        TextLayout.wrapWords(text, columns: columns).map { TextLayout.truncated($0, to: columns) }
    }
}
