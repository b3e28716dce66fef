internal import Glibc
package import NearshareInterfaces

/// Stream links over TCP, IPv4 and IPv6.
package struct TCPTransport: StreamTransport {
    package init() {}

    package func listen(port: UInt16, interface: String?) throws(LinkError) -> any StreamListener {
        try TCPListener(port: port, interface: interface)
    }

    package func connect(to address: LinkAddress, timeout: Duration) throws(LinkError) -> any StreamLink {
        var failure = LinkError(.unreachable, "no way to \(address)")
        for candidate in try SocketAddress.resolve(address) {
            do {
                return try connect(to: candidate, shownAs: address, timeout: timeout)
            } catch {
                failure = error
            }
        }
        throw failure
    }

    private func connect(
        to address: SocketAddress, shownAs shown: LinkAddress, timeout: Duration
    ) throws(LinkError) -> TCPLink {
        let descriptor = socket(address.family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        guard descriptor >= 0 else { throw LinkError(.unavailable, "no socket to be had: \(systemError())") }
        do throws(LinkError) {
            if address.withRaw({ Glibc.connect(descriptor, $0, $1) }) != 0 {
                guard errno == EINPROGRESS else { throw Self.refusal(of: shown, errno) }
                var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                let milliseconds = Int32(clamping: Int64(timeout / .milliseconds(1)))
                var ready: Int32
                repeat { ready = poll(&waiting, 1, milliseconds) } while ready < 0 && errno == EINTR
                guard ready > 0 else { throw LinkError(.timedOut, "\(shown) does not answer") }
                var code: Int32 = 0
                var length = socklen_t(MemoryLayout<Int32>.size)
                getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length)
                guard code == 0 else { throw Self.refusal(of: shown, code) }
            }
        } catch {
            Glibc.close(descriptor)
            throw error
        }
        let flags = fcntl(descriptor, F_GETFL)
        _ = fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK)
        return TCPLink(descriptor: descriptor, remote: shown)
    }

    private static func refusal(of address: LinkAddress, _ code: Int32) -> LinkError {
        switch code {
        case ECONNREFUSED: LinkError(.unreachable, "nobody listens at \(address)")
        case ETIMEDOUT: LinkError(.timedOut, "\(address) does not answer")
        default: LinkError(.unreachable, "no way to \(address): \(systemError(code))")
        }
    }
}
