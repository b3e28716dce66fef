internal import Glibc
package import NearshareBase
package import NearshareInterfaces
internal import Synchronization

/// Multicast groups over UDP, of IPv4 and IPv6.
package struct UDPGroupTransport: GroupTransport {
    package init() {}

    package func open(group: IPAddress, port: UInt16, interface: String?) throws(LinkError) -> any GroupSocket {
        try UDPGroupSocket(group: group, port: port, interface: interface)
    }
}

/// A UDP socket that shares its port with other programs.
final class UDPGroupSocket: GroupSocket {
    private let descriptor: Int32
    private let group: IPAddress
    private let port: UInt16
    private let interface: String?
    private let isClosed = Atomic(false)
    /// Held while a datagram is sent, because the interface for it is an option of the socket.
    private let sendLock = Mutex(())

    /// Not among Glibc's constants (`linux/in6.h`).
    private static let ipv6MulticastAll: Int32 = 29

    /// Bounds datagrams on container hosts with hundreds of veth interfaces. Linux lets a socket join 20 groups of IPv4.
    private static let maximumInterfaceCount = 16

    init(group: IPAddress, port: UInt16, interface: String?) throws(LinkError) {
        (self.group, self.port, self.interface) = (group, port, interface)
        let family = group.isIPv6 ? AF_INET6 : AF_INET
        descriptor = socket(family, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw LinkError(.unavailable, "could not create a socket: \(systemErrorText())") }
        _ = SocketCalls.setOption(SO_REUSEADDR, level: SOL_SOCKET, to: 1, of: descriptor)
        _ = SocketCalls.setOption(SO_REUSEPORT, level: SOL_SOCKET, to: 1, of: descriptor)
        if group.isIPv6 {
            // The socket of IPv4 has the same port.
            _ = SocketCalls.setOption(IPV6_V6ONLY, level: Int32(IPPROTO_IPV6), to: 1, of: descriptor)
            // Other programs of this machine are in the group, too.
            _ = SocketCalls.setOption(IPV6_MULTICAST_LOOP, level: Int32(IPPROTO_IPV6), to: 1, of: descriptor)
            // No datagrams of groups that only other programs have joined.
            _ = SocketCalls.setOption(Self.ipv6MulticastAll, level: Int32(IPPROTO_IPV6), to: 0, of: descriptor)
        } else {
            // Both as for IPv6.
            _ = SocketCalls.setOption(IP_MULTICAST_LOOP, level: Int32(IPPROTO_IP), to: 1, of: descriptor)
            _ = SocketCalls.setOption(IP_MULTICAST_ALL, level: Int32(IPPROTO_IP), to: 0, of: descriptor)
        }
        let isBound = withAddress(of: nil, on: 0) { Glibc.bind(descriptor, $0, $1) } == 0
        guard isBound else {
            throw errno == EADDRINUSE
                ? LinkError.portInUse(port)
                : LinkError(.unavailable, "could not open UDP port \(port): \(systemErrorText())")
        }
        for index in interfaces() { join(index) }
    }

    deinit { Glibc.close(descriptor) }

    func sendToAll(_ bytes: [UInt8]) {
        for index in interfaces() {
            join(index)
            sendLock.withLock { _ in send(bytes, on: index) }
        }
    }

