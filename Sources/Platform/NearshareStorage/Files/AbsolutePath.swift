internal import Glibc
internal import NearshareBase
package import NearshareInterfaces

/// Absolute paths as text, without resolving symbolic links.
package enum AbsolutePath {
    /// The absolute form of a path, relative to the working directory; `.` components are removed, `..` stay.
    package static func absolute(_ path: String) throws(StorageError) -> String {
        var parts = path.pathComponents.filter { $0 != "." }
        if !path.hasPrefix("/") {
            guard let current = getcwd(nil, 0) else { throw StorageError(errno, "could not find the working directory") }
            defer { free(current) }
            parts = String(cString: current).pathComponents + parts
        }
        return "/" + parts.joined(separator: "/")
    }

    /// - Parameter path: absolute.
    static func parent(of path: String) -> String {
        "/" + path.pathComponents.dropLast().joined(separator: "/")
    }
}
