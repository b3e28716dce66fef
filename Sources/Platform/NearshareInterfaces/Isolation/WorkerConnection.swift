package import NearshareBase

#if canImport(Darwin)
    internal import Darwin
#else
    internal import Glibc
#endif

/// The connection to one worker, which may be in the hands of the peer whose bytes it has read: nothing waits for it longer than
/// the caller allows. Used by one thread.
package final class WorkerConnection {
    private let socket: Int32

    /// Starts a worker.
    /// - Parameter file: a descriptor that the worker receives a copy of.
    package init(_ launcher: any WorkerLauncher, _ job: WorkerJob, passing file: Int32? = nil) throws(SystemCallError) {
        socket = try launcher.start(job, passing: file)
    }

    deinit { close(socket) }

    /// Sends all bytes.
    /// - Returns: false when the worker has ended or does not read in time.
    package func send(_ bytes: UnsafeRawBufferPointer, by deadline: MonotonicInstant) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            guard wait(for: .writable, until: deadline) else { return false }
            let part = UnsafeRawBufferPointer(rebasing: rest)
            let sent = SocketCalls.sendWithoutSignal(part, to: socket, flags: Int32(MSG_DONTWAIT))
            if sent > 0 {
                rest = rest.dropFirst(sent)
            } else if sent == 0 || (errno != EINTR && errno != EAGAIN) {
                return false
            }
        }
        return true
    }

    /// Tells the worker that nothing more is sent.
    package func finishSending() { shutdown(socket, Int32(SHUT_WR)) }

    /// Receives bytes until the buffer is full or the worker ends the connection.
    /// - Returns: the number of bytes; nil when time is over.
    package func receive(into buffer: UnsafeMutableRawBufferPointer, by deadline: MonotonicInstant) -> Int? {
        var filled = 0
        while filled < buffer.count {
            guard wait(for: .readable, until: deadline) else { return nil }
            let count = recv(socket, buffer.baseAddress.map { $0 + filled }, buffer.count - filled, Int32(MSG_DONTWAIT))
            if count > 0 {
                filled += count
            } else if count == 0 || (errno != EINTR && errno != EAGAIN) {
                break
            }
        }
        return filled
    }

    /// Receives bytes until the worker ends the connection.
    /// - Parameter limit: on the bytes.
    /// - Returns: nil when time is over, or there are more bytes than the limit.
    package func receiveAll(limit: Int, by deadline: MonotonicInstant) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: limit + 1)
        let count = bytes.withUnsafeMutableBytes { receive(into: $0, by: deadline) }
        guard let count, count <= limit else { return nil }
        return Array(bytes[..<count])
    }

    private func wait(for events: DescriptorPoll.Events, until deadline: MonotonicInstant) -> Bool {
        let remaining = deadline - SystemClock.monotonic()
        return remaining > .zero && !DescriptorPoll.wait(for: socket, events, timeout: remaining).isEmpty
    }
}