    private func send(_ bytes: [UInt8], on index: Int32) {
        if group.isIPv6 {
            _ = SocketCalls.setOption(IPV6_MULTICAST_IF, level: Int32(IPPROTO_IPV6), to: index, of: descriptor)
        } else {
            setIPv4MulticastOption(IP_MULTICAST_IF, interface: index)
        }
        _ = withAddress(of: group, on: index) {
            sendto(descriptor, bytes, bytes.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL), $0, $1)
        }
    }

    func receive(upTo limit: Int) -> (bytes: [UInt8], from: LinkAddress)? {
        DatagramReader.receive(from: descriptor, upTo: limit) { isClosed.load(ordering: .acquiring) }
    }

    func close() {
        isClosed.store(true, ordering: .releasing)
        // Wakes recvfrom(2) although the socket is not connected.
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    /// Joins the group on an interface. Has no effect where that was done before.
    private func join(_ index: Int32) {
        guard group.isIPv6 else {
            setIPv4MulticastOption(IP_ADD_MEMBERSHIP, interface: index)
            return
        }
        var request = ipv6_mreq()
        request.ipv6mr_multiaddr = in6_addr(group)
        request.ipv6mr_interface = UInt32(index)
        setsockopt(
            descriptor, Int32(IPPROTO_IPV6), IPV6_JOIN_GROUP, &request, socklen_t(MemoryLayout<ipv6_mreq>.size))
    }

    /// Sets an option whose value is the group and an interface.
    private func setIPv4MulticastOption(_ name: Int32, interface index: Int32) {
        guard case .v4(let number) = group else { return }
        var request = ip_mreqn()
        request.imr_multiaddr = in_addr(s_addr: number.bigEndian)
        request.imr_ifindex = index
        setsockopt(descriptor, Int32(IPPROTO_IP), name, &request, socklen_t(MemoryLayout<ip_mreqn>.size))
    }

    /// The indices of the interfaces to use, as far as they have an address of the group's family.
    private func interfaces() -> ArraySlice<Int32> {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return [] }
        defer { freeifaddrs(list) }
        var found: [Int32: UInt32] = [:]
        for entry in sequence(first: list, next: { $0?.pointee.ifa_next }) {
            guard let entry = entry?.pointee, let rawName = entry.ifa_name, let raw = entry.ifa_addr else { continue }
            guard Int32(raw.pointee.sa_family) == (group.isIPv6 ? AF_INET6 : AF_INET) else { continue }
            if let interface, interface != String(cString: rawName) { continue }
            let index = Int32(clamping: if_nametoindex(rawName))
            // Removed since the list was made.
            if index > 0 { found[index] = entry.ifa_flags }
        }
        return Self.usableInterfaces(found)
    }

    /// The interfaces that are up, up to the limit: loopback and those with multicast, those with a carrier first.
    /// Point-to-point interfaces, such as those of VPNs, are left out, as for multicast DNS: announcements are for the local
    /// network.
    /// - Parameter flags: of each interface, by its index.
    static func usableInterfaces(_ flags: [Int32: UInt32]) -> ArraySlice<Int32> {
        func has(_ index: Int32, _ flag: some BinaryInteger) -> Bool { (flags[index] ?? 0) & UInt32(flag) != 0 }
        let usable = flags.keys.sorted().filter {
            has($0, IFF_UP) && (has($0, IFF_LOOPBACK) || (has($0, IFF_MULTICAST) && !has($0, IFF_POINTOPOINT)))
        }
        return (usable.filter { has($0, IFF_RUNNING) } + usable.filter { !has($0, IFF_RUNNING) }).prefix(maximumInterfaceCount)
    }

    /// - Parameters:
    ///   - address: nil for the wildcard address.
    ///   - index: of the interface.
    private func withAddress<Result>(
        of address: IPAddress?, on index: Int32, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result {
        if group.isIPv6 {
            var raw = sockaddr_in6()
            raw.sin6_family = sa_family_t(AF_INET6)
            raw.sin6_port = port.bigEndian
            raw.sin6_scope_id = UInt32(index)
            if let address { raw.sin6_addr = in6_addr(address) }
            return Self.withRaw(raw, body)
        }
        var raw = sockaddr_in()
        raw.sin_family = sa_family_t(AF_INET)
        raw.sin_port = port.bigEndian
        if case .v4(let number)? = address { raw.sin_addr.s_addr = number.bigEndian }
        return Self.withRaw(raw, body)
    }

    private static func withRaw<Address, Result>(
        _ address: Address, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result {
        withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<Address>.size)) }
        }
    }
}

extension in6_addr {
    fileprivate init(_ address: IPAddress) {
        self.init()
        withUnsafeMutableBytes(of: &self) { $0.copyBytes(from: address.bytes.prefix($0.count)) }
    }
}
