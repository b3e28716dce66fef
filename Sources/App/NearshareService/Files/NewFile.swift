internal import Glibc
package import Nearshare

/// Creates files of text that a command writes.
package enum NewFile {
    /// Creates a file. One that cannot be written completely is removed again.
    /// - Parameter isPrivate: whether no other user can read it.
    /// - Throws: also `EEXIST` where the path exists, be it a link that leads nowhere.
    package static func create(_ path: String, isPrivate: Bool, holding text: String) throws(SystemCallError) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, isPrivate ? 0o600 : 0o644)
        guard descriptor >= 0 else { throw SystemCallError(code: errno) }
        var failure: SystemCallError?
        do throws(SystemCallError) {
            try Array(text.utf8).withUnsafeBufferPointer { (bytes) throws(SystemCallError) in
                try DescriptorIO.writeAll(UnsafeRawBufferPointer(bytes), to: descriptor)
            }
        } catch {
            failure = error
        }
        // A filesystem of a network may report only now that there is no space.
        if close(descriptor) != 0, failure == nil { failure = SystemCallError(code: errno) }
        guard let failure else { return }
        unlink(path)
        throw failure
    }
}
