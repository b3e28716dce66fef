internal import Glibc
internal import NearshareInterfaces
internal import Synchronization

/// Changes of the files that contacts are read from: the trust store and the address book (inotify(7)).
package final class ContactMonitor: FileMonitor {
    private static let names: Set<String> = [StateDirectory.trustFileName, StateDirectory.contactFileName]
    /// Interval at which the files may have changed where the kernel has no watches left, or has removed this one.
    private static let unwatchedInterval = Duration.seconds(10)

    private let changes = DirectoryEvents()
    /// Whether the kernel reports changes.
    private let isWatched: Atomic<Bool>
    private let wakeup = EventFD()
    private let isClosed = Atomic(false)

    /// - Returns: nil where the process has no descriptor left.
    package init?(of directory: StateDirectory) {
        // The files are replaced by others; a user may write over one, or move one away.
        let watch = changes.watch(directory.path, for: IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CLOSE_WRITE)
        isWatched = Atomic(watch >= 0)
        guard wakeup.isOpen else { return nil }
    }

    /// The interval at which the files may have changed; nil while the kernel reports changes.
    var interval: Duration? { isWatched.load(ordering: .relaxed) ? nil : Self.unwatchedInterval }

    package func waitForChange() -> Bool {
        while !isClosed.load(ordering: .acquiring) {
            let interval = self.interval
            let events = DescriptorPoll.wait(for: changes.descriptor, .readable, wakeup: wakeup, timeout: interval)
            guard !isClosed.load(ordering: .acquiring) else { return false }
            if interval != nil || (events.contains(.readable) && readChanges()) { return true }
        }
        return false
    }

    package func close() {
        isClosed.store(true, ordering: .releasing)
        wakeup.signal()
    }

    /// Reads the events that wait, without blocking.
    /// - Returns: whether one of them is about the files.
    func readChanges() -> Bool {
        var isRelevant = false
        for event in changes.read() {
            // The directory was deleted, or its file system unmounted.
            if event.isAny(of: IN_IGNORED) { isWatched.store(false, ordering: .relaxed) }
            if event.name.isEmpty || Self.names.contains(String(decoding: event.name, as: UTF8.self)) { isRelevant = true }
        }
        return isRelevant
    }
}
