internal import Glibc
internal import Nearshare
internal import Synchronization

/// Waits for events that can make an inbox accept items again: a change of the mounts, of the inbox, or of a directory above
/// it.
///
/// The kernel does not announce that space has become free, except for items that are removed from the inbox itself.
package final class InboxWatch: Sendable {
    private let path: String
    /// Changes of the watched directory.
    private let changes = DirectoryEvents()
    /// The table of mounts, whose changes poll(2) reports (proc_pid_mountinfo(5)).
    private let mounts: Int32
    private let wakeup = EventFD()
    /// The watched directory: the inbox, or the nearest one above it that exists.
    private let watched = Mutex<Int32>(-1)

    /// - Parameter path: absolute.
    /// - Returns: nil where the kernel has no descriptor left.
    package init?(path: String) {
        self.path = path
        mounts = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)
        guard changes.descriptor >= 0, mounts >= 0, wakeup.isOpen else { return nil }
    }

    deinit { if mounts >= 0 { close(mounts) } }

    /// Watches the inbox, or the directory in which a part of its path is missing. Called before each attempt to use the inbox,
    /// so that no later change is missed.
    package func arm() {
        watched.withLock { watched in
            if watched >= 0 { changes.end(watched) }
            watched = changes.watch(path, for: IN_ATTRIB | IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF)
            var parts = path.pathComponents
            while watched < 0, !parts.isEmpty {
                parts.removeLast()
                let above = IN_ATTRIB | IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF
                watched = changes.watch("/" + parts.joined(separator: "/"), for: above)
            }
        }
        // Those of an earlier watch, such as its own end.
        _ = changes.read()
    }

    /// Ends the current wait, or the next one.
    package func wake() { wakeup.signal() }

    /// Waits for a change since ``arm()``, a call of ``wake()``, or the cancellation of the task.
    /// - Parameter timeout: nil for none.
    /// - Returns: false when the time was over first.
    /// - Throws: `ThreadError`.
    package func awaitChange(timeout: Duration?) async throws -> Bool {
        try await withTaskCancellationHandler {
            try await BlockingThread.run { [self] in
                let end = timeout.map { SystemClock.monotonic() + $0 }
                while true {
                    let events = DescriptorPoll.wait(
                        for: [(changes.descriptor, .readable), (mounts, .priority), (wakeup.descriptor, .readable)],
                        timeout: end.map { max($0 - SystemClock.monotonic(), .zero) })
                    wakeup.reset()
                    guard events.contains(where: { !$0.isEmpty }) else { return false }
                    if events.dropFirst().contains(where: { !$0.isEmpty }) || readChanges() { return true }
                }
            }
        } onCancel: {
            wakeup.signal()
        }
    }

    /// - Returns: whether one of the changes can make the inbox accept items. Changed attributes of what is in the directory
    ///   cannot; the staging area in it changes its own while it is used.
    private func readChanges() -> Bool { changes.read().contains { !$0.isAny(of: IN_ATTRIB) || $0.name.isEmpty } }
}
