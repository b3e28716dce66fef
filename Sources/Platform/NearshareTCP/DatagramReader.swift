internal import Glibc
internal import NearshareInterfaces

/// Reads datagrams from UDP sockets that are not connected.
enum DatagramReader {
    /// Blocks until a datagram arrives.
    /// - Returns: at most `limit` bytes of it and the sender's address; nil when the socket is closed or can be read no more.
    static func receive(
        from descriptor: Int32, upTo limit: Int, isClosed: () -> Bool
    ) -> (bytes: [UInt8], from: LinkAddress)? {
        var buffer = [UInt8](repeating: 0, count: limit)
        while true {
            var count = -1
            var failure: Int32 = 0
            let source = SocketAddress { raw, length in
                count = recvfrom(descriptor, &buffer, limit, 0, raw, length)
                failure = errno
                return count >= 0
            }
            if isClosed() { return nil }
            // Other errors concern datagrams that were sent before, which may be lost.
            if count < 0, [EBADF, EFAULT, EINVAL, ENOMEM, ENOTSOCK].contains(failure) { return nil }
            guard count > 0, let from = source?.linkAddress else { continue }
            return (Array(buffer[..<count]), from)
        }
    }
}
