/// One component of a path as a peer wrote it: bounded bytes that can be shown, and turned into a ``SafeFileName``,
/// but never opened.
package struct ClaimedFileName: Sendable, Hashable {
    /// What Linux file systems allow for one component.
    package static let maximumByteCount = 255

    /// At most ``maximumByteCount`` bytes, of any value.
    package let bytes: [UInt8]

    /// - Returns: nil for more than ``maximumByteCount`` bytes.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count <= Self.maximumByteCount else { return nil }
        self.bytes = Array(bytes)
    }

    /// - Returns: nil for more than ``maximumByteCount`` bytes of UTF-8.
    package init?(_ text: String) {
        self.init(bytes: Array(text.utf8))
    }

    /// Fit for a terminal; bytes that are not UTF-8 show as U+FFFD.
    package var shown: String { TerminalText.escaped(String(decoding: bytes, as: UTF8.self)) }
}

extension ClaimedFileName: CustomStringConvertible {
    package var description: String { shown }
}
