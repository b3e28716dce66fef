/// A name under which something of a stranger's may be created: one component, no separator, not hidden, not reserved,
/// printable UTF-8 of at most ``maximumByteCount`` bytes. Only this type's initialisers make one.
package struct SafeFileName: Sendable, Hashable {
    /// 255 less room for " (9999)" and for the suffix of a file that is still being written.
    package static let maximumByteCount = 200

    /// Fit to be created in a directory.
    package let text: String

    /// Makes a harmless name that is as close to the claimed one as possible. Never fails: what has nothing left is
    /// called "unnamed".
    ///
    /// Separators, control and format characters, and those that Windows and shells mind (`:*?"<>|`) become `_`; a leading
    /// dash, tilde or space becomes `_`, and so does a leading dot; trailing dots and spaces go; device names of Windows get
    /// `_` before them; too long a name is cut in front of its extension.
    /// - Parameter mayBeHidden: keeps a leading dot. For what lies inside a received folder, where it hides nothing from
    ///   who looks into the inbox, and where a folder without its dot files would not be the one that was sent.
    package init(_ claimed: ClaimedFileName, mayBeHidden: Bool = false) {
        if Self.isPlain(claimed.bytes, mayBeHidden: mayBeHidden) {
            text = String(decoding: claimed.bytes, as: UTF8.self)
        } else {
            text = Self.cleaned(String(decoding: claimed.bytes, as: UTF8.self), mayBeHidden: mayBeHidden)
        }
    }

    /// `photo.jpg` gives `photo (2).jpg`, and `archive.tar.gz` gives `archive (2).tar.gz`.
    package func numbered(_ number: Int) -> SafeFileName {
        let (stem, suffix) = Self.split(text)
        return SafeFileName(trusted: "\(stem) (\(number))\(suffix)")
    }

    private init(trusted text: String) {
        self.text = text
    }

    /// Most names need no cleaning, and there may be a million of them: letters, digits, dots, dashes, underscores.
    private static func isPlain(_ bytes: [UInt8], mayBeHidden: Bool) -> Bool {
        guard let first = bytes.first, let last = bytes.last, bytes.count <= maximumByteCount, last != UInt8(ascii: ".") else {
            return false
        }
        guard first != UInt8(ascii: "-"), first != UInt8(ascii: "."), first != UInt8(ascii: "_") else { return false }
        let isPlain = bytes.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"):
                true
            default: false
            }
        }
        guard isPlain else { return false }
        let stem = bytes.prefix { $0 != UInt8(ascii: ".") }
        return stem.count > longestReservedName || !isReserved(String(decoding: stem, as: UTF8.self))
    }

    private static func cleaned(_ raw: String, mayBeHidden: Bool) -> String {
        var scalars = String.UnicodeScalarView()
        for scalar in raw.unicodeScalars {
            scalars.append(isAllowed(scalar) ? scalar : "_")
        }
        trimEnd(&scalars)
        if let first = scalars.first, "-~ ".unicodeScalars.contains(first) || (first == "." && !mayBeHidden) {
            scalars.replaceSubrange(scalars.startIndex...scalars.startIndex, with: ["_"])
        }
        if let first = scalars.first, first.isCombiningMark {
            // A mark would be drawn over whatever stands before the name.
            scalars.insert("_", at: scalars.startIndex)
        }
        if scalars.allSatisfy({ $0 == "_" || $0 == "." || $0 == " " }) { return "unnamed" }
        // Windows looks at what stands before the first dot, and not at spaces in front of it.
        var stem = scalars.prefix { $0 != "." }
        while stem.last == " " { stem.removeLast() }
        if isReserved(String(stem)) { scalars.insert("_", at: scalars.startIndex) }
        return shortened(String(scalars))
    }

    private static func trimEnd(_ scalars: inout String.UnicodeScalarView) {
        while let last = scalars.last, last == "." || last == " " { scalars.removeLast() }
    }

    private static func isAllowed(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "/", "\\", ":", "*", "?", "\"", "<", ">", "|", "\u{fffd}": return false
        default: break
        }
        if TerminalText.isInvisible(scalar) { return false }
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .surrogate, .unassigned: return false
        case .spaceSeparator: return scalar == " "
        default: return true
        }
    }

    private static func shortened(_ name: String) -> String {
        guard name.utf8.count > maximumByteCount else { return name }
        var (stem, suffix) = split(name)
        if suffix.utf8.count > longestKeptSuffix {
            (stem, suffix) = (name, "")
        }
        // By scalars, not by characters: one character may be longer than the whole name may be.
        var scalars = stem.unicodeScalars
        var count = scalars.reduce(0) { $0 + UTF8.width($1) } + suffix.utf8.count
        while count > maximumByteCount, let last = scalars.popLast() { count -= UTF8.width(last) }
        trimEnd(&scalars)
        return String(scalars) + suffix
    }

    /// The name in front of its extension, and the extension with its dot; ".tar" belongs to what follows it.
    private static func split(_ name: String) -> (stem: String, suffix: String) {
        let scalars = name.unicodeScalars
        guard let dot = scalars.lastIndex(of: "."), dot != scalars.startIndex else { return (name, "") }
        let stem = scalars[..<dot]
        if stem.count > 4, String(stem.suffix(4)).lowercased() == ".tar" {
            return (String(stem.dropLast(4)), String(stem.suffix(4)) + String(scalars[dot...]))
        }
        return (String(stem), String(scalars[dot...]))
    }

    private static let longestKeptSuffix = 32
    private static let longestReservedName = 7

    /// Windows takes superscript digits for digits.
    private static func isReserved(_ stem: String) -> Bool {
        guard stem.utf8.count <= longestReservedName + 1 else { return false }
        switch stem.uppercased() {
        case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$": return true
        case let upper where upper.hasPrefix("COM") || upper.hasPrefix("LPT"):
            return upper.unicodeScalars.count == 4 && "0123456789¹²³".unicodeScalars.contains(upper.unicodeScalars.last!)
        default: return false
        }
    }
}

extension SafeFileName: CustomStringConvertible {
    package var description: String { text }
}
