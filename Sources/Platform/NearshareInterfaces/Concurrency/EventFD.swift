internal import CNearshareShims
internal import Glibc

/// A wake-up descriptor (eventfd(2)): readable from ``signal()`` to ``reset()``.
package final class EventFD: Sendable {
    /// The descriptor for poll(2); -1, which poll(2) ignores, where the process has no descriptors left.
    package let descriptor: Int32

    package init() { descriptor = nearshare_eventfd() }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    /// Whether there is a descriptor to wait for.
    package var isOpen: Bool { descriptor >= 0 }

    /// Makes the descriptor readable. Safe to call from any thread, any number of times.
    package func signal() {
        var one: UInt64 = 1
        // A full counter means that the descriptor is readable already.
        _ = write(descriptor, &one, MemoryLayout<UInt64>.size)
    }

    /// Makes the descriptor unreadable again.
    package func reset() {
        var count: UInt64 = 0
        _ = read(descriptor, &count, MemoryLayout<UInt64>.size)
    }
}
