internal import Glibc
package import Nearshare

/// The contacts of the node that runs on this machine, read on the calling thread, for the completion of words in a shell.
package enum ContactQuery {
    /// - Parameter timeout: the user waits for the shell.
    /// - Returns: no contacts when no node runs, or when it does not reply in time.
    package static func contacts(of machine: LocalMachine, timeout: Duration) -> [Contact] {
        let deadline = SystemClock.monotonic() + timeout
        guard let descriptor = UnixSocket.connect(to: machine.controlSocketPath) else { return [] }
        defer { close(descriptor) }
        guard let request = ControlLine.request(1, .contacts).encoded,
            (try? DescriptorIO.sendAll(request + [UInt8(ascii: "\n")], to: descriptor)) != nil
        else { return [] }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while bytes.count <= LineLink.maximumLineByteCount {
            let timeLeft = deadline - SystemClock.monotonic()
            var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard timeLeft > .zero, poll(&waiting, 1, Int32(timeLeft.inSeconds * 1000) + 1) > 0 else { return [] }
            let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
            guard count > 0 else { return [] }
            bytes += buffer[..<count]
            // The reply is the first line: nothing was subscribed to.
            guard let end = bytes.firstIndex(of: UInt8(ascii: "\n")) else { continue }
            guard case .reply(1, .contacts(let contacts))? = ControlLine(Array(bytes[..<end])) else { return [] }
            return contacts
        }
        return []
    }
}
