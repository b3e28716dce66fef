internal import Glibc
internal import NearshareBase
package import NearshareInterfaces

/// A path that the local user has given: bytes without NUL, which need not be UTF-8.
package struct LocalPath: Sendable, Hashable {
    package let bytes: [UInt8]

    package init(_ text: String) {
        self.init(bytes: text.utf8)
    }

    /// Refuses a path of a program that contains a NUL character: the file system sees the part before it, which may be another
    /// user's or the system's.
    package static func check(_ path: String) throws(StorageError) {
        guard !path.utf8.contains(0) else {
            throw StorageError(.rejected, "\(NearshareStorage.shown(path)) is no path: it contains a NUL character")
        }
    }

    /// - Parameter bytes: end at the first NUL.
    package init(bytes: some Sequence<UInt8>) {
        self.bytes = Array(bytes.prefix { $0 != 0 })
    }

    package init(cString: UnsafePointer<CChar>) {
        self.init(bytes: UnsafeBufferPointer(start: cString, count: strlen(cString)).map { UInt8(bitPattern: $0) })
    }

    /// - Parameter address: a `file` URI without a host (RFC 8089).
    /// - Returns: nil for any other text.
    package init?(address: String) {
        let prefix = "file://"
        guard address.hasPrefix(prefix + "/") else { return nil }
        var bytes: [UInt8] = []
        var rest = address.utf8.dropFirst(prefix.utf8.count)
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let decoded = Hex.decode(String(decoding: rest.prefix(2), as: UTF8.self)), decoded.count == 1, decoded != [0]
            else { return nil }
            bytes += decoded
            rest = rest.dropFirst(2)
        }
        self.bytes = bytes
    }

    /// The path as a `file` URI (RFC 8089).
    package var address: String {
        bytes.reduce(into: "file://") { address, byte in
            let isPlain =
                (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte) || "-._~/".utf8.contains(byte)
            address += isPlain ? String(UnicodeScalar(byte)) : "%" + Hex.encode([byte]).uppercased()
        }
    }

    /// The path as text, in which U+FFFD replaces invalid UTF-8.
    package var text: String { String(decoding: bytes, as: UTF8.self) }

    /// Whether the path is valid UTF-8, so that ``text`` denotes the same file.
    package var isUTF8: Bool { bytes.elementsEqual(text.utf8) }

    /// Whether the path denotes a file, or anything else that exists and is no directory.
    package var isExistingNonDirectory: Bool {
        var status = stat()
        return withCString { stat($0, &status) } == 0 && status.st_mode & S_IFMT != S_IFDIR
    }

    /// The path, escaped for a terminal.
    var shown: String { NearshareStorage.shown(text) }

    /// Separates the paths that an earlier path denotes as well, and those of files and folders that are in a folder of another one. A
    /// link under a name of its own, and what is not there, is not repeated.
    /// - Parameter areFoldersWhole: whether all files of a folder are sent with it. Otherwise a path inside it may be the only one of
    ///   what it denotes.
    package static func separatingRepeated(
        _ paths: [LocalPath], areFoldersWhole: Bool
    ) -> (first: [LocalPath], repeated: [LocalPath]) {
        let resolved = paths.map(\.resolved)
        let all = Set(resolved.compactMap(\.self))
        var seen: Set<LocalPath> = []
        var (first, repeated): ([LocalPath], [LocalPath]) = ([], [])
        for (path, target) in zip(paths, resolved) {
            guard let target, let name = path.components.last,
                name == target.components.last || name.elementsEqual(".".utf8) || name.elementsEqual("..".utf8)
            else {
                first.append(path)
                continue
            }
            var folder = target.parent
            while folder.bytes.count > 1, !all.contains(folder) { folder = folder.parent }
            let isInFolder = areFoldersWhole && folder.bytes.count > 1 && target.isFileOrFolder
            let isNew = seen.insert(target).inserted && !isInFolder
            isNew ? first.append(path) : repeated.append(path)
        }
        return (first, repeated)
    }

    /// Whether the path denotes a regular file or a folder: a folder is sent without anything else that it contains.
    private var isFileOrFolder: Bool {
        var status = stat()
        return withCString { stat($0, &status) } == 0 && (status.isFile || status.isFolder)
    }

    /// Whether the path denotes a socket, which cannot be opened.
    var isSocket: Bool {
        var status = stat()
        return withCString { stat($0, &status) } == 0 && status.st_mode & S_IFMT == S_IFSOCK
    }

    /// The path that a symbolic link contains; nil where the path is none.
    var linkTarget: LocalPath? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let capacity = buffer.count
        let count = withCString { readlink($0, &buffer, capacity) }
        return count < 0 ? nil : LocalPath(bytes: buffer.prefix(count).map { UInt8(bitPattern: $0) })
    }

    /// The components, without empty ones.
    var components: [ArraySlice<UInt8>] { bytes.split(separator: UInt8(ascii: "/")) }

    /// The path without its last component: `/` at the top, and `.` for a single component.
    var parent: LocalPath {
        guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")) else { return LocalPath(".") }
        guard slash > 0 else { return LocalPath("/") }
        return LocalPath(bytes: bytes[..<slash])
    }

    /// The absolute path without links, `.` and `..`; nil when nothing is there.
    var resolved: LocalPath? {
        guard let resolved = withCString({ realpath($0, nil) }) else { return nil }
        defer { free(resolved) }
        return LocalPath(cString: resolved)
    }

    func withCString<Result>(_ body: (UnsafePointer<CChar>) -> Result) -> Result {
        body(bytes.map { CChar(bitPattern: $0) } + [0])
    }
}
