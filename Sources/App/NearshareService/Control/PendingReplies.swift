internal import Nearshare
internal import Synchronization

/// The requests of one connection that are being answered. The connection is not closed before their replies are queued: the
/// reply to ``ControlRequest/stop`` comes when the node has ended already.
final class PendingReplies: Sendable {
    private let count = Mutex(0)
    private let change = AsyncCondition()

    func begin() {
        count.withLock { $0 += 1 }
    }

    func end() {
        count.withLock { $0 -= 1 }
        change.notifyAll()
    }

    /// Waits until all replies are queued, or the task is cancelled.
    func waitUntilNone() async {
        await change.wait { isEmpty }
    }

    private var isEmpty: Bool { count.withLock { $0 == 0 } }
}
