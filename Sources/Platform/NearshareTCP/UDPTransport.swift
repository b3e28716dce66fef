internal import Glibc
package import NearshareInterfaces
internal import Synchronization

/// Datagrams over UDP, IPv4 and IPv6.
package struct UDPTransport: DatagramTransport {
    package init() {}

    package func open(port: UInt16, interface: String?) throws(LinkError) -> any DatagramSocket {
        UDPSocket(try BoundSocket(SOCK_DGRAM, port: port, interface: interface))
    }
}

/// A UDP socket that is bound to a port.
final class UDPSocket: DatagramSocket {
    var port: UInt16 { bound.port }
    private let bound: BoundSocket
    private let isClosed = Atomic(false)
    /// Addresses as the kernel takes them.
    private let cache = Mutex([LinkAddress: SocketAddress]())
    private static let maximumCacheCount = 256

    init(_ bound: BoundSocket) {
        self.bound = bound
    }

    deinit { Glibc.close(bound.descriptor) }

    func send(_ bytes: [UInt8], to address: LinkAddress) {
        guard let target = resolve(address) else { return }
        _ = target.withRaw { raw, length in
            sendto(bound.descriptor, bytes, bytes.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL), raw, length)
        }
    }

    private func resolve(_ address: LinkAddress) -> SocketAddress? {
        if let cached = cache.withLock({ $0[address] }) { return cached }
        // A dual-stack socket takes IPv4 addresses in their IPv4-mapped form only.
        let host = bound.hasIPv6 && !address.host.contains(":") ? "::ffff:\(address.host)" : address.host
        let numeric = LinkAddress(host: host, port: address.port)
        guard let resolved = try? SocketAddress.resolve(numeric, isNumeric: true).first else { return nil }
        cache.withLock { cache in
            if cache.count >= Self.maximumCacheCount { cache = [:] }
            cache[address] = resolved
        }
        return resolved
    }

    func receive(upTo limit: Int) -> (bytes: [UInt8], from: LinkAddress)? {
        DatagramReader.receive(from: bound.descriptor, upTo: limit) { isClosed.load(ordering: .acquiring) }
    }

    func close() {
        isClosed.store(true, ordering: .releasing)
        // Wakes recvfrom(2) although the socket is not connected.
        shutdown(bound.descriptor, Int32(SHUT_RDWR))
    }
}
