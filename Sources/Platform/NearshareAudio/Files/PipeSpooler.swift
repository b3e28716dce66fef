internal import Glibc
package import NearshareInterfaces

/// Copies a pipe to a file, for formats that are read at arbitrary offsets.
package enum PipeSpooler {
    /// Copies all bytes of a descriptor to a temporary file.
    /// - Parameter cancellation: signalled to end the copying.
    /// - Returns: nil when it was cancelled before the end.
    package static func spool(
        _ descriptor: Int32, until cancellation: EventFD? = nil
    ) throws(AudioError) -> NoteFile? {
        let file = try NoteFile.temporary()
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 64)
        defer { buffer.deallocate() }
        var offset: UInt64 = 0
        while true {
            let events = DescriptorPoll.wait(
                for: [(descriptor, .readable), (cancellation?.descriptor ?? -1, .readable)], timeout: nil)
            if !events[1].isEmpty { return nil }
            let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
            if count == 0 { return file }
            if count < 0 {
                if errno == EINTR || errno == EAGAIN { continue }
                throw AudioError(errno, "could not read standard input")
            }
            try file.write(UnsafeRawBufferPointer(rebasing: buffer[..<count]), at: offset)
            offset += UInt64(count)
        }
    }
}
