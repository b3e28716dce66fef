internal import CNearshareShims
internal import Glibc
internal import NearshareEdges
internal import Synchronization

final class TCPListener: StreamListener {
    let port: UInt16
    private let descriptor: Int32
    private let isClosed = Atomic(false)
    /// Given up for a moment when the process has no descriptors left, so that a waiting connection can be taken and
    /// dropped; otherwise it would be reported again and again.
    private let spare = Atomic<Int32>(-1)

    init(port: UInt16, interface: String?) throws(LinkError) {
        descriptor = try Self.bind(port: port, interface: interface)
        let bound = descriptor
        self.port = SocketAddress(filledBy: { getsockname(bound, $0, $1) == 0 })?.linkAddress?.port ?? port
        spare.store(Self.openSpare(), ordering: .relaxed)
    }

    deinit {
        Glibc.close(descriptor)
        let spare = spare.load(ordering: .relaxed)
        if spare >= 0 { Glibc.close(spare) }
    }

    func accept() throws(LinkError) -> any StreamLink {
        while true {
            var taken: Int32 = -1
            let address = SocketAddress { raw, length in
                taken = nearshare_accept(descriptor, raw, length)
                return taken >= 0
            }
            if taken >= 0 {
                guard let remote = address?.linkAddress else {
                    Glibc.close(taken)
                    continue
                }
                return TCPLink(descriptor: taken, remote: remote)
            }
            let code = errno
            if isClosed.load(ordering: .acquiring) { throw LinkError(.closed, "no longer listening") }
            switch code {
            case EMFILE, ENFILE: dropOne()
            // All others that accept(2) names concern the one connection only.
            case EBADF, EINVAL, ENOTSOCK, EFAULT: throw LinkError(.unavailable, "can't listen any more: \(systemError(code))")
            default: break
            }
        }
    }

    func close() {
        isClosed.store(true, ordering: .releasing)
        // Wakes accept(2); the number itself is released when nobody uses the listener any more.
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    private func dropOne() {
        let held = spare.exchange(-1, ordering: .acquiringAndReleasing)
        if held >= 0 { Glibc.close(held) }
        let victim = nearshare_accept(descriptor, nil, nil)
        if victim >= 0 { Glibc.close(victim) }
        spare.store(Self.openSpare(), ordering: .releasing)
    }

    private static func openSpare() -> Int32 {
        socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    }

    /// One socket for both families; IPv4 alone where the kernel has no IPv6.
    private static func bind(port: UInt16, interface: String?) throws(LinkError) -> Int32 {
        let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        var descriptor = socket(AF_INET6, type, 0)
        let hasIPv6 = descriptor >= 0
        if !hasIPv6 { descriptor = socket(AF_INET, type, 0) }
        guard descriptor >= 0 else { throw LinkError(.unavailable, "no socket to be had: \(systemError())") }
        do throws(LinkError) {
            var on: Int32 = 1
            var off: Int32 = 0
            let size = socklen_t(MemoryLayout<Int32>.size)
            setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, size)
            if hasIPv6 { setsockopt(descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY, &off, size) }
            if let interface {
                guard
                    interface.withCString({
                        setsockopt(descriptor, SOL_SOCKET, SO_BINDTODEVICE, $0, socklen_t(interface.utf8.count))
                    }) == 0
                else {
                    throw LinkError(.unavailable, "can't listen on interface \(interface): \(systemError())")
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
            guard bound == 0, Glibc.listen(descriptor, 64) == 0 else {
                throw errno == EADDRINUSE
                    ? LinkError(.unavailable, "port \(port) is taken; choose another one with --port")
                    : LinkError(.unavailable, "can't listen on port \(port): \(systemError())")
            }
        } catch {
            Glibc.close(descriptor)
            throw error
        }
        return descriptor
    }
}
