/// Detects words that mix scripts whose letters look alike, as names do that imitate another one: the Cyrillic "а" in "anna"
/// (Unicode Technical Standard 39, section 5, with the scripts that share many shapes with Latin in its `confusables.txt`).
///
/// A word that is written in another script as a whole is not detected: many people have such a name.
package enum MixedScripts {
    private enum Script {
        case latin, cyrillic, greek, armenian, cherokee, coptic, lisu
    }

    /// Limit on the scalars that are examined; a name has at most 63.
    private static let maximumScalarCount = 4096

    /// The words for users.
    package static let note = "name mixes alphabets"

    /// Whether a word of the text has letters of more than one of the scripts. Words are separated by all that is no letter, as in
    /// "Анна-PC", but for marks and for what is not seen.
    package static func isFound(in text: String) -> Bool {
        var word: Script?
        for scalar in text.unicodeScalars.prefix(maximumScalarCount) {
            guard let script = script(of: scalar) else {
                if separatesWords(scalar) { word = nil }
                continue
            }
            if let word, word != script { return true }
            word = script
        }
        return false
    }

    private static func separatesWords(_ scalar: Unicode.Scalar) -> Bool {
        if TerminalText.isInvisible(scalar) { return false }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .spacingMark, .enclosingMark, .format, .control: return false
        // Letters of other scripts, or of several. Some look like Latin ones as well (T9).
        case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter: return false
        default: return true
        }
    }

    /// The script of a letter; nil for other scalars, and for letters of other scripts (`Scripts.txt` of Unicode 15).
    private static func script(of scalar: Unicode.Scalar) -> Script? {
        switch scalar.value {
        case 0x41...0x5a, 0x61...0x7a, 0xaa, 0xba, 0xc0...0xd6, 0xd8...0xf6, 0xf8...0x2b8, 0x1d00...0x1d25,
            0x1d2c...0x1d5c, 0x1d62...0x1d65, 0x1d6b...0x1d77, 0x1d79...0x1dbe, 0x1e00...0x1eff, 0x2071, 0x207f,
            0x2090...0x209c, 0x212a...0x212b, 0x2132, 0x214e, 0x2160...0x2188, 0x2c60...0x2c7f, 0xa722...0xa787,
            0xa78b...0xa7ff, 0xab30...0xab5a, 0xab5c...0xab64, 0xfb00...0xfb06, 0xff21...0xff3a, 0xff41...0xff5a:
            .latin
        case 0x400...0x484, 0x487...0x52f, 0x1c80...0x1c8f, 0x1d2b, 0x1d78, 0x2de0...0x2dff, 0xa640...0xa69f: .cyrillic
        case 0x370...0x373, 0x375...0x377, 0x37a...0x37d, 0x37f, 0x386, 0x388...0x3e1, 0x3f0...0x3ff, 0x1d26...0x1d2a,
            0x1d5d...0x1d61, 0x1d66...0x1d6a, 0x1dbf, 0x1f00...0x1ffe, 0x2126, 0xab65:
            .greek
        case 0x531...0x556, 0x559, 0x560...0x588, 0xfb13...0xfb17: .armenian
        case 0x13a0...0x13f5, 0x13f8...0x13fd, 0xab70...0xabbf: .cherokee
        case 0x3e2...0x3ef, 0x2c80...0x2ce4, 0x2ceb...0x2cee, 0x2cf2...0x2cf3: .coptic
        case 0xa4d0...0xa4fd, 0x11fb0: .lisu
        default: nil
        }
    }
}
