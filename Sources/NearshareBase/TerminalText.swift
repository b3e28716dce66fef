/// Makes a stranger's string fit to be shown: nothing in it can move the cursor, change the title, hide or reorder text,
/// or break a line.
///
/// Replaced by a visible escape (`\u{1b}`): control characters of both sets, line and paragraph separators, bidirectional
/// controls, zero-width and other format characters, private-use and unassigned code points, and combining marks beyond
/// the second on one base character. A back slash is doubled so that an escape can't be forged.
public enum TerminalText {
    /// - Parameters:
    ///   - text: anything, also a name claimed by a stranger.
    ///   - columns: what is left after this many terminal columns is cut, and "…" stands there instead.
    public static func escaped(_ text: String, columns: Int = 120) -> String {
        var shown = ""
        var width = 0
        var marks = 0
        for scalar in text.unicodeScalars {
            var piece: String
            var pieceWidth: Int
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .surrogate, .unassigned:
                piece = hexEscape(scalar)
                pieceWidth = piece.unicodeScalars.count
                marks = 0
            case .nonspacingMark, .enclosingMark, .spacingMark:
                marks += 1
                if marks > 2 {
                    piece = hexEscape(scalar)
                    pieceWidth = piece.unicodeScalars.count
                } else {
                    piece = String(scalar)
                    pieceWidth = scalar.properties.generalCategory == .spacingMark ? 1 : 0
                }
            default:
                marks = 0
                piece = scalar == "\\" ? "\\\\" : String(scalar)
                pieceWidth = scalar == "\\" ? 2 : columnsTaken(by: scalar)
            }
            if width + pieceWidth > columns - 1 {
                // One column is kept for the mark that says that there was more.
                return shown + "…"
            }
            shown += piece
            width += pieceWidth
        }
        return shown
    }

    /// The columns that text made by ``escaped(_:columns:)`` takes.
    public static func width(of text: String) -> Int {
        text.unicodeScalars.reduce(0) { sum, scalar in
            switch scalar.properties.generalCategory {
            case .nonspacingMark, .enclosingMark, .control, .format: sum
            default: sum + columnsTaken(by: scalar)
            }
        }
    }

    private static func hexEscape(_ scalar: Unicode.Scalar) -> String {
        "\\u{\(String(scalar.value, radix: 16))}"
    }

    /// Two for the blocks that terminals draw wide (Unicode TR 11 "W" and "F", by block), else one.
    private static func columnsTaken(by scalar: Unicode.Scalar) -> Int {
        switch scalar.value {
        case 0x1100...0x115f, 0x2e80...0x303e, 0x3041...0x33ff, 0x3400...0x4dbf, 0x4e00...0x9fff, 0xa000...0xa4cf,
            0xa960...0xa97f, 0xac00...0xd7a3, 0xf900...0xfaff, 0xfe30...0xfe6f, 0xff00...0xff60, 0xffe0...0xffe6,
            0x1f300...0x1f64f, 0x1f680...0x1f6ff, 0x1f900...0x1f9ff, 0x1fa70...0x1faff, 0x20000...0x3fffd:
            2
        default: 1
        }
    }
}
