package import Nearshare

/// Sentences about received items that do not fit into the inbox.
package enum PendingItemText {
    /// - Parameter items: those that do not fit.
    /// - Returns: nil for none.
    package static func sentence(for items: [PendingItem]) -> String? {
        guard let first = items.first, let free = first.insufficientSpace else { return nil }
        let name = TerminalText.escaped(first.name, columns: 200)
        let more = items.count == 1 ? " waits" : ", and \(items.count - 1) more, wait"
        return
            "\(name) (\(first.byteCount.formattedByteCount))\(more) in the spool: the inbox has \(free.formattedByteCount) free"
    }
}
