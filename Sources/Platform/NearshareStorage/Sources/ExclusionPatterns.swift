internal import Glibc
internal import NearshareBase
package import NearshareInterfaces

/// Patterns of entries that the user does not want to send, with the meaning of rsync's `--exclude`.
///
/// A pattern without a slash and without `**` matches the name of an entry at any depth; another one matches the end of the
/// entry's path, from the beginning of a name on, or, after a leading slash, the whole path, which begins with the name of the folder
/// that is sent. A trailing slash, or `/***`, matches folders only. `*`, `?` and `[…]` match no slash, `**` matches any.
package struct ExclusionPatterns: Sendable, Hashable {
    private struct Pattern: Sendable, Hashable {
        let text: String
        /// The path of the file that has the pattern as a line; nil for one from an option.
        let file: String?
        private let parts: [Part]
        let matchesFoldersOnly: Bool
        let isAnchored: Bool
        let matchesPath: Bool

        init?(_ line: String, from file: String?) {
            (self.text, self.file) = (line, file)
            var text = Array(line.utf8)[...]
            if text.count > 4, text.suffix(4).elementsEqual("/***".utf8) { text.removeLast(3) }
            matchesFoldersOnly = text.count > 1 && text.last == Part.slash
            if matchesFoldersOnly { text.removeLast() }
            isAnchored = text.first == Part.slash
            if isAnchored { text.removeFirst() }
            guard !text.isEmpty, !text.contains(0) else { return nil }
            // In a pattern without wildcards a backslash is a byte of the name.
            let hasWildcards = text.contains { "*?[".utf8.contains($0) }
            var parts: [Part] = []
            while !text.isEmpty { parts.append(hasWildcards ? Part(removingFirstOf: &text) : .byte(text.removeFirst())) }
            self.parts = parts
            matchesPath = isAnchored || parts.contains(.byte(Part.slash)) || parts.contains(.doubleStar)
        }

        /// Simulates the pattern as a nondeterministic finite automaton, whose active states are in `reached`: all ways to match are
        /// followed at once, so the time is bounded by the product of both lengths.
        func matches(_ text: [UInt8]) -> Bool {
            // At each index whether the parts before it match the bytes so far, from the beginning of a name on.
            var reached = [true] + parts.map { _ in false }
            for (index, part) in parts.enumerated() { reached[index + 1] = reached[index] && part.isRun }
            for byte in text {
                var wasReached = reached[0]
                reached[0] = !isAnchored && byte == Part.slash
                for (index, part) in parts.enumerated() {
                    let isMatched = wasReached && part.matches(byte)
                    wasReached = reached[index + 1]
                    if part.isRun, isMatched { reached[index] = true }
                    reached[index + 1] = part.isRun ? reached[index] : isMatched
                }
            }
            return reached[parts.count]
        }
    }

    /// A part of a pattern, which matches one byte, or a run of bytes.
    private enum Part: Sendable, Hashable {
        case byte(UInt8)
        /// The bytes that a bracket expression matches.
        case oneOf(Set<UInt8>)
        case questionMark
        case star
        case doubleStar

        static let slash = UInt8(ascii: "/")

        /// - Parameter text: not empty.
        init(removingFirstOf text: inout ArraySlice<UInt8>) {
            let first = text.removeFirst()
            switch first {
            case UInt8(ascii: "*"):
                self = text.first == first ? .doubleStar : .star
                text = text.drop { $0 == first }
            case UInt8(ascii: "?"):
                self = .questionMark
            case UInt8(ascii: "\\"):
                self = .byte(text.popFirst() ?? first)
            case UInt8(ascii: "["):
                // A bracket that is not closed is a byte of the name.
                guard let end = Self.bracketEnd(in: text) else {
                    self = .byte(first)
                    return
                }
                let expression = "[" + String(decoding: text[...end], as: UTF8.self)
                text = text[(end + 1)...]
                let bytes = (UInt8(1)...UInt8.max).filter { byte in
                    byte != Self.slash && fnmatch(expression, [CChar(bitPattern: byte), 0], 0) == 0
                }
                self = .oneOf(Set(bytes))
            default:
                self = .byte(first)
            }
        }

        /// The index of the bracket that closes an expression; nil for none.
        /// - Parameter text: after the opening bracket.
        private static func bracketEnd(in text: ArraySlice<UInt8>) -> Int? {
            var rest = text
            if let first = rest.first, "!^".utf8.contains(first) { rest.removeFirst() }
            // Another bracket in the first place is one of the bytes.
            if rest.first == UInt8(ascii: "]") { rest.removeFirst() }
            while let next = rest.popFirst() {
                switch next {
                case UInt8(ascii: "]"): return rest.startIndex - 1
                case UInt8(ascii: "\\"): rest = rest.dropFirst()
                // A class such as `[:digit:]`.
                case UInt8(ascii: "[") where rest.first == UInt8(ascii: ":"):
                    rest = rest.drop { $0 != UInt8(ascii: "]") }.dropFirst()
                default: break
                }
            }
            return nil
        }

        var isRun: Bool { self == .star || self == .doubleStar }

        func matches(_ byte: UInt8) -> Bool {
            switch self {
            case .byte(let own): byte == own
            case .oneOf(let bytes): bytes.contains(byte)
            case .questionMark, .star: byte != Self.slash
            case .doubleStar: true
            }
        }
    }

    private var patterns: [Pattern] = []

    package init() {}

    package var isEmpty: Bool { patterns.isEmpty }

    /// Adds a pattern.
    /// - Returns: false when it matches nothing: it is empty, or contains a NUL.
    package mutating func add(_ pattern: String) -> Bool {
        add(pattern, from: nil)
    }

    private mutating func add(_ pattern: String, from file: String?) -> Bool {
        guard let pattern = Pattern(pattern, from: file) else { return false }
        patterns.append(pattern)
        return true
    }

    /// Adds the patterns of a file, one on each line; empty lines and those that begin with `#` or `;` are comments.
    package mutating func add(linesOf path: String) throws(StorageError) {
        let file = try FileDescriptor.openForReading(path: path)
        guard try file.status().isFile else { throw StorageError(.rejected, "\(shown(path)) is not a file of patterns") }
        let bytes = try file.read(upTo: Self.maximumFileByteCount + 1)
        guard bytes.count <= Self.maximumFileByteCount else {
            throw StorageError(.rejected, "\(shown(path)) is too large for a file of patterns: the limit is 1 MiB")
        }
        for line in String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isNewline)
        where !line.hasPrefix("#") && !line.hasPrefix(";") {
            _ = add(String(line), from: path)
        }
    }

    private static let maximumFileByteCount = 1 << 20

    /// - Parameters:
    ///   - path: from the item that is sent on; at least one name.
    ///   - used: receives the positions of all patterns that match.
    func match(_ path: [ClaimedFileName], isFolder: Bool, used: inout Set<Int>) -> Bool {
        guard !patterns.isEmpty, let name = path.last else { return false }
        let whole = Array(path.map(\.bytes).joined(separator: [Part.slash]))
        var isMatched = false
        for (position, pattern) in patterns.enumerated() where isFolder || !pattern.matchesFoldersOnly {
            guard pattern.matches(pattern.matchesPath ? whole : name.bytes) else { continue }
            isMatched = true
            used.insert(position)
        }
        return isMatched
    }

    /// A pattern that matches nothing of what is sent.
    package struct Unused: Sendable, Hashable {
        package var pattern: String
        /// The path of the file that has the pattern as a line; nil for one from an option.
        package var file: String?

        package init(pattern: String, file: String?) {
            (self.pattern, self.file) = (pattern, file)
        }
    }

    /// The patterns without the used ones.
    func unused(_ used: Set<Int>) -> [Unused] {
        patterns.enumerated().compactMap { position, pattern in
            used.contains(position) ? nil : Unused(pattern: pattern.text, file: pattern.file)
        }
    }
}
