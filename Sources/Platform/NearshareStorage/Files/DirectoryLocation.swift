internal import NearshareBase

/// Where a directory is, or will be: the directories from it up to the root, by device and inode. Symbolic links, `..` and bind mounts
/// lead to the same ones.
package struct DirectoryLocation: Sendable {
    /// The directories from the innermost that exists up to the root.
    private let existing: [FileIdentity]
    /// The components of the path below them, which do not exist.
    private let missing: [String]

    /// - Parameter path: absolute.
    package init(path: String) {
        var path = path
        var missing: [String] = []
        var resolved = LocalPath(path).resolved
        while resolved == nil, let name = path.pathComponents.last {
            missing.insert(name, at: 0)
            path = AbsolutePath.parent(of: path)
            resolved = LocalPath(path).resolved
        }
        var existing: [FileIdentity] = []
        while let directory = resolved {
            if let identity = FileIdentity(directory) { existing.append(identity) }
            resolved = directory.components.isEmpty ? nil : directory.parent
        }
        (self.existing, self.missing) = (existing, missing)
    }

    /// Whether `..` follows a component that does not exist, so that the path leads elsewhere once that exists.
    package var isUndecided: Bool { missing.contains("..") }

    /// Whether another directory is this one, or is inside it.
    package func contains(_ other: DirectoryLocation) -> Bool {
        guard let innermost = existing.first else { return false }
        if missing.isEmpty { return other.existing.contains(innermost) }
        return other.existing.first == innermost && other.missing.starts(with: missing)
    }
}
