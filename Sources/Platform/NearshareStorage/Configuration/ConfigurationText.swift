internal import NearshareBase

/// The text of `config.toml`, in which single settings are changed; comments and everything else stay as they are.
package struct ConfigurationText: Sendable, Hashable {
    package private(set) var text: String

    package init(_ text: String) { self.text = text }

    /// Changes a setting outside of tables, or adds it before the first table.
    /// - Parameter key: a bare key, such as "inbox".
    package mutating func set(_ key: String, to value: String) {
        var lines = text.split(atScalar: "\n", omittingEmpty: false)
        if lines.last == "" { lines.removeLast() }
        // Lines may end with CR LF.
        let line = "\(key) = \(Self.quoted(value))\(lines.first?.last == "\r" ? "\r" : "")"
        let end = lines.firstIndex { $0.drop { $0 == " " || $0 == "\t" }.first == "[" } ?? lines.count
        if let index = lines[..<end].firstIndex(where: { Self.key(of: $0) == key }) {
            lines[index] = line
        } else {
            // Blank lines and comments above the first table belong to it.
            let last = lines[..<end].lastIndex { Self.key(of: $0) != nil }
            lines.insert(line, at: last.map { $0 + 1 } ?? 0)
        }
        text = lines.joined(separator: "\n") + "\n"
    }

    /// The key that a line sets; nil for a comment, a blank line and a line that is no assignment.
    private static func key(of line: String) -> String? {
        let words = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let key = words[0].filter { $0 != " " && $0 != "\t" }
        guard words.count == 2, !key.isEmpty, !key.hasPrefix("#") else { return nil }
        return key.filter { $0 != "\"" && $0 != "'" }
    }

    /// A basic string of TOML.
    private static func quoted(_ value: String) -> String {
        var quoted = "\""
        for scalar in value.unicodeScalars {
            switch scalar {
            case "\"", "\\": quoted += "\\\(scalar)"
            case _ where scalar.value < 0x20 || scalar.value == 0x7f:
                let digits = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
