internal import Glibc
internal import NearshareInterfaces

/// A socket that is bound to a port.
struct BoundSocket {
    let descriptor: Int32
    /// Whether the socket carries both address families, or IPv4 alone.
    let hasIPv6: Bool
    let port: UInt16

    /// - Parameters:
    ///   - port: 0 for a free one.
    ///   - interface: nil for all interfaces.
    init(_ type: __socket_type, port: UInt16, interface: String?) throws(LinkError) {
        let (bound, hasIPv6) = try Self.bind(type, port, interface)
        descriptor = bound
        self.hasIPv6 = hasIPv6
        self.port = SocketAddress(filledBy: { getsockname(bound, $0, $1) == 0 })?.linkAddress?.port ?? port
    }

    /// Binds one dual-stack socket; IPv4 alone where the kernel has no IPv6.
    private static func bind(_ type: __socket_type, _ port: UInt16, _ interface: String?) throws(LinkError) -> (Int32, Bool) {
        let flags = Int32(type.rawValue | SOCK_CLOEXEC.rawValue)
        var descriptor = socket(AF_INET6, flags, 0)
        let hasIPv6 = descriptor >= 0
        if !hasIPv6 { descriptor = socket(AF_INET, flags, 0) }
        guard descriptor >= 0 else { throw LinkError(.unavailable, "could not create a socket: \(systemErrorText())") }
        do throws(LinkError) {
            // Closed connections keep a TCP port. A UDP port with this option could be shared with another user's program.
            if type == SOCK_STREAM { _ = SocketCalls.setOption(SO_REUSEADDR, level: SOL_SOCKET, to: 1, of: descriptor) }
            if hasIPv6 { _ = SocketCalls.setOption(IPV6_V6ONLY, level: Int32(IPPROTO_IPV6), to: 0, of: descriptor) }
            if let interface {
                // The kernel takes no name for all interfaces, and cuts longer names and those with NUL.
                guard (1..<Int(IFNAMSIZ)).contains(interface.utf8.count), !interface.utf8.contains(0) else {
                    throw LinkError(.unavailable, MissingInterface.text(for: interface))
                }
                guard
                    interface.withCString({
                        setsockopt(descriptor, SOL_SOCKET, SO_BINDTODEVICE, $0, socklen_t(interface.utf8.count))
                    }) == 0
                else {
                    if errno == ENODEV { throw LinkError(.unavailable, MissingInterface.text(for: interface)) }
                    throw LinkError(.unavailable, "could not listen on interface \(interface): \(systemErrorText())")
                }
            }
            let bound: Int32
            if hasIPv6 {
                var address = sockaddr_in6()
                address.sin6_family = sa_family_t(AF_INET6)
                address.sin6_port = port.bigEndian
                bound = withUnsafePointer(to: address) {
                    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                        Glibc.bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in6>.size))
                    }
                }
            } else {
                var address = sockaddr_in()
                address.sin_family = sa_family_t(AF_INET)
                address.sin_port = port.bigEndian
                bound = withUnsafePointer(to: address) {
                    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                        Glibc.bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                    }
                }
            }
            guard bound == 0 else {
                throw errno == EADDRINUSE
                    ? LinkError.portInUse(port)
                    : LinkError(.unavailable, "could not listen on port \(port): \(systemErrorText())")
            }
        } catch {
            Glibc.close(descriptor)
            throw error
        }
        return (descriptor, hasIPv6)
    }
}
