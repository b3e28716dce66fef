internal import Synchronization

/// A flag that ends a long reading of files from another thread.
package final class Cancellation: Sendable {
    private let isCancelled = Atomic(false)

    package init() {}

    package func cancel() { isCancelled.store(true, ordering: .relaxed) }

    package func check() throws(StorageError) {
        if isCancelled.load(ordering: .relaxed) { throw StorageError(.failed, "reading was cancelled") }
    }
}
