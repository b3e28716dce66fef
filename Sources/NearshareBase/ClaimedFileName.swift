/// One component of a path as a peer wrote it: bounded bytes that can be shown, and turned into a ``SafeFileName``,
/// but never opened.
public struct ClaimedFileName: Sendable, Hashable {
    /// What Linux file systems allow for one component.
    public static let maximumByteCount = 255

    /// At most ``maximumByteCount`` bytes, of any value.
    public let bytes: [UInt8]

    /// - Returns: nil for more than ``maximumByteCount`` bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count <= Self.maximumByteCount else { return nil }
        self.bytes = Array(bytes)
    }

    /// - Returns: nil for more than ``maximumByteCount`` bytes of UTF-8.
    public init?(_ text: String) {
        self.init(bytes: Array(text.utf8))
    }

    /// Fit for a terminal; bytes that are not UTF-8 show as U+FFFD.
    public var shown: String { TerminalText.escaped(String(decoding: bytes, as: UTF8.self)) }
}

extension ClaimedFileName: CustomStringConvertible {
    public var description: String { shown }
}
