internal import Glibc
internal import NearshareInterfaces
internal import Synchronization

/// The addresses that the kernel reports (getifaddrs(3)), and their changes (rtnetlink(7)).
package final class LinuxNetworkMonitor: NetworkMonitor {
    private static let usable = UInt32(IFF_UP | IFF_RUNNING)

    private let changes: AddressMonitor
    private let wakeup = EventFD()
    private let isClosed = Atomic(false)

    /// Returns nil where netlink is not available: then changes go unnoticed.
    package init?() {
        guard let changes = AddressMonitor() else { return nil }
        self.changes = changes
        guard wakeup.isOpen else { return nil }
    }

    package func addresses(of interface: String?) -> [String] {
        entries.filter { entry in
            // An interface that is up without a carrier, as that of containers, may have an address.
            entry.flags & Self.usable == Self.usable && entry.flags & UInt32(IFF_LOOPBACK) == 0
                && interface.map { $0 == entry.interface } ?? true
        }.map(\.host)
    }

    package func hasAddress(_ host: String) -> Bool { entries.contains { $0.host == host } }

    /// The numeric addresses of all interfaces, with the interfaces' flags.
    private var entries: [(interface: String, flags: UInt32, host: String)] {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return [] }
        defer { freeifaddrs(list) }
        var found: [(interface: String, flags: UInt32, host: String)] = []
        for entry in sequence(first: list, next: { $0?.pointee.ifa_next }) {
            guard let entry = entry?.pointee, let rawName = entry.ifa_name, let raw = entry.ifa_addr else { continue }
            let family = Int32(raw.pointee.sa_family)
            guard family == AF_INET || family == AF_INET6 else { continue }
            let length = family == AF_INET ? MemoryLayout<sockaddr_in>.size : MemoryLayout<sockaddr_in6>.size
            // getnameinfo(3) writes the zone of a link-local address.
            if let host = SocketAddress(raw, length: socklen_t(length)).linkAddress?.host {
                found.append((String(cString: rawName), entry.ifa_flags, host))
            }
        }
        return found
    }

    package func waitForChange() -> Bool {
        while !isClosed.load(ordering: .acquiring) {
            let events = DescriptorPoll.wait(for: changes.descriptor, .readable, wakeup: wakeup, timeout: nil)
            guard !isClosed.load(ordering: .acquiring) else { return false }
            guard events.contains(.readable) else { continue }
            changes.drain()
            return true
        }
        return false
    }

    package func close() {
        isClosed.store(true, ordering: .releasing)
        wakeup.signal()
    }
}
