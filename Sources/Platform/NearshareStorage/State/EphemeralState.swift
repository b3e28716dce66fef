internal import Glibc
package import NearshareInterfaces

/// The state directory of an ephemeral identity, which is removed with the last reference.
package final class EphemeralState: Sendable {
    package let state: StateDirectory

    private static let prefix = "ephemeral-"

    /// Creates a directory, and removes those of processes that ended before they could remove them.
    /// - Parameters:
    ///   - parent: the directory of files that live as long as a login session.
    ///   - suffix: the part of the name that no other directory has.
    package init(in parent: String, suffix: String) throws(StorageError) {
        try StateDirectory.makeDirectories(parent)
        let directory = try FileDescriptor.openDirectory(path: parent)
        // A directory that another process has created, but not locked yet, looks unused.
        let isLocked = directory.waitForLock()
        defer { if isLocked { flock(directory.rawValue, LOCK_UN) } }
        if isLocked { Self.removeUnused(in: directory, path: parent) }
        state = try StateDirectory(path: "\(parent)/\(Self.prefix)\(suffix)")
    }

    deinit {
        try? state.destroy()
        rmdir(state.path)
    }

    /// Removes the directories of processes that have ended: a running process holds the lock of its own.
    private static func removeUnused(in directory: FileDescriptor, path: String) {
        for name in (try? directory.names()) ?? [] where name.hasPrefix(prefix) {
            guard let unused = try? directory.openDirectory(name), let status = try? unused.status(),
                status.st_uid == geteuid(), flock(unused.rawValue, LOCK_EX | LOCK_NB) == 0
            else { continue }
            try? StateDirectory(path: "\(path)/\(name)", directory: unused).destroy()
            unlinkat(directory.rawValue, name, AT_REMOVEDIR)
        }
    }
}

extension FileDescriptor {
    /// Waits for the exclusive lock.
    /// - Returns: false on a file system without locks.
    fileprivate func waitForLock() -> Bool {
        while flock(rawValue, LOCK_EX) != 0 { if errno != EINTR { return false } }
        return true
    }
}
