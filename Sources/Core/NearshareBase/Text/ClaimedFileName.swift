/// One path component as a peer wrote it: bounded bytes that can be shown, and converted into a ``SafeFileName``, but never
/// opened.
public struct ClaimedFileName: Sendable, Hashable {
    /// The limit of Linux file systems for one component.
    @usableFromInline package static let maximumByteCount = 255

    /// At most ``maximumByteCount`` bytes of any value.
    @usableFromInline package let bytes: [UInt8]

    /// - Returns: nil for more than ``maximumByteCount`` bytes.
    @inlinable
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count <= Self.maximumByteCount else { return nil }
        self.bytes = Array(bytes)
    }

    /// - Returns: nil for more than ``maximumByteCount`` bytes of UTF-8.
    package init?(_ text: String) {
        self.init(bytes: Array(text.utf8))
    }

    /// The name escaped for a terminal, and in quotation marks if it could pass for the words around it; invalid UTF-8 is shown
    /// as U+FFFD.
    package var shown: String { NameText.shown(String(decoding: bytes, as: UTF8.self)) }
}

extension ClaimedFileName: CustomStringConvertible {
    /// The name escaped for a terminal, and in quotation marks if it could pass for the words around it.
    public var description: String { shown }
}
