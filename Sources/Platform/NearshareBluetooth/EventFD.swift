internal import CNearshareShims
internal import Glibc

/// Wakes whoever polls its descriptor. Rung once, it stays so.
final class EventFD: Sendable {
    /// -1 where the process has no descriptors left: poll(2) ignores it, and what waits is woken by its link's end instead.
    let descriptor = nearshare_event()

    func ring() {
        var one: UInt64 = 1
        _ = write(descriptor, &one, MemoryLayout<UInt64>.size)
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }
}
