internal import Glibc
internal import Nearshare

/// Waits for changes in a directory: files that are created or moved into it, and calls of ``touch(_:)``.
final class DirectoryWatch: Sendable {
    private let events = DirectoryEvents()
    private let watch: Int32

    /// - Returns: nil when the kernel has no watches left.
    init?(_ path: String) {
        watch = events.watch(path, for: IN_CREATE | IN_MOVED_TO | IN_ATTRIB)
        guard watch >= 0 else { return nil }
    }

    /// Wakes the processes that watch a directory.
    static func touch(_ path: String) {
        utimensat(AT_FDCWD, path, nil, 0)
    }

    /// Returns at a change since the last call, or at the timeout. The cancellation of the task ends the watch.
    /// - Throws: `ThreadError`.
    func awaitChange(timeout: Duration) async throws {
        try await withTaskCancellationHandler {
            try await BlockingThread.run { [self] in
                _ = DescriptorPoll.wait(for: events.descriptor, .readable, timeout: timeout)
                _ = events.read()
            }
        } onCancel: {
            // The last event of a watch wakes its thread.
            events.end(watch)
        }
    }
}
