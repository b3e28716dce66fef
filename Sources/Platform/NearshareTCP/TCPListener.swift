internal import CNearshareShims
internal import Glibc
internal import NearshareInterfaces
internal import Synchronization

/// A listening TCP socket.
final class TCPListener: StreamListener {
    let port: UInt16
    private let descriptor: Int32
    private let isClosed = Atomic(false)
    private let spare = SpareDescriptor()

    private static let backlog: Int32 = 64
    /// The wait before the next try when the kernel has no memory, in milliseconds.
    private static let memoryWait: Int32 = 100

    init(port: UInt16, interface: String?) throws(LinkError) {
        let bound = try BoundSocket(SOCK_STREAM, port: port, interface: interface)
        guard Glibc.listen(bound.descriptor, Self.backlog) == 0 else {
            let code = errno
            Glibc.close(bound.descriptor)
            // Two sockets that only one of them listens on can be bound to a port.
            throw code == EADDRINUSE
                ? LinkError.portInUse(port)
                : LinkError(.unavailable, "could not listen on port \(port): \(systemErrorText(code))")
        }
        descriptor = bound.descriptor
        self.port = bound.port
    }

    deinit {
        Glibc.close(descriptor)
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
            case EMFILE, ENFILE: spare.dropConnection { nearshare_accept(descriptor, nil, nil) }
            // Timed: the kernel has no memory for a connection, and cannot tell when it has.
            case ENOMEM, ENOBUFS: poll(nil, 0, Self.memoryWait)
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
}
