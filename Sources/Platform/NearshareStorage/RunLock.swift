internal import Glibc
package import NearshareInterfaces

/// Held by the process that is this person's node: the one that carries messages, and that other commands go through. It ends with
/// the process, however that ends.
package final class NodeLock: Sendable {
    private let file: FileDescriptor

    init(_ file: FileDescriptor) {
        self.file = file
    }

    deinit {
        // Said, not left to closing: a child that is just being started may hold a copy of the descriptor.
        flock(file.number, LOCK_UN)
    }
}

extension StateDirectory {
    /// - Returns: nil while another process holds it.
    package func acquireNodeLock() throws(StorageError) -> NodeLock? {
        let file = try openForLocking(Self.nodeLockName)
        guard flock(file.number, LOCK_EX | LOCK_NB) == 0 else {
            guard errno == EWOULDBLOCK else { throw StorageError(errno, "can't lock the state directory") }
            return nil
        }
        let line = Array("\(getpid())\n".utf8)
        ftruncate(file.number, 0)
        try file.write(line)
        return NodeLock(file)
    }

    /// The process that holds the lock; nil when nobody does.
    package func nodeProcessID() throws(StorageError) -> Int32? {
        let file = try openForLocking(Self.nodeLockName)
        guard flock(file.number, LOCK_SH | LOCK_NB) != 0 else {
            flock(file.number, LOCK_UN)
            return nil
        }
        let text = String(decoding: try file.readAll(limit: 32), as: UTF8.self)
        return Int32(text.prefix { $0.isNumber }) ?? 0
    }
}
