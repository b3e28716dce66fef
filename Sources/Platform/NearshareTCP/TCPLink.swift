internal import CNearshareShims
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// A connected TCP socket with blocking calls.
final class TCPLink: StreamLink {
    let remote: LinkAddress
    let remoteHost: String?
    private let descriptor: Int32

    /// Takes ownership of a connected descriptor.
    /// - Parameter remoteHost: nil where the host of `remote` is numeric.
    init(descriptor: Int32, remote: LinkAddress, remoteHost: String? = nil) {
        self.descriptor = descriptor
        self.remote = remote
        self.remoteHost = remoteHost ?? remote.host
        configure()
    }

    deinit { Glibc.close(descriptor) }

    var passableDescriptor: Int32? { descriptor }

    /// nil for a link-local address, which is valid on this machine's interface only.
    var localHost: String? {
        let own = SocketAddress { raw, length in getsockname(descriptor, raw, &length.pointee) == 0 }
        guard let host = own?.linkAddress?.host, !host.contains("%") else { return nil }
        return host
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int {
        while true {
            let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
            if count >= 0 { return count }
            if errno != EINTR { throw LinkError(.broken, "the connection to \(remote) failed: \(systemErrorText())") }
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) {
        var rest = bytes
        while !rest.isEmpty {
            let count = send(descriptor, rest.baseAddress, rest.count, Int32(MSG_NOSIGNAL))
            if count >= 0 {
                rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
            } else if errno != EINTR {
                throw LinkError(.broken, "the connection to \(remote) failed: \(systemErrorText())")
            }
        }
    }

    func writeWithoutBlocking(_ bytes: UnsafeRawBufferPointer) throws(LinkError) -> Int {
        let count = send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
        if count >= 0 { return count }
        guard errno == EAGAIN || errno == EINTR else {
            throw LinkError(.broken, "the connection to \(remote) failed: \(systemErrorText())")
        }
        return 0
    }

    func finishWriting() {
        shutdown(descriptor, Int32(SHUT_WR))
    }

    var unacknowledgedByteCount: Int? {
        var count: Int32 = 0
        // SIOCOUTQ (tcp(7)) has the number of TIOCOUTQ.
        return ioctl(descriptor, UInt(TIOCOUTQ), &count) == 0 ? Int(count) : nil
    }

    var isFinishedByPeer: Bool { nearshare_is_finished_by_peer(descriptor) }

    func setSilenceTimeout(_ timeout: Duration) {
        let seconds = Int32(min(max(1, timeout.components.seconds), 3600))
        _ = SocketCalls.setOption(TCP_USER_TIMEOUT, level: tcpLevel, to: seconds * 1000, of: descriptor)
        // Probes where nothing is written; the timeout above ends these, too (tcp(7)).
        let interval = max(1, seconds / 3)
        _ = SocketCalls.setOption(TCP_KEEPIDLE, level: tcpLevel, to: interval, of: descriptor)
        _ = SocketCalls.setOption(TCP_KEEPINTVL, level: tcpLevel, to: interval, of: descriptor)
        _ = SocketCalls.setOption(SO_KEEPALIVE, level: SOL_SOCKET, to: 1, of: descriptor)
    }

    /// Shuts the socket down; deinit closes the descriptor. Closed here, its number could be another file by the time that
    /// another thread uses it.
    func close() {
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    private func configure() {
        _ = SocketCalls.setOption(TCP_NODELAY, level: tcpLevel, to: 1, of: descriptor)
        // The peer may have disappeared without closing the connection.
        _ = SocketCalls.setOption(TCP_USER_TIMEOUT, level: tcpLevel, to: Self.userTimeoutMilliseconds, of: descriptor)
        guard !IPAddress.isLoopback(host: remoteHost ?? remote.host) else { return }
        // Keeps control frames from waiting behind seconds of content in the kernel's buffer.
        _ = SocketCalls.setOption(TCP_NOTSENT_LOWAT, level: tcpLevel, to: Self.unsentByteLimit, of: descriptor)
        // Keeps the throughput on a lossy radio link. Without BBR the kernel's default stays.
        _ = "bbr".withCString { setsockopt(descriptor, tcpLevel, TCP_CONGESTION, $0, 3) }
    }

    /// Unacknowledged data older than this breaks the connection (TCP_USER_TIMEOUT, in milliseconds).
    private static let userTimeoutMilliseconds: Int32 = 20_000
    /// Unsent bytes up to which the socket is writable.
    private static let unsentByteLimit: Int32 = 512 << 10
}

private let tcpLevel = Int32(IPPROTO_TCP)
