/// Escapes untrusted text for a terminal: no character can move the cursor, change the title, hide or reorder text, or break a
/// line.
///
/// A visible escape (`\u{1b}`) replaces control characters of both sets, line and paragraph separators, bidirectional controls,
/// zero-width and other invisible characters, private-use and unassigned code points, combining marks without a base
/// character, and those after the second on one base character. Backslashes are doubled, so that text cannot forge an
/// escape. Spaces of every kind become ordinary ones.
public enum TerminalText {
    /// Returns the text with unsafe characters escaped.
    /// - Parameters:
    ///   - text: Untrusted text of any length.
    ///   - columns: The width limit in terminal columns. Longer text is truncated, and ends with "…".
    public static func escaped(_ text: String, columns: Int = 120) -> String {
        escaped(text, columns: columns, doublesBackslashes: true)
    }

    /// Returns a sentence of another nearshare process of this user, whose untrusted parts are escaped already: backslashes stay
    /// as they are, all else is escaped as by ``escaped(_:columns:)``.
    package static func sanitized(_ sentence: String, columns: Int = 400) -> String {
        escaped(sentence, columns: columns, doublesBackslashes: false)
    }

    private static func escaped(_ text: String, columns: Int, doublesBackslashes: Bool) -> String {
        var shown = String.UnicodeScalarView()
        var width = 0
        // The number of scalars in `shown`, whose own `count` goes through all of them.
        var count = 0
        // The number of scalars to keep, followed by "…", in case the text is too long.
        var keptCount = 0
        // Combining marks since the last base character; at the limit, so that a mark without one is escaped.
        var marks = maximumMarks
        for scalar in text.unicodeScalars {
            let isMark = scalar.isCombiningMark || isHangulVowelOrFinal(scalar)
            marks = isMark ? marks + 1 : 0
            if !isPrintable(scalar) || marks > maximumMarks {
                let escape = hexEscape(scalar)
                shown.append(contentsOf: escape)
                width += escape.count
                count += escape.count
            } else if scalar == "\\", doublesBackslashes {
                shown.append(contentsOf: [scalar, scalar])
                width += 2
                count += 2
            } else if scalar.properties.generalCategory == .spaceSeparator {
                // Other spaces look like U+0020, but code that breaks lines does not break at them.
                let spaces = String(repeating: " ", count: columnCount(of: scalar)).unicodeScalars
                shown.append(contentsOf: spaces)
                width += spaces.count
                count += spaces.count
            } else {
                shown.append(scalar)
                width += columnCount(of: scalar)
                count += 1
            }
            guard width <= columns else {
                return String(shown.prefix(keptCount)) + "…"
            }
            if width < columns { keptCount = count }
        }
        return String(shown)
    }

    /// The escaped text in quotation marks, so that it cannot pass for the words around it: quotation marks inside are escaped,
    /// and text that runs from right to left is isolated (UAX 9) from what follows.
    package static func quoted(_ text: String, columns: Int = 120) -> String {
        quoted(text, escaped: escaped(text, columns: columns))
    }

    /// The same for a path: where it is too long, its middle is left out, and the name of the file stays with its extension.
    package static func quoted(middleCut path: String, columns: Int) -> String {
        guard width(of: escaped(path, columns: .max)) > columns else { return quoted(path, columns: columns) }
        let tailColumns = columns * 2 / 3
        var tail = path.suffix(tailColumns)
        while width(of: escaped(String(tail), columns: .max)) > tailColumns { tail = tail.dropFirst() }
        let shownTail = escaped(String(tail), columns: .max)
        let head = escaped(String(path.dropLast(tail.count)), columns: columns - width(of: shownTail))
        return quoted(path, escaped: head + shownTail)
    }

