internal import CNearshareTOML
internal import NearshareBase

/// The values of a TOML document, sorted by their keys. Keys in tables have dotted names, such as "profiles.village.hop-limit".
struct TOMLDocument {
    enum Value: Equatable {
        case text(String)
        case texts([String])
        case integer(Int64)
        case flag(Bool)
        /// A valid value of a type that no setting has.
        case other
    }

    /// A line that is not valid.
    struct Problem: Equatable {
        let line: Int
        /// The key, the error and what is expected; safe for a terminal.
        let text: String
    }

    private(set) var entries: [(key: String, value: Value, line: Int)] = []
    /// Lines that are not valid, and are left out of ``entries``.
    private(set) var problems: [Problem] = []

    /// Limit on the reported lines: one that opens a list or a string of several lines makes those that follow it invalid.
    private static let maximumProblemCount = 10
    private static let maximumKeyColumns = 60

    /// Reads what is valid: the parser stops at the first invalid line, and begins again without it.
    init(_ text: String) {
        var lines = text.split(atScalar: "\n", omittingEmpty: false)
        while problems.count < Self.maximumProblemCount, let problem = read(lines.joined(separator: "\n")) {
            let index = min(max(Int(problem.line), 1), lines.count) - 1
            problems.append(
                Problem(line: index + 1, text: Self.sentence(lines[index], isRepetition: problem.is_repetition != 0)))
            guard !lines[index].isEmpty else { break }
            lines[index] = ""
        }
    }

    /// - Returns: the first syntax error; nil when the whole text is valid.
    private mutating func read(_ text: String) -> nearshare_toml_problem? {
        var (text, problem) = (text, nearshare_toml_problem())
        let isValid = text.withUTF8 { text in
            text.withMemoryRebound(to: CChar.self) { text in
                withUnsafeMutablePointer(to: &entries) { entries in
                    nearshare_toml_read(text.baseAddress, text.count, entries, appendEntry, &problem)
                }
            }
        }
        return isValid == 1 ? nil : problem
    }

    private static func sentence(_ line: String, isRepetition: Bool) -> String {
        let words = line.split(atScalar: "=", omittingEmpty: false)
        let isTable = line.drop { $0 == " " || $0 == "\t" }.hasPrefix("[")
        let name = TerminalText.escaped(
            words[0].split { $0 == " " || $0 == "\t" || $0 == "\r" }.joined(separator: " "), columns: maximumKeyColumns)
        if isRepetition { return "\(name): set a second time; omit one of the two" }
        if isTable { return "\(name): expected the name of a table in brackets, such as [open]" }
        guard words.count > 1, !name.isEmpty else { return "expected a setting, such as accept = \"ask\"" }
        if lacksClosingQuote(words.dropFirst().joined(separator: "=")) { return "\(name): the closing quote is missing" }
        return "\(name): expected a string in quotes, a number, true, false, or a list in brackets"
    }

    /// Whether a value begins with a quote and has no second one. Strings of several lines begin with three.
    private static func lacksClosingQuote(_ value: String) -> Bool {
        let value = value.drop { $0 == " " || $0 == "\t" }
        guard let quote = value.first, quote == "\"" || quote == "'" else { return false }
        var isEscaped = false
        for character in value.dropFirst() {
            if character == quote, !isEscaped { return false }
            isEscaped = quote == "\"" && character == "\\" && !isEscaped
        }
        return true
    }
}

private let appendEntry: @convention(c) (UnsafeMutableRawPointer?, UnsafePointer<nearshare_toml_entry>?) -> Void = {
    context, entry in
    guard let context, let entry = entry?.pointee else { return }
    func string(_ start: UnsafePointer<CChar>?, _ count: Int) -> String {
        String(decoding: UnsafeRawBufferPointer(start: start, count: count), as: UTF8.self)
    }
    let value: TOMLDocument.Value =
        switch entry.kind {
        case NEARSHARE_TOML_TEXT: .text(string(entry.text, entry.text_length))
        case NEARSHARE_TOML_TEXTS:
            .texts(
                string(entry.text, entry.text_length).split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(
                    String.init))
        case NEARSHARE_TOML_INTEGER: .integer(entry.integer)
        case NEARSHARE_TOML_FLAG: .flag(entry.integer != 0)
        default: .other
        }
    context.assumingMemoryBound(to: [(key: String, value: TOMLDocument.Value, line: Int)].self).pointee.append(
        (string(entry.key, entry.key_length), value, Int(entry.line)))
}
