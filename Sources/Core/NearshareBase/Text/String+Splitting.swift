extension String {
    /// Splits the text into parts of at most `maximumByteCount` bytes of UTF-8, between characters. A single character that
    /// exceeds the limit is dropped; real texts contain none.
    package func split(maximumByteCount: Int) -> [String] {
        var parts: [String] = []
        var part = ""
        for character in self where character.utf8.count <= maximumByteCount {
            if part.utf8.count + character.utf8.count > maximumByteCount, !part.isEmpty {
                parts.append(part)
                part = ""
            }
            part.append(character)
        }
        return part.isEmpty ? parts : parts + [part]
    }
}
