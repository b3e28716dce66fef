internal import CAvahi
internal import Glibc
internal import NearshareInterfaces

/// Avahi's own event loop (AvahiSimplePoll), and the watches on it.
final class AvahiPollLoop {
    private let poll: OpaquePointer
    /// For functions of avahi that take an event loop.
    let api: UnsafePointer<AvahiPoll>
    private var watches: [OpaquePointer] = []
    private var isClosed = false

    init() throws(DiscoveryError) {
        guard let poll = avahi_simple_poll_new() else { throw DiscoveryError("could not start discovery: out of memory") }
        guard let api = avahi_simple_poll_get(poll) else {
            avahi_simple_poll_free(poll)
            throw DiscoveryError("could not start discovery: avahi has no event loop")
        }
        self.poll = poll
        self.api = api
    }

    deinit { close() }

    /// Calls back when the descriptor is readable.
    func watch(
        _ descriptor: Int32, _ callback: @escaping AvahiWatchCallback, _ context: UnsafeMutableRawPointer
    ) throws(DiscoveryError) {
        guard let watch = api.pointee.watch_new(api, descriptor, AVAHI_WATCH_IN, callback, context) else {
            throw DiscoveryError("could not start discovery: out of memory")
        }
        watches.append(watch)
    }

    /// Waits for events, and handles them.
    /// - Parameter timeout: nil for none.
    func iterate(timeout: Duration?) {
        guard avahi_simple_poll_iterate(poll, timeout.map { DescriptorPoll.milliseconds($0) } ?? -1) < 0 else { return }
        // Timed: it fails for lack of memory, of which there may be some in a moment.
        usleep(100_000)
    }

    func close() {
        guard !isClosed else { return }
        isClosed = true
        watches.forEach(api.pointee.watch_free)
        avahi_simple_poll_free(poll)
    }
}
