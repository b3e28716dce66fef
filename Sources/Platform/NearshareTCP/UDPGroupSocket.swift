internal import Glibc
package import NearshareBase
package import NearshareInterfaces
internal import Synchronization

/// Multicast groups over UDP and IPv4.
package struct UDPGroupTransport: GroupTransport {
    package init() {}

    package func open(group: IPAddress, port: UInt16, interface: String?) throws(LinkError) -> any GroupSocket {
        try UDPGroupSocket(group: group, port: port, interface: interface)
    }
}

/// A UDP socket that shares its port with other programs.
final class UDPGroupSocket: GroupSocket {
    private let descriptor: Int32
    private let group: in_addr
    private let port: UInt16
    private let interface: String?
    private let isClosed = Atomic(false)

    init(group: IPAddress, port: UInt16, interface: String?) throws(LinkError) {
        guard case .v4(let number) = group else {
            throw LinkError(.unavailable, "multicast groups of IPv6 are not supported")
        }
        descriptor = socket(AF_INET, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw LinkError(.unavailable, "could not create a socket: \(systemErrorText())") }
        (self.group, self.port, self.interface) = (in_addr(s_addr: number.bigEndian), port, interface)
        _ = SocketCalls.setOption(descriptor, SOL_SOCKET, SO_REUSEADDR, 1)
        _ = SocketCalls.setOption(descriptor, SOL_SOCKET, SO_REUSEPORT, 1)
        // Other programs of this machine are in the group, too. Datagrams of groups that others have joined are not wanted.
        _ = SocketCalls.setOption(descriptor, Int32(IPPROTO_IP), IP_MULTICAST_LOOP, 1)
        _ = SocketCalls.setOption(descriptor, Int32(IPPROTO_IP), IP_MULTICAST_ALL, 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        let isBound = Self.withRaw(address) { Glibc.bind(descriptor, $0, $1) } == 0
        guard isBound else {
            throw errno == EADDRINUSE
                ? LinkError.portInUse(port)
                : LinkError(.unavailable, "could not open UDP port \(port): \(systemErrorText())")
        }
        for index in interfaces() { join(index) }
    }

    deinit { Glibc.close(descriptor) }

    func sendToAll(_ bytes: [UInt8]) {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr = group
        for index in interfaces() {
            join(index)
            setOption(IP_MULTICAST_IF, index)
            _ = Self.withRaw(address) { sendto(descriptor, bytes, bytes.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL), $0, $1) }
        }
    }

    func receive(upTo limit: Int) -> (bytes: [UInt8], from: LinkAddress)? {
        var buffer = [UInt8](repeating: 0, count: limit)
        while true {
            var count = -1
            let source = SocketAddress { raw, length in
                count = recvfrom(descriptor, &buffer, limit, 0, raw, length)
                return count >= 0
            }
            if isClosed.load(ordering: .acquiring) { return nil }
            // Errors concern datagrams that were sent before, which may be lost.
            guard count > 0, let from = source?.linkAddress else { continue }
            return (Array(buffer[..<count]), from)
        }
    }

    func close() {
        isClosed.store(true, ordering: .releasing)
        // Wakes recvfrom(2) although the socket is not connected.
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    /// Joins the group on an interface. It fails where that was done before.
    private func join(_ index: Int32) { setOption(IP_ADD_MEMBERSHIP, index) }

    private func setOption(_ name: Int32, _ index: Int32) {
        var request = ip_mreqn()
        request.imr_multiaddr = group
        request.imr_ifindex = index
        setsockopt(descriptor, Int32(IPPROTO_IP), name, &request, socklen_t(MemoryLayout<ip_mreqn>.size))
    }

    /// The indices of the interfaces with IPv4 and multicast.
    private func interfaces() -> Set<Int32> {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return [] }
        defer { freeifaddrs(list) }
        var found: Set<Int32> = []
        for entry in sequence(first: list, next: { $0?.pointee.ifa_next }) {
            guard let entry = entry?.pointee, let rawName = entry.ifa_name, let raw = entry.ifa_addr else { continue }
            let flags = entry.ifa_flags
            let isUsable = flags & UInt32(IFF_UP) != 0 && flags & UInt32(IFF_MULTICAST | IFF_LOOPBACK) != 0
            guard isUsable, Int32(raw.pointee.sa_family) == AF_INET else { continue }
            if let interface, interface != String(cString: rawName) { continue }
            found.insert(Int32(clamping: if_nametoindex(rawName)))
        }
        return found
    }

    private static func withRaw<Result>(
        _ address: sockaddr_in, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result {
        withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
