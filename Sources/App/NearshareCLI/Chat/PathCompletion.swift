internal import Glibc
internal import Nearshare
internal import NearshareService

/// The paths that a user types on the chat screen.
struct PathCompletion: Sendable {
    /// The replacement for a leading `~`; nil where it is not known.
    var home = getenv("HOME").map { String(cString: $0) }

    /// Limit on completions.
    private static let maximumPaths = 2000

    /// The absolute path of an existing file that can be read.
    func resolve(_ path: String) -> Result<String, ControlFailure> {
        guard let real = realpath(expandingTilde(path), nil) else {
            return .failure(ControlFailure(.refused, "\(String(cString: strerror(errno))); Tab completes names"))
        }
        defer { free(real) }
        guard access(real, R_OK) == 0 else { return .failure(ControlFailure(.refused, String(cString: strerror(errno)))) }
        return .success(String(cString: real))
    }

    /// Completions of a path; directories end with a slash. Names that need escaping are left out.
    func paths(beginningWith path: String) -> [String] {
        let slash = path.lastIndex(of: "/")
        let folder = slash.map { String(path[...$0]) } ?? ""
        let begun = slash.map { path[path.index(after: $0)...] } ?? path[...]
        guard let stream = opendir(folder.isEmpty ? "." : expandingTilde(folder)) else { return [] }
        defer { closedir(stream) }
        var found: [String] = []
        while found.count < Self.maximumPaths, let entry = readdir(stream) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            guard name.hasPrefix(begun), begun.hasPrefix(".") || !name.hasPrefix("."),
                TerminalText.escaped(name, columns: 255) == name
            else { continue }
            let isFolder = entry.pointee.d_type == UInt8(DT_DIR)
            found.append(folder + name + (isFolder ? "/" : ""))
        }
        return found.sorted()
    }

    private func expandingTilde(_ path: String) -> String {
        guard path == "~" || path.hasPrefix("~/"), let home else { return path }
        return home + path.dropFirst()
    }
}
