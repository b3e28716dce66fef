internal import Glibc
package import NearshareBase
internal import NearshareInterfaces

/// A network interface of this machine, as the kernel reports it.
package struct NetworkInterface: Sendable, Hashable {
    package var name: String
    package var index: Int32
    /// Administratively up.
    package var isUp: Bool
    /// Has a carrier: a cable is plugged in, or an access point joined.
    package var isRunning: Bool
    package var isLoopback: Bool
    package var isMulticastCapable: Bool
    package var isPointToPoint: Bool
    /// The addresses of this machine, with their subnets.
    package var addresses: [IPSubnet]

    package init(
        name: String, index: Int32, isUp: Bool, isRunning: Bool, isLoopback: Bool, isMulticastCapable: Bool,
        isPointToPoint: Bool, addresses: [IPSubnet]
    ) {
        self.name = name
        self.index = index
        self.isUp = isUp
        self.isRunning = isRunning
        self.isLoopback = isLoopback
        self.isMulticastCapable = isMulticastCapable
        self.isPointToPoint = isPointToPoint
        self.addresses = addresses
    }

    /// Whether multicast DNS works there: up, with an address and multicast. Loopback delivers multicast to this machine even
    /// without the flag.
    package var canCarryDiscovery: Bool {
        isUp && !addresses.isEmpty && (isLoopback || (isMulticastCapable && !isPointToPoint))
    }

    /// Whether other hosts can be reached there.
    package var leadsToOthers: Bool { canCarryDiscovery && isRunning && !isLoopback }

    /// Returns all interfaces of this machine, ordered by index.
    package static func all() -> [NetworkInterface] {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return [] }
        defer { freeifaddrs(list) }
        var found: [Int32: NetworkInterface] = [:]
        for entry in sequence(first: list, next: { $0?.pointee.ifa_next }) {
            guard let entry = entry?.pointee, let rawName = entry.ifa_name else { break }
            let index = Int32(clamping: if_nametoindex(rawName))
            // Removed since the list was made.
            guard index > 0 else { continue }
            func has(_ flag: some BinaryInteger) -> Bool { entry.ifa_flags & UInt32(flag) != 0 }
            var interface =
                found[index]
                ?? NetworkInterface(
                    name: String(cString: rawName), index: index, isUp: has(IFF_UP), isRunning: has(IFF_RUNNING),
                    isLoopback: has(IFF_LOOPBACK), isMulticastCapable: has(IFF_MULTICAST),
                    isPointToPoint: has(IFF_POINTOPOINT), addresses: [])
            if let address = ipAddress(entry.ifa_addr) {
                let prefix =
                    ipAddress(entry.ifa_netmask)?.bytes.reduce(0) { $0 + $1.nonzeroBitCount } ?? address.bytes.count * 8
                interface.addresses.append(IPSubnet(address, prefixLength: prefix))
            }
            found[index] = interface
        }
        return found.values.sorted { $0.index < $1.index }
    }

    /// Returns the index of an interface that the user has named.
    static func index(of name: String) throws(DiscoveryError) -> Int32 {
        let index = name.utf8.contains(0) ? 0 : if_nametoindex(name)
        guard index != 0 else { throw DiscoveryError(MissingInterface.text(for: name)) }
        return Int32(clamping: index)
    }

    /// Returns nil for a socket address that is neither IPv4 nor IPv6.
    static func ipAddress(_ socketAddress: UnsafePointer<sockaddr>?) -> IPAddress? {
        guard let socketAddress else { return nil }
        switch Int32(socketAddress.pointee.sa_family) {
        case AF_INET:
            return socketAddress.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                .v4(UInt32(bigEndian: $0.pointee.sin_addr.s_addr))
            }
        case AF_INET6:
            return socketAddress.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { pointer in
                withUnsafeBytes(of: pointer.pointee.sin6_addr) { IPAddress(bytes: $0) }
            }
        default: return nil
        }
    }
}

/// A cache of this machine's interfaces and addresses. An address that was lost still counts for as long as multicast DNS may bring
/// what this machine has announced there.
struct LocalAddresses {
    private let list: () -> [NetworkInterface]
    private var cached: [NetworkInterface] = []
    private var cachedAt: MonotonicInstant?
    /// The latest times at which addresses that are lost were there.
    private var lost: [IPAddress: MonotonicInstant] = [:]

    init(list: @escaping () -> [NetworkInterface] = NetworkInterface.all) { self.list = list }

    mutating func invalidate() { cachedAt = nil }

    mutating func interfaces(at now: MonotonicInstant) -> [NetworkInterface] {
        if let cachedAt, now - cachedAt < Self.lifetime { return cached }
        let before = Self.addresses(of: cached)
        cached = list()
        lost = lost.filter { now - $0.value < Self.recordLifetime }
        for address in before.subtracting(Self.addresses(of: cached)) { lost[address] = now }
        cachedAt = now
        return cached
    }

    mutating func contains(_ address: IPAddress, at now: MonotonicInstant) -> Bool {
        interfaces(at: now).contains { $0.addresses.contains { $0.address == address } }
            || lost[address].map { now - $0 < Self.recordLifetime } ?? false
    }

    private static func addresses(of interfaces: [NetworkInterface]) -> Set<IPAddress> {
        Set(interfaces.flatMap { $0.addresses.map(\.address) })
    }

    /// Under a flood of sightings the kernel is asked once a second.
    private static let lifetime: Duration = .seconds(1)
    /// The recommended time to live of records with addresses (RFC 6762, section 10).
    private static let recordLifetime: Duration = .seconds(120)
}

/// Returns the name of the interface with this index; the index itself when the interface was just removed.
func interfaceName(of index: Int32) -> String {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(IF_NAMESIZE)) { buffer in
        // Safe: the allocation is not empty.
        if_indextoname(UInt32(index), buffer.baseAddress).map { String(cString: $0) } ?? "\(index)"
    }
}
