internal import NearshareBase

/// Do name, claim and content agree? (P14) Compared in coarse families: the same content goes by many exact types, and a
/// warning that is often wrong is soon not read any more.
enum ContentTypeCheck {
    enum Family {
        case image
        /// Sound and pictures that move share their containers.
        case sound
        case text
        case program
        case other
    }

    /// - Returns: a sentence when a person should look twice before opening the file; nil when all is as it seems.
    static func warning(name: String, claimed: String?, detected: String?) -> String? {
        guard let detected, let content = family(ofType: detected) else { return nil }
        let promised = family(ofName: name)
        if let promised, !agree(promised, content) { return "named \(shown(name)), but the content is \(detected)" }
        if promised == nil, content == .program { return "this is a program (\(detected))" }
        if let claimed, let told = family(ofType: claimed), !agree(told, content) {
            return "sent as \(TerminalText.escaped(claimed)), but the content is \(detected)"
        }
        return nil
    }

    private static func agree(_ promised: Family, _ content: Family) -> Bool {
        // A program's name promises that whatever is in it may be run.
        promised == content || promised == .program
            // Documents are made of text often enough.
            || (promised == .other && content == .text)
    }

    /// - Returns: nil for types that are given, by libmagic or a table, where nothing better is known.
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
        guard let dot = name.lastIndex(of: "."), dot != name.startIndex else { return nil }
        return familiesByExtension[name[name.index(after: dot)...].lowercased()]
    }

    /// From the system's table; without one, what people open most without a thought.
    private static let familiesByExtension: [String: Family] = {
        guard let file = try? FileDescriptor.openForReading(path: "/etc/mime.types"),
            let bytes = try? file.readAll(limit: 1 << 20)
        else { return harmlessLooking }
        return families(inTable: String(decoding: bytes, as: UTF8.self)).merging(harmlessLooking) { _, ours in ours }
    }()

    /// - Parameter text: lines of a type and the extensions that stand for it, as in mime.types(5).
    static func families(inTable text: String) -> [String: Family] {
        var families: [String: Family] = [:]
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            let words = line.split(whereSeparator: \.isWhitespace)
            // As a promise, plain text says something; as a verdict it does not.
            guard words.count > 1, let family = words[0] == "text/plain" ? .text : family(ofType: String(words[0])) else {
                continue
            }
            for word in words.dropFirst() { families[word.lowercased()] = family }
        }
        // A transport stream to the table, a program's source to most people.
        families["ts"] = nil
        return families
    }

    private static let harmlessLooking: [String: Family] = [
        "jpg": .image, "jpeg": .image, "png": .image, "gif": .image, "webp": .image, "heic": .image, "avif": .image,
        "mp3": .sound, "flac": .sound, "wav": .sound, "opus": .sound, "ogg": .sound, "oga": .sound, "m4a": .sound,
        "mp4": .sound, "mkv": .sound, "mov": .sound, "webm": .sound, "txt": .text, "md": .text, "csv": .text, "pdf": .other,
    ]
}
