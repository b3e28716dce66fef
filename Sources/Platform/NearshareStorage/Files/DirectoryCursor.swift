internal import Glibc
internal import NearshareInterfaces

/// A position in a directory tree that holds one descriptor, however deep it is (Q7).
///
/// A cursor goes down one component at a time without following links, and up by `..`, which must lead to the directory that it
/// came down from: another process may have moved a folder meanwhile (P3).
struct DirectoryCursor {
    private struct Identity: Equatable {
        let device: dev_t
        let inode: ino_t

        init(_ directory: FileDescriptor) throws(StorageError) {
            let status = try directory.status()
            (device, inode) = (status.st_dev, status.st_ino)
        }
    }

    /// The current directory.
    private(set) var directory: FileDescriptor
    /// The directories above the current one, from the one where the cursor began.
    private var ancestors: [Identity] = []

    init(_ directory: FileDescriptor) {
        self.directory = directory
    }

    mutating func descend(into name: String) throws(StorageError) {
        try descend(to: try directory.openDirectory(name))
    }

    mutating func descend(into name: UnsafePointer<CChar>) throws(StorageError) {
        try descend(to: try directory.openDirectory(raw: name, shownAs: { shown(String(cString: name)) }))
    }

    private mutating func descend(to child: FileDescriptor) throws(StorageError) {
        ancestors.append(try Identity(directory))
        directory = child
    }

    mutating func ascend() throws(StorageError) {
        let parent = try directory.openDirectory("..")
        guard ancestors.popLast() == (try Identity(parent)) else {
            throw StorageError(.failed, "a folder was moved while it was in use")
        }
        directory = parent
    }
}
