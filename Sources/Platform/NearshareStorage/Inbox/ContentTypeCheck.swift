internal import NearshareBase

/// Checks that the name, the claimed media type and the detected one agree (P14). Compares coarse families: one kind of content
/// has many exact types, and users ignore warnings that are often wrong.
enum ContentTypeCheck {
    enum Family {
        case image
        /// Audio and video share containers.
        case sound
        case text
        case program
        case other
    }

    /// - Returns: a warning for the user; nil when all agree.
    static func warning(name: String, claimed: String?, detected: String?) -> String? {
        guard let detected, let content = family(ofType: detected) else { return nil }
        let expected = family(ofName: name)
        if let expected, !agree(expected, content) { return "named \(shown(name)), but the content is \(detected)" }
        if expected == nil, content == .program { return "this is a program (\(detected))" }
        if let claimed, let claimedFamily = family(ofType: claimed), !agree(claimedFamily, content) {
            return "sent as \(TerminalText.escaped(claimed)), but the content is \(detected)"
        }
        return nil
    }

    private static func agree(_ expected: Family, _ content: Family) -> Bool {
        // The name of a program promises executable content of any kind.
        expected == content || expected == .program
            // Documents are often stored as text.
            || (expected == .other && content == .text)
    }

    /// - Returns: nil for the types that libmagic and mime.types use for unknown content.
    static func family(ofType type: String) -> Family? {
        switch type {
        case "application/octet-stream", "application/ogg", "text/plain", "inode/x-empty", "application/x-empty": return nil
        case "application/json", "application/xml", "application/javascript", "application/csv", "application/x-ndjson",
            "application/yaml", "application/toml":
            return .text
        default: break
        }
        if programMarks.contains(where: type.contains) { return .program }
        if type.hasPrefix("image/") { return .image }
        if type.hasPrefix("audio/") || type.hasPrefix("video/") { return .sound }
        return type.hasPrefix("text/") ? .text : .other
    }

    private static let programMarks = [
        "executable", "sharedlib", "dosexec", "msdos-program", "msdownload", "x-mach", "x-msi", "shellscript", "x-sh",
    ]

    private static func family(ofName name: String) -> Family? {
        // A hidden file without another dot has none.
        guard let text = name.fileNameExtension, text.unicodeScalars.count + 1 < name.unicodeScalars.count else { return nil }
        return familiesByExtension[text.lowercased()]
    }

    /// From the system's mime.types; without one, the most common extensions.
    private static let familiesByExtension: [String: Family] = {
        guard let file = try? FileDescriptor.openForReading(path: "/etc/mime.types"),
            let bytes = try? file.read(upTo: 1 << 20)
        else { return harmlessLooking }
        return families(inTable: String(decoding: bytes, as: UTF8.self)).merging(harmlessLooking) { $1 }
    }()

    /// Parses a table of media types.
    /// - Parameter text: lines of a type and its extensions, see mime.types(5).
    static func families(inTable text: String) -> [String: Family] {
        var families: [String: Family] = [:]
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            let words = line.split(whereSeparator: \.isWhitespace)
            // Plain text as a name's type is a promise; as a detected type it means unknown.
            guard words.count > 1, let family = words[0] == "text/plain" ? .text : family(ofType: String(words[0])) else {
                continue
            }
            for word in words.dropFirst() { families[word.lowercased()] = family }
        }
        // The table has MPEG transport streams; most such files are TypeScript.
        families["ts"] = nil
        return families
    }

    private static let harmlessLooking: [String: Family] = [
        "jpg": .image, "jpeg": .image, "png": .image, "gif": .image, "webp": .image, "heic": .image, "avif": .image,
        "mp3": .sound, "flac": .sound, "wav": .sound, "opus": .sound, "ogg": .sound, "oga": .sound, "m4a": .sound,
        "mp4": .sound, "mkv": .sound, "mov": .sound, "webm": .sound, "txt": .text, "md": .text, "csv": .text, "pdf": .other,
    ]
}
