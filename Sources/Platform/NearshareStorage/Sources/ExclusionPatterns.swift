internal import Glibc
internal import NearshareBase
package import NearshareInterfaces

/// Patterns of entries that the user does not want to send, with the meaning of rsync's `--exclude`.
///
/// A pattern without a slash matches the name of an entry at any depth; another one matches the end of the entry's path, or,
/// after a leading slash, the whole path, which begins below the folder that is sent. A trailing slash matches folders only.
/// `*` and `?` match no slash, `**` matches any.
package struct ExclusionPatterns: Sendable, Hashable {
    private struct Pattern: Sendable, Hashable {
        /// Without the leading and the trailing slash.
        let text: String
        let matchesFoldersOnly: Bool
        let isAnchored: Bool
        let matchesPath: Bool
        let flags: Int32

        init?(_ line: String) {
            var text = line[...]
            matchesFoldersOnly = text.count > 1 && text.hasSuffix("/")
            if matchesFoldersOnly { text.removeLast() }
            isAnchored = text.hasPrefix("/")
            if isAnchored { text.removeFirst() }
            guard !text.isEmpty, !text.utf8.contains(0) else { return nil }
            self.text = String(text)
            matchesPath = isAnchored || text.contains("/")
            flags = text.contains("**") ? 0 : FNM_PATHNAME
        }
    }

    private var patterns: [Pattern] = []

    package init() {}

    package var isEmpty: Bool { patterns.isEmpty }

    /// Adds a pattern.
    /// - Returns: false when it matches nothing: it is empty, or contains a NUL.
    package mutating func add(_ pattern: String) -> Bool {
        guard let pattern = Pattern(pattern) else { return false }
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
            _ = add(String(line))
        }
    }

    private static let maximumFileByteCount = 1 << 20

    /// - Parameter path: from below the folder that is sent; at least one name.
    func match(_ path: ArraySlice<ClaimedFileName>, isFolder: Bool) -> Bool {
        guard !patterns.isEmpty, let name = path.last else { return false }
        return patterns.contains { pattern in
            guard isFolder || !pattern.matchesFoldersOnly else { return false }
            guard pattern.matchesPath else { return Self.match(pattern, name.bytes[...]) }
            let bytes = Array(path.map(\.bytes).joined(separator: [UInt8(ascii: "/")]))
            if Self.match(pattern, bytes[...]) { return true }
            guard !pattern.isAnchored else { return false }
            return bytes.indices.contains { bytes[$0] == UInt8(ascii: "/") && Self.match(pattern, bytes[($0 + 1)...]) }
        }
    }

    private static func match(_ pattern: Pattern, _ bytes: ArraySlice<UInt8>) -> Bool {
        (bytes.map(CChar.init(bitPattern:)) + [0]).withUnsafeBufferPointer { text in
            guard let start = text.baseAddress else { return false }
            return fnmatch(pattern.text, start, pattern.flags) == 0
        }
    }
}
