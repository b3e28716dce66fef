internal import Glibc
internal import NearshareInterfaces

/// A connected socket with blocking calls.
final class TCPLink: StreamLink {
    let remote: LinkAddress
    private let descriptor: Int32

    /// Takes the descriptor over.
    init(descriptor: Int32, remote: LinkAddress) {
        self.descriptor = descriptor
        self.remote = remote
        configure()
    }

    deinit { Glibc.close(descriptor) }

    /// A link-local address means something on this machine's own interface only.
    var localHost: String? {
        let own = SocketAddress { raw, length in getsockname(descriptor, raw, &length.pointee) == 0 }
        guard let host = own?.linkAddress?.host, !host.contains("%") else { return nil }
        return host
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int {
        while true {
            let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
            if count >= 0 { return count }
            if errno != EINTR { throw LinkError(.broken, "the connection to \(remote) broke: \(systemError())") }
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) {
        var rest = bytes
        while !rest.isEmpty {
            let count = send(descriptor, rest.baseAddress, rest.count, Int32(MSG_NOSIGNAL))
            if count >= 0 {
                rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
            } else if errno != EINTR {
                throw LinkError(.broken, "the connection to \(remote) broke: \(systemError())")
            }
        }
    }

    func writeWithoutBlocking(_ bytes: UnsafeRawBufferPointer) throws(LinkError) -> Int {
        let count = send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
        if count >= 0 { return count }
        guard errno == EAGAIN || errno == EINTR else {
            throw LinkError(.broken, "the connection to \(remote) broke: \(systemError())")
        }
        return 0
    }

    func finishWriting() {
        shutdown(descriptor, Int32(SHUT_WR))
    }

    /// The descriptor itself stays until nobody holds the link any more: a number that is closed here while another thread
    /// is about to use it could by then be somebody else's file.
    func close() {
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    private func configure() {
        set(tcpLevel, TCP_NODELAY, 1)
        // What can't be delivered for so long is lost; the other side may have vanished without a word.
        set(tcpLevel, TCP_USER_TIMEOUT, Self.lossTimeoutMilliseconds)
        guard !remote.isLoopback else { return }
        // A control frame should not stand behind seconds of content in the kernel's buffer.
        set(tcpLevel, TCP_NOTSENT_LOWAT, Self.unsentLimit)
        // Keeps a lossy radio link full. Where the kernel does not offer it, its default stays.
        _ = "bbr".withCString { setsockopt(descriptor, tcpLevel, TCP_CONGESTION, $0, 3) }
    }

    private func set(_ level: Int32, _ option: Int32, _ value: Int32) {
        var value = value
        setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
    }

    private static let lossTimeoutMilliseconds: Int32 = 20_000
    private static let unsentLimit: Int32 = 512 << 10
}

extension LinkAddress {
    fileprivate var isLoopback: Bool { host.hasPrefix("127.") || host == "::1" }
}

private let tcpLevel = Int32(IPPROTO_TCP)

func systemError(_ code: Int32 = errno) -> String { String(cString: strerror(code)).lowercased() }
