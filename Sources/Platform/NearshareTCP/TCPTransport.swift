internal import Glibc
internal import NearshareBase
package import NearshareInterfaces

/// Stream links over TCP, IPv4 and IPv6.
package struct TCPTransport: StreamTransport {
    package init() {}

    package func listen(port: UInt16, interface: String?) throws(LinkError) -> any StreamListener {
        try TCPListener(port: port, interface: interface)
    }

    package func connect(
        to address: LinkAddress, timeout: Duration, cancelledBy cancellation: EventFD?
    ) throws(LinkError) -> any StreamLink {
        var failure = LinkError(.unreachable, "could not connect to \(address): it has no address")
        var hasFailure = false
        let deadline = SystemClock.monotonic() + timeout
        for candidate in try SocketAddress.resolve(address) {
            do {
                let timeLeft = max(.zero, deadline - SystemClock.monotonic())
                return try connect(to: candidate, shownAs: address, timeout: timeLeft, cancelledBy: cancellation)
            } catch {
                // The other addresses of a name say more about the peer than that this machine has none of their kind.
                if error.code != .networkUnreachable || !hasFailure { failure = error }
                hasFailure = true
            }
        }
        throw failure
    }

    package func link(adopting descriptor: Int32) -> (any StreamLink)? {
        let peer = SocketAddress { raw, length in getpeername(descriptor, raw, &length.pointee) == 0 }
        guard let peer, peer.family == AF_INET || peer.family == AF_INET6, let remote = peer.linkAddress else {
            close(descriptor)
            return nil
        }
        return TCPLink(descriptor: descriptor, remote: remote)
    }

    private func connect(
        to address: SocketAddress, shownAs shown: LinkAddress, timeout: Duration, cancelledBy cancellation: EventFD?
    ) throws(LinkError) -> TCPLink {
        let descriptor = socket(address.family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw LinkError(.unavailable, "could not create a socket: \(systemErrorText())") }
        let code = SocketCalls.connect(descriptor, timeout: timeout, cancelledBy: cancellation) {
            address.withRaw { Glibc.connect(descriptor, $0, $1) }
        }
        guard code == 0 else {
            Glibc.close(descriptor)
            throw Self.connectError(code, to: shown)
        }
        return TCPLink(descriptor: descriptor, remote: shown, remoteHost: address.linkAddress?.host)
    }

    private static func connectError(_ code: Int32, to address: LinkAddress) -> LinkError {
        switch code {
        case ECONNREFUSED: LinkError(.unreachable, "connection refused by \(address)")
        case ECANCELED: LinkError(.closed, "the connection to \(address) was cancelled")
        case ETIMEDOUT: LinkError(.timedOut, "timed out connecting to \(address)")
        case ENETUNREACH: LinkError(.networkUnreachable, "could not connect to \(address): \(systemErrorText(code))")
        default: LinkError(.unreachable, "could not connect to \(address): \(systemErrorText(code))")
        }
    }
}
