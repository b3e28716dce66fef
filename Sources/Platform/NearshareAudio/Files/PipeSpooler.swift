internal import Glibc
package import NearshareInterfaces

/// Copies a pipe to a file, for formats that are read at arbitrary offsets.
package enum PipeSpooler {
    /// Copies all bytes of a descriptor to a temporary file.
    /// - Parameter isCancelled: asked between two reads, and while nothing arrives.
    /// - Returns: nil when it was cancelled before the end.
    package static func spool(_ descriptor: Int32, isCancelled: () -> Bool = { false }) throws(AudioError) -> NoteFile? {
        let file = try NoteFile.temporary()
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 64)
        defer { buffer.deallocate() }
        var offset: UInt64 = 0
        while !isCancelled() {
            var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            if poll(&waiting, 1, AudioTimeout.milliseconds) == 0 { continue }
            let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
            if count == 0 { return file }
            if count < 0 {
                if errno == EINTR || errno == EAGAIN { continue }
                throw AudioError(errno, "could not read standard input")
            }
            try file.write(UnsafeRawBufferPointer(rebasing: buffer[..<count]), at: offset)
            offset += UInt64(count)
        }
        return nil
    }
}
