internal import Glibc
package import NearshareInterfaces
internal import Synchronization

/// Packets over UDP, IPv4 and IPv6.
package struct UDPTransport: DatagramTransport {
    package init() {}

    package func open(port: UInt16, interface: String?) throws(LinkError) -> any DatagramSocket {
        UDPSocket(try BoundSocket(SOCK_DGRAM, port: port, interface: interface))
    }
}

final class UDPSocket: DatagramSocket {
    private struct Known {
        var addresses: [LinkAddress: SocketAddress] = [:]
    }

    var port: UInt16 { bound.port }
    private let bound: BoundSocket
    private let isClosed = Atomic(false)
    /// Looked up once each: sending is for things that are in a hurry.
    private let known = Mutex(Known())
    private static let maximumKnown = 256

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
        if let found = known.withLock({ $0.addresses[address] }) { return found }
        // A socket for both families takes IPv4 addresses in IPv6 clothes only.
        let host = bound.hasIPv6 && !address.host.contains(":") ? "::ffff:\(address.host)" : address.host
        guard let found = try? SocketAddress.resolve(LinkAddress(host: host, port: address.port)).first else { return nil }
        known.withLock { known in
            if known.addresses.count >= Self.maximumKnown { known.addresses = [:] }
            known.addresses[address] = found
        }
        return found
    }

    func receive(upTo limit: Int) -> (bytes: [UInt8], from: LinkAddress)? {
        var buffer = [UInt8](repeating: 0, count: limit)
        while true {
            var count = -1
            let source = SocketAddress { raw, length in
                count = recvfrom(bound.descriptor, &buffer, limit, 0, raw, length)
                return count >= 0
            }
            if isClosed.load(ordering: .acquiring) { return nil }
            // Errors are about packets that were sent before; those may be lost.
            guard count > 0, let from = source?.linkAddress else { continue }
            return (Array(buffer[..<count]), from)
        }
    }

    func close() {
        isClosed.store(true, ordering: .releasing)
        // Wakes recvfrom(2), although nothing is connected.
        shutdown(bound.descriptor, Int32(SHUT_RDWR))
    }
}
