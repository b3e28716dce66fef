internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// A non-blocking UDP socket on an ephemeral port that sends to the group of multicast DNS over one interface. Belongs to one
/// thread.
final class MulticastSocket {
    let descriptor: Int32
    private let isIPv6: Bool
    /// The index of the interface, which is the zone of its link-local addresses (RFC 4007).
    private let zone: Int32

    /// Opens a socket that is bound to a free port of `address` and multicasts over `interface`; nil where the kernel refuses.
    init?(boundTo address: IPAddress, on interface: NetworkInterface) {
        let family = address.isIPv6 ? AF_INET6 : AF_INET
        let descriptor = socket(family, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        var index = interface.index
        // RFC 6762, section 11.
        var hopLimit: Int32 = 255
        let size = socklen_t(MemoryLayout<Int32>.size)
        let isConfigured: Bool
        if address.isIPv6 {
            isConfigured =
                setsockopt(descriptor, Int32(IPPROTO_IPV6), IPV6_MULTICAST_IF, &index, size) == 0
                && setsockopt(descriptor, Int32(IPPROTO_IPV6), IPV6_MULTICAST_HOPS, &hopLimit, size) == 0
        } else {
            var request = ip_mreqn()
            request.imr_ifindex = index
            isConfigured =
                setsockopt(
                    descriptor, Int32(IPPROTO_IP), IP_MULTICAST_IF, &request, socklen_t(MemoryLayout<ip_mreqn>.size)) == 0
                && setsockopt(descriptor, Int32(IPPROTO_IP), IP_MULTICAST_TTL, &hopLimit, size) == 0
        }
        let isBound = Self.withSocketAddress(address, port: 0, zone: index) { bind(descriptor, $0, $1) == 0 }
        guard isConfigured, isBound else {
            close(descriptor)
            return nil
        }
        self.descriptor = descriptor
        isIPv6 = address.isIPv6
        zone = index
    }

    deinit { close(descriptor) }

    /// Sends to 224.0.0.251 or ff02::fb, port 5353 (RFC 6762, section 3). Failures are ignored.
    func send(_ message: [UInt8]) {
        Self.withSocketAddress(isIPv6 ? .v6(0xff02 << 48, 0xfb) : .v4(0xe000_00fb), port: 5353, zone: zone) { group, length in
            _ = sendto(descriptor, message, message.count, Int32(MSG_NOSIGNAL), group, length)
        }
    }

    /// Never blocks.
    /// - Returns: at most `maximumByteCount` bytes of a datagram; nil when none is waiting.
    func receive(upTo maximumByteCount: Int) -> (message: [UInt8], sender: IPAddress)? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        var sender: IPAddress?
        let message = [UInt8](unsafeUninitializedCapacity: maximumByteCount) { buffer, count in
            let received = withUnsafeMutablePointer(to: &storage) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
                    let received = recvfrom(descriptor, buffer.baseAddress, buffer.count, 0, raw, &length)
                    sender = NetworkInterface.ipAddress(raw)
                    return received
                }
            }
            count = max(0, received)
        }
        guard !message.isEmpty, let sender else { return nil }
        return (message, sender)
    }

    private static func withSocketAddress<Result>(
        _ address: IPAddress, port: UInt16, zone: Int32, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result {
        func pass<Address>(_ value: Address) -> Result {
            withUnsafePointer(to: value) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<Address>.size)) }
            }
        }
        switch address {
        case .v4(let value):
            var socketAddress = sockaddr_in()
            socketAddress.sin_family = sa_family_t(AF_INET)
            socketAddress.sin_port = port.bigEndian
            socketAddress.sin_addr.s_addr = value.bigEndian
            return pass(socketAddress)
        case .v6:
            var socketAddress = sockaddr_in6()
            socketAddress.sin6_family = sa_family_t(AF_INET6)
            socketAddress.sin6_port = port.bigEndian
            withUnsafeMutableBytes(of: &socketAddress.sin6_addr) { $0.copyBytes(from: address.bytes) }
            socketAddress.sin6_scope_id = UInt32(zone)
            return pass(socketAddress)
        }
    }
}
