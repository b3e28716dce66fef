internal import Glibc
internal import NearshareInterfaces
internal import Synchronization

/// Changes of the files that contacts are read from: the trust store and the address book (inotify(7)).
package final class ContactMonitor: FileMonitor {
    private static let names: Set<String> = [StateDirectory.trustFileName, StateDirectory.contactFileName]
    /// Interval at which the files may have changed where the kernel has no watches left, or has removed this one.
    private static let unwatchedInterval = Duration.seconds(10)

    private let changes: Int32
    /// Whether the kernel reports changes.
    private let isWatched: Atomic<Bool>
    private let wakeup = EventFD()
    private let isClosed = Atomic(false)

    /// - Returns: nil where the process has no descriptor left.
    package init?(of directory: StateDirectory) {
        changes = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC))
        // The files are replaced by others; a user may write over one, or move one away.
        let events = IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CLOSE_WRITE
        let watch = changes >= 0 ? inotify_add_watch(changes, directory.path, UInt32(events)) : -1
        isWatched = Atomic(watch >= 0)
        guard wakeup.isOpen else { return nil }
    }

    deinit { if changes >= 0 { Glibc.close(changes) } }

    /// The interval at which the files may have changed; nil while the kernel reports changes.
    var interval: Duration? { isWatched.load(ordering: .relaxed) ? nil : Self.unwatchedInterval }

    package func waitForChange() -> Bool {
        while !isClosed.load(ordering: .acquiring) {
            let interval = self.interval
            let events = DescriptorPoll.wait(for: changes, .readable, wakeup: wakeup, timeout: interval)
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
        var events = [UInt8](repeating: 0, count: 4_096)
        while true {
            let count = read(changes, &events, events.count)
            guard count > 0 else { return isRelevant }
            events.withUnsafeBytes { raw in
                var position = 0
                // The kernel writes whole events: a header, and a name that zeros follow. An event without a name says that others
                // were lost, or that the directory is gone.
                while position + MemoryLayout<inotify_event>.size <= count {
                    let event = raw.loadUnaligned(fromByteOffset: position, as: inotify_event.self)
                    position += MemoryLayout<inotify_event>.size
                    // The directory was deleted, or its file system unmounted.
                    if event.mask & UInt32(IN_IGNORED) != 0 { isWatched.store(false, ordering: .relaxed) }
                    let end = min(position + Int(event.len), count)
                    let name = String(decoding: raw[position..<end].prefix(while: { $0 != 0 }), as: UTF8.self)
                    if name.isEmpty || Self.names.contains(name) { isRelevant = true }
                    position = end
                }
            }
        }
    }
}
