internal import Synchronization

#if canImport(Darwin)
    internal import Darwin
#else
    internal import Glibc
#endif

/// A descriptor in reserve for a listener. When the process has none left, it is closed so that a waiting connection can be
/// accepted and dropped; otherwise accept(2) would fail for it again and again.
package final class SpareDescriptor: Sendable {
    private let descriptor = Mutex(open())

    package init() {}

    deinit {
        descriptor.withLock { descriptor in
            if descriptor >= 0 { close(descriptor) }
        }
    }

    /// Drops one waiting connection.
    /// - Parameter accept: accepts it, and returns its descriptor; a negative number when that fails.
    package func dropConnection(_ accept: () -> Int32) {
        let isReplaced = descriptor.withLock { descriptor in
            if descriptor >= 0 { close(descriptor) }
            let dropped = accept()
            if dropped >= 0 { close(dropped) }
            descriptor = Self.open()
            return descriptor >= 0
        }
        // Another thread has taken the descriptor. Nothing signals that one is free again, and until then accept(2) fails at
        // once: the pause bounds the rate of the attempts.
        if !isReplaced { poll(nil, 0, 100) }
    }

    private static func open() -> Int32 {
        #if canImport(Darwin)
            let descriptor = socket(AF_UNIX, SOCK_DGRAM, 0)
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            return descriptor
        #else
            return socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        #endif
    }
}
