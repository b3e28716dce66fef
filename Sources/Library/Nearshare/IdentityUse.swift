internal import NearshareBase
internal import NearshareStorage
internal import Synchronization

/// The use of an identity by nodes of this process. Two processes with one key would be one peer with two addresses, so that only
/// one of them has the identity of an application at a time, and only one takes part in sessions with that of the user.
final class IdentityUse: Sendable {
    /// The nodes that a lock covers: only one process at a time may use the identity for them.
    enum Scope: Sendable {
        /// All nodes.
        case nodes
        /// The nodes that take part in sessions.
        case sessions
    }

    private struct Key: Hashable {
        let path: String
        let scope: Scope
    }

    /// The locks that this process holds, and the number of their uses.
    private static let locks = Mutex<[Key: (lock: ProcessLock, useCount: Int)]>([:])

    private let key: Key

    /// - Throws: `StorageError` while another process uses the identity.
    init(_ state: StateDirectory, for scope: Scope) throws(StorageError) {
        let key = Key(path: state.path, scope: scope)
        try Self.locks.withLock { (locks) throws(StorageError) in
            if let held = locks[key] {
                locks[key] = (held.lock, held.useCount + 1)
                return
            }
            guard let lock = try IdentityUse.acquireLock(of: state, for: scope) else {
                throw try IdentityUse.refusal(state, for: scope)
            }
            locks[key] = (lock, 1)
        }
        // Assigned last: an initializer that throws after all properties are set runs deinit, which would release the lock of
        // another instance.
        self.key = key
    }

    deinit {
        Self.locks.withLock { locks in
            guard let held = locks[key] else { return }
            locks[key] = held.useCount > 1 ? (held.lock, held.useCount - 1) : nil
        }
    }

    private static func acquireLock(of state: StateDirectory, for scope: Scope) throws(StorageError) -> ProcessLock? {
        switch scope {
        case .nodes: try state.acquireNodeLock()
        case .sessions: try state.acquireSessionLock()
        }
    }

    private static func refusal(_ state: StateDirectory, for scope: Scope) throws(StorageError) -> StorageError {
        switch scope {
        case .nodes:
            let process = processText(try state.nodeProcessID())
            let name = TerminalText.escaped(state.path.pathComponents.last ?? state.path)
            return StorageError(
                .failed,
                "a node of \(process) has the identity of the application \(name); end it, or use "
                    + "another identity, such as an ephemeral one")
        case .sessions:
            let process = processText(try state.sessionProcessID())
            return StorageError(
                .failed,
                "\(process) takes part in sessions with the identity of the user; end it, or use "
                    + "another identity: that of an application (.application), or an ephemeral one (.ephemeral)")
        }
    }

    /// - Parameter id: 0 or nil where it is not known.
    private static func processText(_ id: Int32?) -> String {
        id.flatMap { $0 > 0 ? "process \($0)" : nil } ?? "another process"
    }
}
