/// The form in which a name that a peer has chosen stands in a line for users (T4).
///
/// A plain name stands as it is; any other stands in quotation marks, so that it cannot imitate the words and signs of the line
/// around it. Plain are words of letters, digits, `-`, `_`, `.` and `'`, of which none after the first begins with a lower-case
/// letter, as the words of our sentences do: `anna`, `Anna Schmidt`, `IMG_2024.jpg`. Not plain are the words that lines use for
/// the user and for all peers, and what looks like an id.
package enum NameText {
    /// - Parameter columns: width limit, without the quotation marks.
    package static func shown(_ name: String, columns: Int = 120) -> String {
        isPlain(name) ? TerminalText.escaped(name, columns: columns) : TerminalText.quoted(name, columns: columns)
    }

    /// Whether the name could pass for one with a tag of its key, as in `anna#1a2b`.
    static func looksTagged(_ name: String) -> Bool { name.unicodeScalars.contains { numberSigns.contains($0) } }

    private static let numberSigns: Set<Unicode.Scalar> = ["#", "\u{fe5f}", "\u{ff03}", "\u{266f}", "\u{2317}", "\u{22d5}"]
    /// Words that would change what a sentence says.
    private static let reservedNames: Set<String> = [
        "anybody", "anyone", "device", "everybody", "everyone", "he", "i", "it", "neither", "no", "nobody", "none", "not",
        "nothing",
        "peer", "she", "somebody", "someone", "the", "they", "user", "we", "you",
    ]

    private static func isPlain(_ name: String) -> Bool {
        guard !reservedNames.contains(name.lowercased()), PeerID(hex: name) == nil else { return false }
        for (index, word) in name.split(separator: " ", omittingEmptySubsequences: false).enumerated() {
            guard let first = word.unicodeScalars.first, word.unicodeScalars.allSatisfy(isPlain) else { return false }
            if index > 0, first.properties.isLowercase { return false }
        }
        return true
    }

    private static func isPlain(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "-", "_", ".", "'": return true
        default: break
        }
        // Isolated from the rest of the line.
        if TerminalText.isRightToLeft(scalar) { return false }
        switch scalar.properties.generalCategory {
        case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .otherLetter, .decimalNumber, .nonspacingMark, .spacingMark:
            return true
        // Modifier letters of Latin look like colons and quotation marks.
        case .modifierLetter: return scalar.value >= 0x3000
        default: return false
        }
    }
}
