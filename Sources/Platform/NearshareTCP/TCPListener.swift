internal import CNearshareShims
internal import Glibc
internal import NearshareInterfaces
internal import Synchronization

final class TCPListener: StreamListener {
    let port: UInt16
    private let descriptor: Int32
    private let isClosed = Atomic(false)
    /// Given up for a moment when the process has no descriptors left, so that a waiting connection can be taken and
    /// dropped; otherwise it would be reported again and again.
    private let spare = Atomic<Int32>(-1)

    init(port: UInt16, interface: String?) throws(LinkError) {
        let bound = try BoundSocket(SOCK_STREAM, port: port, interface: interface)
        guard Glibc.listen(bound.descriptor, 64) == 0 else {
            let why = systemError()
            Glibc.close(bound.descriptor)
            throw LinkError(.unavailable, "can't listen on port \(port): \(why)")
        }
        descriptor = bound.descriptor
        self.port = bound.port
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
}
