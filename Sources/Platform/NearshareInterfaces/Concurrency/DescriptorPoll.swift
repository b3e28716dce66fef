#if canImport(Darwin)
    internal import Darwin
#else
    internal import Glibc
#endif

/// poll(2) with typed events and timeouts.
package enum DescriptorPoll {
    package struct Events: OptionSet, Sendable {
        package let rawValue: Int16

        package init(rawValue: Int16) { self.rawValue = rawValue }

        package static let readable = Events(rawValue: Int16(POLLIN))
        package static let writable = Events(rawValue: Int16(POLLOUT))
        /// A change of a file below /proc.
        package static let priority = Events(rawValue: Int16(POLLPRI))
        /// Reported without being asked for: an error, a hang-up or a closed descriptor.
        package static let broken = Events(rawValue: Int16(POLLERR | POLLHUP | POLLNVAL))
    }

    /// Blocks until one of the descriptors is ready, or time is over.
    /// - Parameters:
    ///   - descriptors: negative ones are ignored.
    ///   - timeout: rounded up to milliseconds; nil for none.
    /// - Returns: the events of each descriptor, in order; all empty when time is over.
    package static func wait(for descriptors: [(descriptor: Int32, events: Events)], timeout: Duration?) -> [Events] {
        var polled = descriptors.map { pollfd(fd: $0.descriptor, events: $0.events.rawValue, revents: 0) }
        let limit = timeout.map { milliseconds($0) } ?? -1
        var readyCount: Int32
        repeat { readyCount = poll(&polled, nfds_t(polled.count), limit) } while readyCount < 0 && errno == EINTR
        return polled.map { readyCount > 0 ? Events(rawValue: $0.revents) : [] }
    }

    /// Blocks until a descriptor is ready, the wake-up descriptor is signalled, or time is over.
    /// - Returns: the events of `descriptor`.
    package static func wait(
        for descriptor: Int32, _ events: Events, wakeup: EventFD? = nil, timeout: Duration?
    ) -> Events {
        var descriptors = [(descriptor: descriptor, events: events)]
        if let wakeup { descriptors.append((wakeup.descriptor, .readable)) }
        return wait(for: descriptors, timeout: timeout).first ?? []
    }

    /// The timeout in the form of poll(2), rounded up so that it has passed afterwards.
    package static func milliseconds(_ timeout: Duration) -> Int32 {
        let (seconds, attoseconds) = timeout.components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        let fraction = (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000
        return overflow ? .max : Int32(clamping: whole + fraction)
    }
}
