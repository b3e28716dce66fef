internal import Glibc
package import Nearshare

/// Resolution of paths by realpath(3), so that a process with another working directory can open them.
package enum ResolvedPath {
    /// - Throws: ``CommandFailure`` that names the path.
    package static func of(_ path: String) throws(CommandFailure) -> String {
        do throws(SystemCallError) {
            return try resolve(path)
        } catch {
            throw CommandFailure(.failure, "\(TerminalText.escaped(path)): \(systemErrorText(error.code))")
        }
    }

    /// - Throws: the error of realpath(3).
    package static func resolve(_ path: String) throws(SystemCallError) -> String {
        guard let resolved = realpath(path, nil) else { throw SystemCallError(code: errno) }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}
