internal import Glibc
internal import Nearshare

/// Reads whole inputs of a command that have a limit.
enum InputReader {
    /// Reads to the end of the input, or `limit` bytes.
    static func read(_ descriptor: Int32, upTo limit: Int) throws(SystemCallError) -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: min(limit, 65_536))
        while bytes.count < limit {
            let count = Glibc.read(descriptor, &buffer, min(buffer.count, limit - bytes.count))
            if count == 0 { break }
            if count > 0 {
                bytes += buffer[..<count]
            } else if errno == EAGAIN {
                // Another process has made the pipe non-blocking.
                var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                poll(&wait, 1, -1)
            } else if errno != EINTR {
                throw SystemCallError(code: errno)
            }
        }
        return bytes
    }
}
