package import Nearshare

extension StateDirectory {
    /// Removes the identity and all other state, see ``destroy()``, after the node has ended that may still use it.
    /// - Parameters:
    ///   - node: the process of the node, which is shutting down; nil for a node of this process.
    ///   - timeout: for its end.
    /// - Throws: ``CommandFailure`` without any change when the node runs on.
    package func destroy(after node: ProcessHandle?, timeout: Duration = .seconds(10)) async throws {
        if let node, try await !BlockingThread.run({ node.awaitEnd(timeout: timeout) }) {
            throw CommandFailure(
                .failure,
                "nothing is removed yet: the running node (process \(node.id)) does not end; end it with `kill -9 \(node.id)`, and "
                    + "then run `nearshare identity destroy`")
        }
        try destroy()
    }
}
