/// Makes a stranger's string fit to be shown: nothing in it can move the cursor, change the title, hide or reorder text,
/// or break a line.
///
/// Replaced by a visible escape (`\u{1b}`): control characters of both sets, line and paragraph separators, bidirectional
/// controls, zero-width and other invisible characters, private-use and unassigned code points, combining marks that have
/// nothing to stand on, and those beyond the second on one base character. A back slash is doubled so that an escape can't
/// be forged.
package enum TerminalText {
    /// - Parameters:
    ///   - text: anything, also a name claimed by a stranger.
    ///   - columns: what takes more terminal columns than this is cut, and its last column is "…".
    package static func escaped(_ text: String, columns: Int = 120) -> String {
        var shown = String.UnicodeScalarView()
        var width = 0
        // How much of it stays, with its mark, if it turns out to be too long.
        var keptCount = 0
        var marks = maximumMarks
        for scalar in text.unicodeScalars {
            let isMark = scalar.isCombiningMark
            marks = isMark ? marks + 1 : 0
            if !isFit(scalar) || marks > maximumMarks {
                let escape = hexEscape(scalar)
                shown.append(contentsOf: escape)
                width += escape.count
            } else if scalar == "\\" {
                shown.append(contentsOf: [scalar, scalar])
                width += 2
            } else {
                shown.append(scalar)
                width += columnsTaken(by: scalar)
            }
            guard width <= columns else {
                return String(shown.prefix(keptCount)) + "…"
            }
            if width < columns { keptCount = shown.count }
        }
        return String(shown)
    }

    /// The columns that text made by ``escaped(_:columns:)`` takes.
    package static func width(of text: String) -> Int {
        text.unicodeScalars.reduce(0) { $0 + columnsTaken(by: $1) }
    }

    /// The columns that a scalar of such a text takes, 0 to 2.
    package static func width(of scalar: Unicode.Scalar) -> Int { columnsTaken(by: scalar) }

    /// Draws nothing, though it is neither a control nor a space: two names that differ only in it look the same.
    static func isInvisible(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.isDefaultIgnorableCodePoint || scalar == brailleBlank
    }

    private static let maximumMarks = 2
    private static let brailleBlank: Unicode.Scalar = "\u{2800}"
    /// Text and emoji presentation: they change how the character before them looks, and nothing else.
    private static let presentationSelectors: ClosedRange<Unicode.Scalar> = "\u{fe0e}"..."\u{fe0f}"

    private static func isFit(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.isASCII { return (0x20...0x7e).contains(scalar.value) }
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .surrogate, .unassigned: return false
        default: return !isInvisible(scalar) || presentationSelectors.contains(scalar)
        }
    }

    private static func hexEscape(_ scalar: Unicode.Scalar) -> String.UnicodeScalarView {
        "\\u{\(String(scalar.value, radix: 16))}".unicodeScalars
    }

    /// Two for what terminals draw wide (Unicode TR 11 "W" and "F", by block, and what is an emoji unless told otherwise), none
    /// for marks drawn over what stands before them, else one.
    private static func columnsTaken(by scalar: Unicode.Scalar) -> Int {
        if scalar.isASCII { return 1 }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark: return 0
        default: break
        }
        return switch scalar.value {
        case 0x1100...0x115f, 0x2e80...0x303e, 0x3041...0x33ff, 0x3400...0x4dbf, 0x4e00...0x9fff, 0xa000...0xa4cf,
            0xa960...0xa97f, 0xac00...0xd7a3, 0xf900...0xfaff, 0xfe30...0xfe6f, 0xff00...0xff60, 0xffe0...0xffe6,
            0x1f200...0x1f265, 0x20000...0x3fffd:
            2
        // Halves of flags: two of them together are as wide as another emoji.
        case 0x1f1e6...0x1f1ff: 1
        default: scalar.properties.isEmojiPresentation ? 2 : 1
        }
    }
}

extension Unicode.Scalar {
    var isCombiningMark: Bool {
        if isASCII { return false }
        switch properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .spacingMark: return true
        default: return false
        }
    }
}
