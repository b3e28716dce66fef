#if canImport(Darwin)
    internal import Darwin
#else
    internal import CNearshareShims
    internal import Glibc
#endif

/// A wake-up descriptor (eventfd(2)): readable from ``signal()`` to ``reset()``.
package final class EventFD: Sendable {
    /// The descriptor for poll(2); -1, which poll(2) ignores, where the process has no descriptors left.
    package let descriptor: Int32
    /// The descriptor that ``signal()`` writes to: the other end of a pipe where there is no eventfd(2).
    private let writableDescriptor: Int32

    #if canImport(Darwin)
        package init() {
            var ends: [Int32] = [-1, -1]
            if pipe(&ends) == 0 {
                for end in ends {
                    _ = fcntl(end, F_SETFL, O_NONBLOCK)
                    _ = fcntl(end, F_SETFD, FD_CLOEXEC)
                }
            }
            (descriptor, writableDescriptor) = (ends[0], ends[1])
        }
    #else
        package init() {
            descriptor = nearshare_eventfd()
            writableDescriptor = descriptor
        }
    #endif

    deinit {
        if descriptor >= 0 { close(descriptor) }
        if writableDescriptor != descriptor { close(writableDescriptor) }
    }

    /// Whether there is a descriptor to wait for.
    package var isOpen: Bool { descriptor >= 0 }

    /// Makes the descriptor readable. Safe to call from any thread, any number of times.
    package func signal() {
        var one: UInt64 = 1
        // A full counter or pipe means that the descriptor is readable already.
        _ = write(writableDescriptor, &one, MemoryLayout<UInt64>.size)
    }

    /// Makes the descriptor unreadable again.
    package func reset() {
        var count: UInt64 = 0
        #if canImport(Darwin)
            // Each signal is in the pipe.
            while read(descriptor, &count, MemoryLayout<UInt64>.size) > 0 {}
        #else
            _ = read(descriptor, &count, MemoryLayout<UInt64>.size)
        #endif
    }
}
