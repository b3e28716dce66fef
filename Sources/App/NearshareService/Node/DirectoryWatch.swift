internal import Glibc
internal import Nearshare

/// Waits for changes in a directory: files that are created or moved into it, and calls of ``touch(_:)``.
final class DirectoryWatch: Sendable {
    private let descriptor: Int32
    private let watch: Int32

    /// - Returns: nil when the kernel has no watches left.
    init?(_ path: String) {
        descriptor = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC))
        let events = UInt32(IN_CREATE) | UInt32(IN_MOVED_TO) | UInt32(IN_ATTRIB)
        watch = descriptor >= 0 ? inotify_add_watch(descriptor, path, events) : -1
        guard watch >= 0 else { return nil }
    }

    /// Wakes the processes that watch a directory.
    static func touch(_ path: String) {
        utimensat(AT_FDCWD, path, nil, 0)
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Returns at a change since the last call, or at the timeout. The cancellation of the task ends the watch.
    /// - Throws: `ThreadError`.
    func awaitChange(timeout: Duration) async throws {
        try await withTaskCancellationHandler {
            try await BlockingThread.run { [self] in
                _ = DescriptorPoll.wait(for: descriptor, .readable, timeout: timeout)
                var events = [UInt8](repeating: 0, count: 4_096)
                while read(descriptor, &events, events.count) > 0 {}
            }
        } onCancel: {
            // The last event of a watch wakes its thread.
            inotify_rm_watch(descriptor, watch)
        }
    }
}
