internal import Nearshare
internal import Synchronization

/// Moves items from the spool into the inbox once the inbox is available again, and removes partial transfers from it that were
/// not resumed for too long.
final class SpoolDelivery: Sendable {
    private let inbox: Inbox
    private let machine: LocalMachine
    private let reporter: any Reporter
    private let watch: InboxWatch?
    /// Whether an item has come to wait since the last attempt, which may still be locked by its transfer.
    private let hasNewItem = Atomic(false)
    /// The time of the next sweep, at first a time that has passed.
    private let nextSweep = Mutex(MonotonicInstant(nanoseconds: 0))

    /// Items that wait for space, and have been reported.
    private let reportedPaths = Mutex<Set<String>>([])

    /// Least interval of the attempts while items wait: nothing announces that a full disk has space again.
    private static let spaceCheckInterval = Duration.seconds(5)
    /// The interval as a multiple of the time that the last attempt took, so that many waiting items do not keep a processor busy.
    private static let intervalFactor = 50

    /// Interval of the removal of partial transfers.
    private static let sweepInterval = Duration.seconds(3600)

    init(inbox: Inbox, machine: LocalMachine, reporter: any Reporter) {
        self.inbox = inbox
        self.machine = machine
        self.reporter = reporter
        watch = InboxWatch(path: inbox.path)
    }

    /// Runs until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            watch?.arm()
            let begun = SystemClock.monotonic()
            let timeout = attempt(at: Moment(monotonic: begun, wall: SystemClock.wall()))
            let pause = (SystemClock.monotonic() - begun) * Self.intervalFactor
            await awaitChange(timeout: max(timeout, min(pause, Self.sweepInterval)))
        }
    }

    /// Delivers what the inbox accepts again, and sweeps partial transfers when that is due.
    /// - Returns: the time until the next attempt, unless something changes before.
    func attempt(at now: Moment) -> Duration {
        deliver()
        let untilSweep = nextSweep.withLock { nextSweep in
            if now.monotonic >= nextSweep {
                inbox.removeStaleTransfers(now: now.wall)
                nextSweep = now.monotonic + Self.sweepInterval
            }
            return nextSweep - now.monotonic
        }
        let paths = inbox.pendingPaths
        reportItemsWithoutSpace(paths)
        let isWaiting = hasNewItem.exchange(false, ordering: .relaxed) || !paths.isEmpty
        return isWaiting ? Self.spaceCheckInterval : untilSweep
    }

    /// Reports, once, the items that wait because the inbox has no room for them.
    /// - Parameter paths: of all items that wait.
    private func reportItemsWithoutSpace(_ paths: [String]) {
        let isKnown = reportedPaths.withLock { reported in
            reported.formIntersection(paths)
            return reported.isSuperset(of: paths)
        }
        guard !isKnown else { return }
        let items = inbox.pendingItems.filter { item in
            item.insufficientSpace != nil && reportedPaths.withLock { $0.insert(item.path).inserted }
        }
        if let sentence = PendingItemText.sentence(for: items) { reporter.report(.warning(sentence)) }
    }

    /// Tries again soon: an item was received that the inbox did not accept.
    func recordPendingItem() {
        hasNewItem.store(true, ordering: .relaxed)
        watch?.wake()
    }

    private func deliver() {
        let items = inbox.deliverPending()
        guard !items.isEmpty else { return }
        let history = ReceiveHistory(in: machine.state)
        let entries = Dictionary(((try? history.entries()) ?? []).map { ($0.path, $0) }, uniquingKeysWith: { $1 })
        for item in items {
            let entry = item.stagedPath.flatMap { entries[$0] }
            if let stagedPath = item.stagedPath {
                do {
                    try history.recordMove(from: stagedPath, to: item.path, isFriend: machine.isFriend)
                } catch {
                    reporter.report(.warning("\(error)"))
                }
            }
            // The content of a recorded item was shown when the item was received. An item whose receiver was killed is not recorded.
            let content = entry == nil ? DeliveredContent(of: item) : .notShown
            reporter.report(.delivered(item, content, from: entry.map { machine.sender(of: $0) }, nil))
        }
    }

    private func awaitChange(timeout: Duration) async {
        if let watch, (try? await watch.awaitChange(timeout: timeout)) != nil { return }
        // Timed: the kernel refuses a descriptor or a thread, so that nothing can be waited for.
        try? await Task.sleep(for: Self.spaceCheckInterval)
    }
}
