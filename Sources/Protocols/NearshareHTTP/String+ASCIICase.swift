extension String {
    /// Whether two texts have the same bytes, apart from the case of ASCII letters. Unicode's rules would cost much for a value that
    /// is made of combining marks (F10).
    package func isEqualIgnoringCase(to other: String) -> Bool {
        utf8.lazy.map(Self.lowercased).elementsEqual(other.utf8.lazy.map(Self.lowercased))
    }

    private static func lowercased(_ byte: UInt8) -> UInt8 { (0x41...0x5a).contains(byte) ? byte | 0x20 : byte }
}
