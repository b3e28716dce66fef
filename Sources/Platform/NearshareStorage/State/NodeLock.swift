internal import Glibc
package import NearshareInterfaces

/// The lock of the process that runs this user's node, which relays messages and serves other commands. The kernel releases it
/// when the process ends.
package final class NodeLock: Sendable {
    private let file: FileDescriptor

    init(_ file: FileDescriptor) {
        self.file = file
    }

    deinit {
        // Unlocks explicitly: a child process that is being started may share the descriptor.
        flock(file.rawValue, LOCK_UN)
    }
}

extension StateDirectory {
    /// Acquires the lock and stores the process id in its file.
    /// - Returns: nil while another process holds it.
    package func acquireNodeLock() throws(StorageError) -> NodeLock? {
        let file = try openForLocking(Self.nodeLockName)
        guard flock(file.rawValue, LOCK_EX | LOCK_NB) == 0 else {
            guard errno == EWOULDBLOCK else { throw StorageError(errno, "could not lock the state directory") }
            return nil
        }
        let line = Array("\(getpid())\n".utf8)
        ftruncate(file.rawValue, 0)
        try file.write(line)
        return NodeLock(file)
    }

    /// The id of the process that holds the lock, 0 if it is not known; nil when no process does.
    package func nodeProcessID() throws(StorageError) -> Int32? {
        let file = try openForLocking(Self.nodeLockName)
        guard flock(file.rawValue, LOCK_SH | LOCK_NB) != 0 else {
            flock(file.rawValue, LOCK_UN)
            return nil
        }
        let text = String(decoding: try file.read(upTo: 32), as: UTF8.self)
        return Int32(text.prefix { $0.isNumber }) ?? 0
    }
}