    /// A path, escaped whole, that can be copied: in quotation marks only where a part of it could pass for the facts, such as
    /// the size, that follow a path in parentheses, and isolated (UAX 9) where it has text that runs from right to left (T4).
    package static func path(_ path: String) -> String {
        let escaped = escaped(path, columns: 4096)
        let containsFactsDelimiter = escaped.utf8.firstRange(of: "  (".utf8) != nil
        return containsFactsDelimiter || path.unicodeScalars.contains { isRightToLeft($0) }
            ? quoted(path, escaped: escaped) : escaped
    }

    private static func quoted(_ text: String, escaped: String) -> String {
        let inner = escaped.replacing(scalar: "\"", with: "\\\"")
        let isolates = text.unicodeScalars.contains { isRightToLeft($0) }
        return isolates ? "\"\u{2068}\(inner)\u{2069}\"" : "\"\(inner)\""
    }

    /// The blocks of scripts that run from right to left (UAX 44, DerivedBidiClass).
    static func isRightToLeft(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x0590...0x08ff, 0xfb1d...0xfdff, 0xfe70...0xfeff, 0x10800...0x10fff, 0x1e800...0x1efff: true
        default: false
        }
    }

    /// The width in terminal columns of text that ``escaped(_:columns:)`` returned.
    package static func width(of text: String) -> Int {
        text.unicodeScalars.reduce(0) { $0 + columnCount(of: $1) }
    }

    /// The width in terminal columns of one scalar of such a text: 0 to 2.
    package static func width(of scalar: Unicode.Scalar) -> Int { columnCount(of: scalar) }

    /// Whether the scalar draws nothing although it is neither a control nor a space: two names that differ only in it look
    /// alike.
    static func isInvisible(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.isDefaultIgnorableCodePoint || scalar == brailleBlank
    }

    private static let maximumMarks = 2
    private static let brailleBlank: Unicode.Scalar = "\u{2800}"
    /// Text and emoji presentation, which only change the look of the character before them.
    private static let presentationSelectors: ClosedRange<Unicode.Scalar> = "\u{fe0e}"..."\u{fe0f}"

    private static func isPrintable(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.isASCII { return (0x20...0x7e).contains(scalar.value) }
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .surrogate, .unassigned: return false
        default: return !isOverlong(scalar) && (!isInvisible(scalar) || presentationSelectors.contains(scalar))
        }
    }

    /// Whether fonts draw the character over many columns, though it has one or two: over other text of its row.
    private static func isOverlong(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        // A long dash, a sentence in Arabic, and the long signs of cuneiform.
        case 0x2e3a...0x2e3b, 0xfdfd, 0x12000...0x1254f: true
        default: false
        }
    }

    /// Whether the scalar is drawn into the Hangul letter before it, as in the decomposed file names of macOS.
    private static func isHangulVowelOrFinal(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x1160...0x11ff, 0xd7b0...0xd7ff: true
        default: false
        }
    }

    private static func hexEscape(_ scalar: Unicode.Scalar) -> String.UnicodeScalarView {
        "\\u{\(String(scalar.value, radix: 16))}".unicodeScalars
    }

    /// Two columns for wide characters (Unicode TR 11 "W" and "F", by block, and emoji by default), none for combining marks and
    /// for Hangul vowels and finals, one for all others.
    private static func columnCount(of scalar: Unicode.Scalar) -> Int {
        if scalar.isASCII { return 1 }
        if isHangulVowelOrFinal(scalar) { return 0 }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark: return 0
        default: break
        }
        return switch scalar.value {
        // The isolates of ``quoted(_:columns:)``.
        case 0x2068, 0x2069: 0
        case 0x1100...0x115f, 0x2e80...0x303e, 0x3041...0x33ff, 0x3400...0x4dbf, 0x4e00...0x9fff, 0xa000...0xa4cf,
            0xa960...0xa97f, 0xac00...0xd7a3, 0xf900...0xfaff, 0xfe30...0xfe6f, 0xff00...0xff60, 0xffe0...0xffe6,
            0x1f200...0x1f265, 0x20000...0x3fffd:
            2
        // Regional indicators: two of them make one flag of two columns.
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
