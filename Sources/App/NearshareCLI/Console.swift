internal import Glibc
internal import Nearshare
internal import Synchronization

/// Where the tool speaks: results on standard output, everything else on standard error.
enum Console {
    /// A result.
    static func result(_ line: String) {
        ProgressDisplay.shared.around { write(line + "\n", to: STDOUT_FILENO) }
    }

    /// Who hears what is said while a full screen is shown, which other output would destroy.
    static let listener = Mutex<(@Sendable (String) -> Void)?>(nil)

    /// What happens, for the person.
    static func say(_ line: String) {
        if let listener = listener.withLock({ $0 }) { return listener(line) }
        ProgressDisplay.shared.around { write(line + "\n", to: STDERR_FILENO) }
    }

    static func complain(_ line: String) {
        say("nearshare: \(line)")
    }

    static func isTerminal(_ descriptor: Int32) -> Bool { isatty(descriptor) == 1 }

    /// Colours are wanted: `NO_COLOR` is not set, and there is a terminal that knows them.
    static func wantsColor(_ descriptor: Int32) -> Bool {
        if let value = getenv("NO_COLOR"), value.pointee != 0 { return false }
        if let terminal = getenv("TERM"), strcmp(terminal, "dumb") == 0 { return false }
        return isTerminal(descriptor)
    }

    static func columns(_ descriptor: Int32) -> Int {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    static func rows(_ descriptor: Int32) -> Int {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_row > 0 else { return 24 }
        return Int(size.ws_row)
    }

    static func write(_ text: String, to descriptor: Int32) {
        write(Array(text.utf8), to: descriptor)
    }

    /// A reader that has gone, as at the end of `| head`, ends the process as it would end any other tool.
    static func write(_ bytes: [UInt8], to descriptor: Int32) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count >= 0 {
                rest = rest.dropFirst(count)
            } else if errno == EPIPE {
                exit(descriptor == STDOUT_FILENO ? ExitStatus.ok.rawValue : ExitStatus.failure.rawValue)
            } else if errno != EINTR, errno != EAGAIN {
                return
            }
        }
    }
}
