internal import Glibc
package import Nearshare

/// Reads whole inputs of a command that have a limit.
package enum InputReader {
    /// Reads to the end of the input, or `limit` bytes.
    package static func read(_ descriptor: Int32, upTo limit: Int) throws(SystemCallError) -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: min(limit, 65_536))
        while bytes.count < limit {
            let count = Glibc.read(descriptor, &buffer, min(buffer.count, limit - bytes.count))
            if count == 0 { break }
            if count > 0 {
                bytes += buffer[..<count]
            } else if errno == EAGAIN {
                // Another process has made the pipe non-blocking.
                var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                poll(&wait, 1, -1)
            } else if errno != EINTR {
                throw SystemCallError(code: errno)
            }
        }
        return bytes
    }

    /// Reads the text on standard input, without the newline at its end.
    /// - Parameter tooLong: the message about a text of more than `limit` bytes.
    package static func readText(upTo limit: Int, tooLong: String) throws(CommandFailure) -> String {
        let bytes: [UInt8]
        do throws(SystemCallError) {
            // With the newline, which may be two characters.
            bytes = try read(STDIN_FILENO, upTo: limit + 3)
        } catch {
            throw CommandFailure(.failure, "could not read standard input: \(systemErrorText(error.code))")
        }
        return try text(of: bytes, upTo: limit, tooLong: tooLong)
    }

    static func text(of bytes: [UInt8], upTo limit: Int, tooLong: String) throws(CommandFailure) -> String {
        // The last one may be a part of a character.
        guard bytes.count <= limit + 2 else { throw CommandFailure(.noSpace, tooLong) }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw CommandFailure(.usage, "standard input is not UTF-8 text; send it as a file with `nearshare send -`")
        }
        let line = text.last?.isNewline == true ? String(text.dropLast()) : text
        guard line.utf8.count <= limit else { throw CommandFailure(.noSpace, tooLong) }
        guard !line.isEmpty else { throw CommandFailure(.usage, MessengerError.nothingToSay.description) }
        return line
    }
}
