internal import FoundationEssentials
internal import Glibc

/// A temporary folder for one test, removed with its content when the last reference is released.
///
/// A caller that uses only its path has to keep the folder as well, for as long as the path is used.
package final class ScratchFolder: Sendable {
    /// Absolute, without a slash at its end. Only its owner can enter it.
    package let path: String

    /// - Parameter onDisk: on a file system with a disk behind it, where that makes a difference; else in memory, if there is
    ///   a place for it.
    package init(onDisk: Bool = false) {
        let parent = !onDisk && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"
        // mkdtemp replaces these with six random characters.
        let place = String(repeating: "X", count: 6)
        var template = Array("\(parent)/nearshare-scratch-\(place)".utf8CString)
        precondition(mkdtemp(&template) != nil, "no scratch folder in \(parent)")
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit {
        // A test may have removed its own permission to change it.
        chmod(path, 0o700)
        try? FileManager.default.removeItem(atPath: path)
    }

    /// The path of an entry of that name, whether it exists or not.
    package func callAsFunction(_ name: String) -> String { "\(path)/\(name)" }
}
