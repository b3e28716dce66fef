internal import CNearshareShims
internal import Glibc
internal import Nearshare

/// A Unix socket at a path, for the processes of one user.
enum UnixSocket {
    /// Time to wait for a process that has more connections than it accepts, such as a stopped one.
    private static let connectTimeout = 2

    /// - Returns: nil when no process of this user listens there, or it accepts none for two seconds.
    static func connect(to path: String) -> Int32? {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        // Bounds connect(2), which otherwise waits as long as the queue of the listener is full.
        setSendTimeout(of: descriptor, seconds: connectTimeout)
        let isConnected = withAddress(path) { Glibc.connect(descriptor, $0, $1) == 0 } ?? false
        setSendTimeout(of: descriptor, seconds: 0)
        // In a directory of another user, that user could listen.
        guard isConnected, isPeerTrusted(descriptor) else {
            close(descriptor)
            return nil
        }
        return descriptor
    }

    /// - Parameter seconds: 0 for no timeout.
    private static func setSendTimeout(of descriptor: Int32, seconds: Int) {
        var time = timeval(tv_sec: seconds, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
    }

    /// Listens at a path, and replaces an earlier listener. Only the owner can use the file.
    static func listen(at path: String) throws(StorageError) -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw failure("could not create a socket", path) }
        // Moved to its path once it listens: a process that sees the file can connect.
        let newPath = path + ".new"
        unlink(newPath)
        guard let isBound = withAddress(newPath, { bind(descriptor, $0, $1) == 0 }) else {
            close(descriptor)
            throw StorageError(.failed, "\(path) is too long for a socket; set XDG_RUNTIME_DIR to a shorter path")
        }
        guard isBound, chmod(newPath, 0o600) == 0, Glibc.listen(descriptor, 16) == 0, rename(newPath, path) == 0 else {
            defer { close(descriptor) }
            throw failure("could not listen", path)
        }
        return descriptor
    }

    /// - Parameter spare: given up for a connection that cannot be accepted for want of descriptors.
    /// - Returns: nil once the listener is shut down.
    static func accept(_ listener: Int32, _ spare: SpareDescriptor) -> Int32? {
        while true {
            let descriptor = nearshare_accept(listener, nil, nil)
            if descriptor >= 0 {
                guard isPeerTrusted(descriptor) else {
                    close(descriptor)
                    continue
                }
                return descriptor
            }
            switch errno {
            case EINTR, ECONNABORTED: continue
            case EMFILE, ENFILE: spare.dropConnection { nearshare_accept(listener, nil, nil) }
            case ENOBUFS, ENOMEM:
                // Timed: nothing signals that the kernel has memory again; the pause bounds the rate of the attempts.
                usleep(100_000)
            default: return nil
            }
        }
    }

    /// Whether the process at the other end belongs to this user, or to root.
    private static func isPeerTrusted(_ descriptor: Int32) -> Bool {
        let user = nearshare_peer_user(descriptor)
        return user == Int64(geteuid()) || user == 0
    }

    /// - Returns: nil for a path that is too long.
    private static func withAddress<Result>(
        _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result? {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { return nil }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
        }
    }

    private static func failure(_ what: String, _ path: String) -> StorageError {
        StorageError(.failed, "\(what) at \(path): \(String(cString: strerror(errno)))")
    }
}
