internal import CNearshareShims
internal import Glibc
package import NearshareInterfaces

/// A process of this user whose end can be waited for, by its descriptor (pidfd_open(2)).
package final class ProcessHandle: Sendable {
    package let id: Int32
    private let descriptor: FileDescriptor

    /// - Returns: nil when there is no such process, or the kernel has no such descriptors.
    init?(_ id: Int32) {
        let raw = nearshare_pidfd_open(id)
        guard raw >= 0 else { return nil }
        descriptor = FileDescriptor(owning: raw)
        self.id = id
    }

    /// Blocks until the process has ended and the kernel has released its locks, or time is over.
    /// - Returns: whether it has ended.
    @discardableResult
    package func awaitEnd(timeout: Duration) -> Bool {
        DescriptorPoll.wait(for: descriptor.rawValue, .readable, timeout: timeout).contains(.readable)
    }
}

extension StateDirectory {
    /// The process that runs the node, if it is another one; nil where none does.
    package func otherNodeProcess() throws(StorageError) -> ProcessHandle? {
        guard let id = try nodeProcessID(), id > 0, id != getpid(), let process = ProcessHandle(id) else { return nil }
        // The id may have been that of a process that has ended meanwhile.
        return try nodeProcessID() == id ? process : nil
    }
}
