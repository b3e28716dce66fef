internal import NearshareBase
internal import NearshareStorage
internal import Synchronization

/// The use of an application's identity by nodes of this process. Two processes with one key would be one peer with two addresses,
/// so that only one of them has the identity at a time.
final class ApplicationUse: Sendable {
    /// The locks that this process holds, by the paths of their directories, and the number of their uses.
    private static let locks = Mutex<[String: (lock: ProcessLock, useCount: Int)]>([:])

    private let path: String

    /// - Throws: `StorageError` while another process uses the identity.
    init(_ state: StateDirectory) throws(StorageError) {
        path = state.path
        try Self.locks.withLock { (locks) throws(StorageError) in
            if let held = locks[state.path] {
                locks[state.path] = (held.lock, held.useCount + 1)
                return
            }
            guard let lock = try state.acquireNodeLock() else {
                let process = try state.nodeProcessID().map { "process \($0)" } ?? "another process"
                let name = TerminalText.escaped(state.path.pathComponents.last ?? state.path)
                throw StorageError(
                    .failed,
                    "a node of \(process) has the identity of the application \(name); end it, or use another identity, such as "
                        + "an ephemeral one")
            }
            locks[state.path] = (lock, 1)
        }
    }

    deinit {
        Self.locks.withLock { locks in
            guard let held = locks[path] else { return }
            locks[path] = held.useCount > 1 ? (held.lock, held.useCount - 1) : nil
        }
    }
}
