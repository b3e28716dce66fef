internal import NearshareBase

/// A stream's name, for the program at the peer: at most 255 bytes of UTF-8.
package struct StreamName: Sendable, Hashable {
    /// Limit on a name.
    package static let maximumByteCount = 255
    /// The name as it was claimed. Users see ``shown``.
    package let text: String

    /// - Returns: nil for more than ``maximumByteCount`` bytes.
    package init?(_ text: String) {
        guard text.utf8.count <= Self.maximumByteCount else { return nil }
        self.text = text
    }

    /// The name escaped for a terminal.
    package var shown: String { TerminalText.escaped(text) }
}
