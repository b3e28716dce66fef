/// A name under which something of a stranger's may be created: one component, no separator, not hidden, not reserved,
/// printable UTF-8 of at most ``maximumByteCount`` bytes. Only this type's initialisers make one.
public struct SafeFileName: Sendable, Hashable {
    /// 255 less room for " (9999)" and for the suffix of a file that is still being written.
    public static let maximumByteCount = 200

    public let text: String

    /// Makes a harmless name that is as close to the claimed one as possible. Never fails: what has nothing left is
    /// called "unnamed".
    ///
    /// Separators, control and format characters, and those that Windows and shells mind (`:*?"<>|`) become `_`; leading
    /// dots, dashes, tildes and spaces become `_`; trailing dots and spaces go; device names of Windows get `_` before
    /// them; too long a name is cut in front of its extension.
    public init(_ claimed: ClaimedFileName) {
        self.init(cleaning: String(decoding: claimed.bytes, as: UTF8.self))
    }

    /// `photo.jpg` gives `photo (2).jpg`, and `archive.tar.gz` gives `archive (2).tar.gz`.
    public func numbered(_ number: Int) -> SafeFileName {
        let (stem, suffix) = Self.split(text)
        return SafeFileName(trusted: "\(stem) (\(number))\(suffix)")
    }

    private init(trusted text: String) {
        self.text = text
    }

    private init(cleaning raw: String) {
        var cleaned = ""
        for scalar in raw.unicodeScalars {
            cleaned.unicodeScalars.append(Self.isAllowed(scalar) ? scalar : "_")
        }
        while let last = cleaned.unicodeScalars.last, last == "." || last == " " {
            cleaned.unicodeScalars.removeLast()
        }
        if let first = cleaned.unicodeScalars.first, ".-~ ".unicodeScalars.contains(first) {
            cleaned.unicodeScalars.removeFirst()
            cleaned = "_" + cleaned
        }
        if cleaned.unicodeScalars.allSatisfy({ $0 == "_" || $0 == "." }) {
            cleaned = "unnamed"
        }
        let base = cleaned.prefix { $0 != "." }
        if Self.reservedOnWindows.contains(base.uppercased()) {
            cleaned = "_" + cleaned
        }
        text = Self.shortened(cleaned)
    }

    private static func isAllowed(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "/", "\\", ":", "*", "?", "\"", "<", ">", "|", "\u{fffd}": return false
        default: break
        }
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .surrogate, .unassigned: return false
        case .spaceSeparator: return scalar == " "
        default: return true
        }
    }

    private static func shortened(_ name: String) -> String {
        guard name.utf8.count > maximumByteCount else { return name }
        var (stem, suffix) = split(name)
        if suffix.utf8.count > 32 {
            (stem, suffix) = (name, "")
        }
        while stem.utf8.count + suffix.utf8.count > maximumByteCount {
            stem.unicodeScalars.removeLast()
        }
        return stem + suffix
    }

    /// The name in front of its extension, and the extension with its dot; ".tar" belongs to what follows it.
    private static func split(_ name: String) -> (stem: String, suffix: String) {
        guard let dot = name.lastIndex(of: "."), dot != name.startIndex else { return (name, "") }
        let stem = name[..<dot]
        if stem.hasSuffix(".tar"), stem.count > 4 {
            return (String(stem.dropLast(4)), ".tar" + name[dot...])
        }
        return (String(stem), String(name[dot...]))
    }

    private static let reservedOnWindows: Set<String> = {
        var names: Set<String> = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"]
        for number in 0...9 {
            names.insert("COM\(number)")
            names.insert("LPT\(number)")
        }
        return names
    }()
}

extension SafeFileName: CustomStringConvertible {
    public var description: String { text }
}
