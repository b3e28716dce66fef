internal import Nearshare
internal import Synchronization

/// Moves items from the spool into the inbox once the inbox is available again, and removes partial transfers from it that were
/// not resumed for too long.
final class SpoolDelivery: Sendable {
    private let inbox: Inbox
    private let state: StateDirectory
    private let reporter: any Reporter
    private let watch: InboxWatch?
    /// Whether an item has come to wait since the last attempt, which may still be locked by its transfer.
    private let hasNewItem = Atomic(false)

    /// Interval of the attempts while items wait: nothing announces that a full disk has space again.
    private static let spaceCheckInterval = Duration.seconds(5)

    /// Interval of the removal of partial transfers.
    private static let sweepInterval = Duration.seconds(3600)

    init(inbox: Inbox, state: StateDirectory, reporter: any Reporter) {
        self.inbox = inbox
        self.state = state
        self.reporter = reporter
        watch = InboxWatch(path: inbox.path)
    }

    /// Runs until the task is cancelled.
    func run() async {
        var nextSweep = SystemClock.monotonic()
        while !Task.isCancelled {
            watch?.arm()
            deliver()
            let now = SystemClock.monotonic()
            if now >= nextSweep {
                inbox.removeStaleTransfers(now: SystemClock.wall())
                nextSweep = now + Self.sweepInterval
            }
            let isWaiting = hasNewItem.exchange(false, ordering: .relaxed) || !inbox.pendingPaths.isEmpty
            await awaitChange(timeout: isWaiting ? Self.spaceCheckInterval : nextSweep - now)
        }
    }

    /// Tries again soon: an item was received that the inbox did not accept.
    func recordPendingItem() {
        hasNewItem.store(true, ordering: .relaxed)
        watch?.wake()
    }

    private func deliver() {
        for item in inbox.deliverPending() {
            if let stagedPath = item.stagedPath {
                do {
                    try ReceiveHistory(in: state).recordMove(from: stagedPath, to: item.path)
                } catch {
                    reporter.report(.warning("\(error)"))
                }
            }
            reporter.report(.delivered(item, DeliveredContent(of: item), from: nil, nil))
        }
    }

    private func awaitChange(timeout: Duration?) async {
        if let watch, (try? await watch.awaitChange(timeout: timeout)) != nil { return }
        // The kernel refuses a descriptor or a thread, so that nothing can be waited for.
        try? await Task.sleep(for: Self.spaceCheckInterval)
    }
}
