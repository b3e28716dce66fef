internal import CNearshareShims
internal import Glibc
internal import NearshareInterfaces

/// A Unix socket at a path, for the person's own processes alone.
enum UnixSocket {
    /// - Returns: nil when nobody listens there.
    static func connect(to path: String) -> Int32? {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        let isConnected = withAddress(path) { Glibc.connect(descriptor, $0, $1) == 0 } ?? false
        // Whoever listens there could be somebody else, where the directory is not ours.
        guard isConnected, isOurs(descriptor) else {
            close(descriptor)
            return nil
        }
        return descriptor
    }

    /// Listens, in the place of whoever listened there before. The file can be used by its owner only.
    static func listen(at path: String) throws(StorageError) -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw failure("no socket to be had", path) }
        unlink(path)
        guard let isBound = withAddress(path, { bind(descriptor, $0, $1) == 0 }) else {
            close(descriptor)
            throw StorageError(.failed, "\(path) is too long for a socket; set XDG_RUNTIME_DIR to a shorter path")
        }
        guard isBound, chmod(path, 0o600) == 0, Glibc.listen(descriptor, 16) == 0 else {
            defer { close(descriptor) }
            throw failure("can't listen", path)
        }
        return descriptor
    }

    /// - Returns: nil once the listener is shut down.
    static func accept(_ listener: Int32) -> Int32? {
        while true {
            let descriptor = nearshare_accept(listener, nil, nil)
            if descriptor >= 0 {
                guard isOurs(descriptor) else {
                    close(descriptor)
                    continue
                }
                return descriptor
            }
            switch errno {
            case EINTR, ECONNABORTED: continue
            case EMFILE, ENFILE, ENOBUFS, ENOMEM:
                // Some of what is open will be closed.
                usleep(100_000)
            default: return nil
            }
        }
    }

    /// The process at the other end is this person's, or root's.
    private static func isOurs(_ descriptor: Int32) -> Bool {
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
