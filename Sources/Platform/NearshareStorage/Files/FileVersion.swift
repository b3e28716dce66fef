internal import Glibc

/// The identity and change time of a file. Equal versions mean unchanged content as long as the file was open between the two
/// reads of its attributes.
package struct FileVersion: Sendable, Hashable {
    private let number: ino_t
    private let size: Int
    private let changedSeconds: Int
    private let changedNanoseconds: Int

    init(_ status: stat) {
        number = status.st_ino
        size = status.st_size
        // Unlike the modification time, it cannot be set.
        changedSeconds = status.st_ctim.tv_sec
        changedNanoseconds = status.st_ctim.tv_nsec
    }
}

extension stat {
    /// The modification time in nanoseconds since 1970.
    var modifiedNanoseconds: Int64 {
        let (seconds, overflow) = Int64(st_mtim.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
        // Some file systems store years beyond the range of nanoseconds.
        return overflow ? 0 : seconds &+ Int64(st_mtim.tv_nsec)
    }

    var isFolder: Bool { st_mode & S_IFMT == S_IFDIR }
    var isFile: Bool { st_mode & S_IFMT == S_IFREG }
    var isCharacterDevice: Bool { st_mode & S_IFMT == S_IFCHR }
}
