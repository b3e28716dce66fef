internal import FoundationEssentials
internal import Glibc

/// A folder of its own for one test, removed with everything in it when nothing refers to it any more.
///
/// Whoever only takes its path has to keep the folder too, for as long as the path is used.
package final class ScratchFolder: Sendable {
    /// Absolute, without a slash at its end. Nobody but its owner can enter it.
    package let path: String

    /// - Parameter onDisk: on a file system with a disk behind it, where that makes a difference; else in memory, if there is
    ///   a place for it.
    package init(onDisk: Bool = false) {
        let parent = !onDisk && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"
        // mkdtemp puts six characters of chance there.
        let place = String(repeating: "X", count: 6)
        var template = Array("\(parent)/nearshare-scratch-\(place)".utf8CString)
        precondition(mkdtemp(&template) != nil, "no scratch folder in \(parent)")
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit {
        // A test may have taken the right to change it from itself.
        chmod(path, 0o700)
        try? FileManager.default.removeItem(atPath: path)
    }

    /// The path of what has that name in it, whether it exists or not.
    package func callAsFunction(_ name: String) -> String { "\(path)/\(name)" }
}
