#if canImport(Darwin)
    internal import Darwin
#else
    internal import Glibc
#endif

/// The errno of a failed system call.
package struct SystemCallError: Error, Sendable, Hashable {
    package let code: Int32

    package init(code: Int32) {
        self.code = code
    }
}

/// Complete reads and writes on descriptors: repeated after interruptions by signals and after partial results.
package enum DescriptorIO {
    /// Writes all bytes. Blocks, also where another process has made the descriptor non-blocking.
    package static func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) throws(SystemCallError) {
        let written = try transfer(bytes.count) { offset in
            while true {
                let count = write(descriptor, bytes.baseAddress.map { $0 + offset }, bytes.count - offset)
                guard count < 0, errno == EAGAIN else { return count }
                _ = DescriptorPoll.wait(for: descriptor, .writable, timeout: nil)
            }
        }
        guard written == bytes.count else { throw SystemCallError(code: EIO) }
    }

    /// Sends all bytes over a connected socket. Blocks. A closed connection is the error `EPIPE`, and no signal.
    package static func sendAll(_ bytes: [UInt8], to socket: Int32) throws(SystemCallError) {
        try bytes.withUnsafeBufferPointer { (bytes) throws(SystemCallError) in
            let raw = UnsafeRawBufferPointer(bytes)
            let sent = try transfer(bytes.count) { offset in
                SocketCalls.sendWithoutSignal(UnsafeRawBufferPointer(rebasing: raw[offset...]), to: socket)
            }
            guard sent == bytes.count else { throw SystemCallError(code: EIO) }
        }
    }

    /// Writes all bytes at a position of a file, without moving the descriptor's own position.
    package static func writeAll(
        _ bytes: UnsafeRawBufferPointer, to descriptor: Int32, at position: UInt64
    ) throws(SystemCallError) {
        guard let position = off_t(exactly: position), position.addingReportingOverflow(off_t(bytes.count)).overflow == false
        else {
            throw SystemCallError(code: EFBIG)
        }
        let written = try transfer(bytes.count) { offset in
            pwrite(descriptor, bytes.baseAddress.map { $0 + offset }, bytes.count - offset, position + off_t(offset))
        }
        guard written == bytes.count else { throw SystemCallError(code: EIO) }
    }

    /// Reads until the buffer is full or the input ends. Blocks.
    /// - Returns: the number of bytes read.
    package static func read(
        into buffer: UnsafeMutableRawBufferPointer, from descriptor: Int32
    ) throws(SystemCallError) -> Int {
        try transfer(buffer.count) { offset in
            readBytes(descriptor, buffer.baseAddress.map { $0 + offset }, buffer.count - offset)
        }
    }

    /// Reads from a position of a file until the buffer is full or the file ends, without moving the descriptor's own position.
    /// - Returns: the number of bytes read.
    package static func read(
        into buffer: UnsafeMutableRawBufferPointer, from descriptor: Int32, at position: UInt64
    ) throws(SystemCallError) -> Int {
        guard let position = off_t(exactly: position), position.addingReportingOverflow(off_t(buffer.count)).overflow == false
        else {
            throw SystemCallError(code: EINVAL)
        }
        return try transfer(buffer.count) { offset in
            pread(descriptor, buffer.baseAddress.map { $0 + offset }, buffer.count - offset, position + off_t(offset))
        }
    }

    /// Repeats a system call until `count` bytes are transferred or it returns 0.
    private static func transfer(_ count: Int, _ call: (Int) -> Int) throws(SystemCallError) -> Int {
        var done = 0
        while done < count {
            let result = call(done)
            if result == 0 { break }
            if result > 0 {
                done += result
            } else if errno != EINTR {
                throw SystemCallError(code: errno)
            }
        }
        return done
    }
}

/// read(2), which the functions of ``DescriptorIO`` hide.
private func readBytes(_ descriptor: Int32, _ buffer: UnsafeMutableRawPointer?, _ count: Int) -> Int {
    read(descriptor, buffer, count)
}
