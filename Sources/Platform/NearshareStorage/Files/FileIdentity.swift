package import Glibc

/// The identity of a file or directory on this machine, whatever path leads to it.
package struct FileIdentity: Sendable, Hashable {
    private let device: dev_t
    private let inode: ino_t

    package init(_ status: stat) {
        device = status.st_dev
        inode = status.st_ino
    }

    /// - Returns: nil when nothing is there.
    package init?(path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        self.init(status)
    }

    init?(_ path: LocalPath) {
        var status = stat()
        guard path.withCString({ stat($0, &status) }) == 0 else { return nil }
        self.init(status)
    }
}
