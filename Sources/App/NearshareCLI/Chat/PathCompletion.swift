internal import Glibc
internal import Nearshare
internal import NearshareService

/// Completes and resolves paths that a user types on the chat screen.
struct PathCompletion: Sendable {
    /// The replacement for a leading `~`; nil where it is not known.
    var home = getenv("HOME").map { String(cString: $0) }
    /// Whether the Tab key completes names: it is recommended where a name is wrong.
    var hasTabKey = true

    private static let maximumCompletionCount = 2000

    private static let folderAdvice = "it is a folder; `nearshare send FOLDER --to NAME` sends it"

    /// The absolute path of an existing file that can be read, and is no folder. Blocks on a file system that does not respond.
    func resolve(_ path: String) -> Result<String, ControlFailure> {
        do throws(SystemCallError) {
            let resolved = try ResolvedPath.resolve(expandingTilde(path))
            guard access(resolved, R_OK) == 0 else { throw SystemCallError(code: errno) }
            var status = stat()
            guard stat(resolved, &status) != 0 || status.st_mode & S_IFMT != S_IFDIR else {
                return .failure(ControlFailure(.storage, Self.folderAdvice))
            }
            return .success(resolved)
        } catch {
            let advice = error.code == ENOENT && hasTabKey ? "; Tab completes names" : ""
            return .failure(ControlFailure(.storage, systemErrorText(error.code) + advice))
        }
    }

    /// Completions of a path, sorted; directories end with a slash. At most 2000, in the order of readdir(3); names that need
    /// escaping are left out. Blocks on a file system that does not respond.
    func paths(beginningWith path: String) -> [String] {
        let directory = path.pathOfParent.map { "\($0)/" } ?? ""
        let namePrefix = path.nameInParent
        guard let stream = opendir(directory.isEmpty ? "." : expandingTilde(directory)) else { return [] }
        defer { closedir(stream) }
        var found: [String] = []
        while found.count < Self.maximumCompletionCount, let entry = readdir(stream) {
            let bytes = withUnsafeBytes(of: &entry.pointee.d_name) { Array($0.prefix { $0 != 0 }) }
            guard let name = String(validating: bytes, as: UTF8.self), name.hasPrefix(namePrefix),
                namePrefix.hasPrefix(".") || !name.hasPrefix("."), TerminalText.escaped(name, columns: 255) == name
            else { continue }
            found.append(directory + name + (Self.isDirectory(entry, in: stream) ? "/" : ""))
        }
        return found.sorted()
    }

    /// Also for a link to a directory, and on file systems that do not report `d_type`.
    private static func isDirectory(_ entry: UnsafeMutablePointer<dirent>, in stream: OpaquePointer) -> Bool {
        guard [UInt8(DT_LNK), UInt8(DT_UNKNOWN)].contains(entry.pointee.d_type) else {
            return entry.pointee.d_type == UInt8(DT_DIR)
        }
        var status = stat()
        return withUnsafePointer(to: &entry.pointee.d_name) { name in
            name.withMemoryRebound(to: CChar.self, capacity: 256) { fstatat(dirfd(stream), $0, &status, 0) }
        } == 0 && status.st_mode & S_IFMT == S_IFDIR
    }

    private func expandingTilde(_ path: String) -> String {
        guard path == "~" || path.hasPrefix("~/"), let home else { return path }
        return home + path.dropFirst()
    }
}
