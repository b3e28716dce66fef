internal import Glibc
package import NearshareInterfaces

/// The lock of the only process of this user that has a role, such as that of the node, which relays messages and serves other
/// commands. The kernel releases it when the process ends.
package final class ProcessLock: Sendable {
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
    /// Acquires the lock of the node, and stores the process id in its file.
    /// - Returns: nil while another process holds it.
    package func acquireNodeLock() throws(StorageError) -> ProcessLock? { try acquireLock(Self.nodeLockName) }

    /// The id of the process that runs the node, 0 if it is not known; nil when no process does.
    package func nodeProcessID() throws(StorageError) -> Int32? { try processID(lockedBy: Self.nodeLockName) }

    /// Acquires the lock of the process whose nodes take part in sessions, and stores the process id in its file.
    /// - Returns: nil while another process holds it.
    package func acquireSessionLock() throws(StorageError) -> ProcessLock? { try acquireLock(Self.sessionLockName) }

    /// The id of the process whose nodes take part in sessions, 0 if it is not known; nil when no process's do.
    package func sessionProcessID() throws(StorageError) -> Int32? { try processID(lockedBy: Self.sessionLockName) }

    /// Acquires the lock of the process that shows notifications, and stores the process id in its file.
    /// - Returns: nil while another process holds it.
    package func acquireNotificationLock() throws(StorageError) -> ProcessLock? {
        try acquireLock(Self.notificationLockName)
    }

    /// The id of the process that shows notifications, 0 if it is not known; nil when no process does.
    package func notificationProcessID() throws(StorageError) -> Int32? {
        try processID(lockedBy: Self.notificationLockName)
    }

    private func acquireLock(_ name: String) throws(StorageError) -> ProcessLock? {
        let file = try openForLocking(name)
        guard flock(file.rawValue, LOCK_EX | LOCK_NB) == 0 else {
            guard errno == EWOULDBLOCK else { throw StorageError(errno, "could not lock the state directory") }
            return nil
        }
        let line = Array("\(getpid())\n".utf8)
        ftruncate(file.rawValue, 0)
        try file.write(line)
        return ProcessLock(file)
    }

    private func processID(lockedBy name: String) throws(StorageError) -> Int32? {
        let file = try openForLocking(name)
        guard flock(file.rawValue, LOCK_SH | LOCK_NB) != 0 else {
            flock(file.rawValue, LOCK_UN)
            return nil
        }
        let text = String(decoding: try file.read(upTo: 32), as: UTF8.self)
        return Int32(text.prefix { $0.isNumber }) ?? 0
    }
}
