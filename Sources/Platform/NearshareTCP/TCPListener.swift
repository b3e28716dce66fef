internal import CNearshareShims
internal import Glibc
internal import NearshareInterfaces
internal import Synchronization

/// A listening TCP socket.
final class TCPListener: StreamListener {
    let port: UInt16
    private let descriptor: Int32
    private let isClosed = Atomic(false)
    /// A descriptor in reserve. When the process has none left, it is closed so that a waiting connection can be accepted and dropped;
    /// otherwise accept(2) would fail for it again and again.
    private let spare = Atomic<Int32>(-1)

    private static let backlog: Int32 = 64

    init(port: UInt16, interface: String?) throws(LinkError) {
        let bound = try BoundSocket(SOCK_STREAM, port: port, interface: interface)
        guard Glibc.listen(bound.descriptor, Self.backlog) == 0 else {
            let reason = systemErrorText()
            Glibc.close(bound.descriptor)
            throw LinkError(.unavailable, "could not listen on port \(port): \(reason)")
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
            var accepted: Int32 = -1
            let address = SocketAddress { raw, length in
                accepted = nearshare_accept(descriptor, raw, length)
                return accepted >= 0
            }
            if accepted >= 0 {
                guard let remote = address?.linkAddress else {
                    Glibc.close(accepted)
                    continue
                }
                return TCPLink(descriptor: accepted, remote: remote)
            }
            let code = errno
            if isClosed.load(ordering: .acquiring) { throw LinkError(.closed, "the listener was closed") }
            switch code {
            case EMFILE, ENFILE: dropConnection()
            // All other errors of accept(2) concern one connection only.
            case EBADF, EINVAL, ENOTSOCK, EFAULT:
                throw LinkError(.unavailable, "could not accept connections any more: \(systemErrorText(code))")
            default: break
            }
        }
    }

    func close() {
        isClosed.store(true, ordering: .releasing)
        // Wakes accept(2); deinit closes the descriptor.
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    private func dropConnection() {
        let held = spare.exchange(-1, ordering: .acquiringAndReleasing)
        if held >= 0 { Glibc.close(held) }
        let dropped = nearshare_accept(descriptor, nil, nil)
        if dropped >= 0 { Glibc.close(dropped) }
        spare.store(Self.openSpare(), ordering: .releasing)
    }

    private static func openSpare() -> Int32 {
        socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    }
}
