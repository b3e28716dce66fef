/// A file name under which received content may be created: one component, no separator, not hidden, not reserved, printable
/// UTF-8. Only this type's initialisers create one.
package struct SafeFileName: Sendable, Hashable {
    /// Limit on names under ``FileNameRules/windows``, with room for what other programs append.
    package static let maximumByteCount = 200
    /// Limit on names under ``FileNameRules/linux``: that of the file systems.
    package static let maximumComponentByteCount = 255

    /// The file name.
    package let text: String

    /// Sanitises a claimed name, keeping as much of it as is safe. A name without any safe character becomes "unnamed".
    ///
    /// Separators of Linux and Windows, control and format characters become `_`, as do a leading dash, tilde, space or dot.
    /// Trailing spaces are removed. Under the rules of Windows also `:*?"<>|` become `_`, trailing dots are removed, and names of
    /// devices get a leading `_`. A name that is too long is truncated before its extension.
    /// - Parameters:
    ///   - mayBeHidden: Keeps a leading dot. For entries inside a received folder, which must keep its dot files and is itself
    ///     visible in the inbox.
    ///   - rules: Those of the file system, for entries inside a received folder. Items of the inbox, where names of all
    ///     senders meet those of the user, keep the rules of Windows everywhere.
    package init(_ claimed: ClaimedFileName, mayBeHidden: Bool = false, rules: FileNameRules = .windows) {
        if Self.isPlain(claimed.bytes, mayBeHidden: mayBeHidden) {
            text = String(decoding: claimed.bytes, as: UTF8.self)
        } else {
            text = Self.sanitised(String(decoding: claimed.bytes, as: UTF8.self), mayBeHidden: mayBeHidden, rules)
        }
    }

    /// Inserts a number before the extension: `photo (2).jpg`, `archive (2).tar.gz`.
    package func numbered(_ number: Int) -> SafeFileName {
        let mark = " (\(number))"
        let byteLimit = Self.maximumComponentByteCount - mark.utf8.count
        let (stem, suffix) = Self.split(text.utf8.count > byteLimit ? Self.shortened(text, to: byteLimit) : text)
        return SafeFileName(trusted: "\(stem)\(mark)\(suffix)")
    }

    private init(trusted text: String) {
        self.text = text
    }

    /// Fast path for names of letters, digits, dots, dashes, underscores and spaces between them, which need no sanitising:
    /// a folder may have a million of them.
    private static func isPlain(_ bytes: [UInt8], mayBeHidden: Bool) -> Bool {
        guard let first = bytes.first, let last = bytes.last, bytes.count <= maximumByteCount,
            isLetterOrDigit(first), last != UInt8(ascii: "."), last != UInt8(ascii: " ")
        else { return false }
        let isPlain = bytes.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: " "): true
            default: isLetterOrDigit(byte)
            }
        }
        guard isPlain else { return false }
        // Up to the first space: Windows ignores only spaces before the dot, but few names are that short.
        let stem = bytes.prefix { $0 != UInt8(ascii: ".") && $0 != UInt8(ascii: " ") }
        return stem.count > maximumReservedByteCount || !isReserved(String(decoding: stem, as: UTF8.self))
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }

    private static func sanitised(_ raw: String, mayBeHidden: Bool, _ rules: FileNameRules) -> String {
        var scalars = String.UnicodeScalarView()
        for scalar in raw.unicodeScalars {
            scalars.append(isAllowed(scalar, rules) ? scalar : "_")
        }
        let name = withSafeEnds(scalars, mayBeHidden: mayBeHidden, rules)
        let limit = rules == .linux ? maximumComponentByteCount : maximumByteCount
        guard name.utf8.count > limit else { return name }
        // The shorter name may be empty, or one that Windows reserves. It is then far below the limit.
        return withSafeEnds(shortened(name, to: limit).unicodeScalars, mayBeHidden: mayBeHidden, rules)
    }

    /// Replaces what is unsafe at the beginning and the end, and names that are unsafe as a whole.
    private static func withSafeEnds(
        _ allowed: String.UnicodeScalarView, mayBeHidden: Bool, _ rules: FileNameRules
    ) -> String {
        var scalars = allowed
        trimEnd(&scalars, of: rules == .linux ? " " : ". ")
        if let first = scalars.first, "-~ ".unicodeScalars.contains(first) || (first == "." && !mayBeHidden) {
            scalars.replaceSubrange(scalars.startIndex...scalars.startIndex, with: ["_"])
        }
        if let first = scalars.first, first.isCombiningMark {
            // A combining mark would be drawn over the text before the name.
            scalars.insert("_", at: scalars.startIndex)
        }
        guard rules == .windows else {
            // Three dots are a name like any other.
            let name = String(scalars)
            return ["", ".", ".."].contains(name) ? "unnamed" : name
        }
        if scalars.allSatisfy({ "_. ".unicodeScalars.contains($0) }) { return "unnamed" }
        // Windows reserves the part before the first dot, ignoring spaces before that dot.
        var stem = scalars.prefix { $0 != "." }
        while stem.last == " " { stem.removeLast() }
        if isReserved(String(stem)) { scalars.insert("_", at: scalars.startIndex) }
        return String(scalars)
    }

    private static func trimEnd(_ scalars: inout String.UnicodeScalarView, of removed: String = ". ") {
        while let last = scalars.last, removed.unicodeScalars.contains(last) { scalars.removeLast() }
    }

    private static func isAllowed(_ scalar: Unicode.Scalar, _ rules: FileNameRules) -> Bool {
        switch scalar {
        case "/", "\\", "\u{fffd}": return false
        case ":", "*", "?", "\"", "<", ">", "|": return rules == .linux
        default: break
        }
        // Unicode's tables are slow.
        if scalar.isASCII { return scalar.value >= 0x20 && scalar.value != 0x7F }
        if TerminalText.isInvisible(scalar) { return false }
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .surrogate, .unassigned: return false
        case .spaceSeparator: return scalar == " "
        default: return true
        }
    }

    private static func shortened(_ name: String, to limit: Int) -> String {
        var (stem, suffix) = split(name)
        if suffix.utf8.count > maximumExtensionByteCount {
            (stem, suffix) = (name, "")
        }
        // Truncates scalars, not characters: one character may be longer than the limit.
        var scalars = stem.unicodeScalars
        var count = scalars.reduce(0) { $0 + UTF8.width($1) } + suffix.utf8.count
        while count > limit, let last = scalars.popLast() { count -= UTF8.width(last) }
        trimEnd(&scalars)
        return String(scalars) + suffix
    }

    /// Splits a name before its extension, which includes the dot; ".tar" belongs to the extension after it.
    private static func split(_ name: String) -> (stem: String, suffix: String) {
        let scalars = name.unicodeScalars
        guard let dot = scalars.lastIndex(of: "."), dot != scalars.startIndex else { return (name, "") }
        let stem = scalars[..<dot]
        if stem.count > 4, String(stem.suffix(4)).lowercased() == ".tar" {
            return (String(stem.dropLast(4)), String(stem.suffix(4)) + String(scalars[dot...]))
        }
        return (String(stem), String(scalars[dot...]))
    }

    /// Limit on an extension that is kept when a name is truncated, in bytes.
    private static let maximumExtensionByteCount = 32
    /// The length of the longest reserved name, "CONOUT$", in bytes.
    private static let maximumReservedByteCount = 7

    /// Device names of Windows, which treats superscript digits as digits.
    private static func isReserved(_ stem: String) -> Bool {
        guard stem.utf8.count <= maximumReservedByteCount else { return false }
        switch stem.uppercased() {
        case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$": return true
        case let upper where upper.hasPrefix("COM") || upper.hasPrefix("LPT"):
            guard upper.unicodeScalars.count == 4, let digit = upper.unicodeScalars.last else { return false }
            return "0123456789¹²³".unicodeScalars.contains(digit)
        default: return false
        }
    }
}

extension SafeFileName: CustomStringConvertible {
    package var description: String { text }
}
