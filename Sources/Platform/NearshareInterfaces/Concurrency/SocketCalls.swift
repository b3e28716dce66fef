#if canImport(Darwin)
    internal import Darwin
#else
    internal import Glibc
#endif

/// The kernel's description of an error, in lower case.
package func systemErrorText(_ code: Int32 = errno) -> String { String(cString: strerror(code)).lowercased() }

/// Calls on sockets that several adapters make.
package enum SocketCalls {
    /// Connects a blocking socket, for at most `timeout`.
    /// - Parameters:
    ///   - cancellation: a signal ends the call; nil for none.
    ///   - connect: connect(2) on the descriptor.
    /// - Returns: 0, or the number of the error: `ETIMEDOUT` when time is over, `ECANCELED` after the signal.
    package static func connect(
        _ descriptor: Int32, timeout: Duration, cancelledBy cancellation: EventFD? = nil, _ connect: () -> Int32
    ) -> Int32 {
        let flags = fcntl(descriptor, F_GETFL)
        _ = fcntl(descriptor, F_SETFL, flags | O_NONBLOCK)
        defer { _ = fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK) }
        guard connect() != 0 else { return 0 }
        guard errno == EINPROGRESS else { return errno }
        let wakeup = cancellation?.descriptor ?? -1
        let events = DescriptorPoll.wait(for: [(descriptor, .writable), (wakeup, .readable)], timeout: timeout)
        guard events[1].isEmpty else { return ECANCELED }
        guard !events[0].isEmpty else { return ETIMEDOUT }
        var code: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length)
        return code
    }

    /// Calls send(2). A closed connection is the error `EPIPE`, and no signal.
    /// - Returns: the number of bytes sent; -1 with errno set.
    package static func sendWithoutSignal(_ bytes: UnsafeRawBufferPointer, to socket: Int32, flags: Int32 = 0) -> Int {
        #if canImport(Darwin)
            // There is no flag for a single call.
            _ = setOption(SO_NOSIGPIPE, level: SOL_SOCKET, to: 1, of: socket)
            return send(socket, bytes.baseAddress, bytes.count, flags)
        #else
            return send(socket, bytes.baseAddress, bytes.count, flags | Int32(MSG_NOSIGNAL))
        #endif
    }

    /// Sets an integer option; options that the kernel does not have are no error.
    package static func setOption(_ option: Int32, level: Int32, to value: Int32, of descriptor: Int32) -> Bool {
        var value = value
        return setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size)) == 0
    }
}
