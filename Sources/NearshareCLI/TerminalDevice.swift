internal import Glibc
internal import Nearshare
internal import Synchronization

/// The terminal that the person sits at, whatever standard input and output are connected to: for questions.
final class TerminalDevice: Sendable {
    let descriptor: Int32

    /// - Returns: nil where there is no terminal.
    init?() {
        descriptor = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)
        guard descriptor >= 0 else { return nil }
    }

    deinit { close(descriptor) }

    func write(_ text: String) {
        ProgressDisplay.shared.around { Console.write(text, to: descriptor) }
    }

    /// What the person types, line by line, until the device ends or the reader goes.
    ///
    /// A thread of its own waits, in steps, so that it ends soon after nobody listens any more.
    func lines() -> AsyncStream<String> {
        AsyncStream { continuation in
            let isOver = OnceFlag()
            continuation.onTermination = { _ in isOver.raise() }
            BlockingThread.start { [self] in
                var pending: [UInt8] = []
                while !isOver.isRaised {
                    guard let bytes = readSome(milliseconds: 100) else { break }
                    pending += bytes
                    while let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                        continuation.yield(String(decoding: pending[..<end], as: UTF8.self))
                        pending.removeSubrange(...end)
                    }
                }
                continuation.finish()
            }
        }
    }

    /// Single keys, as bytes, with the terminal in raw mode meanwhile.
    func keys() -> AsyncStream<[UInt8]> {
        AsyncStream { continuation in
            let isOver = OnceFlag()
            continuation.onTermination = { _ in isOver.raise() }
            BlockingThread.start { [self] in
                RawMode.begin(descriptor)
                while !isOver.isRaised {
                    guard let bytes = readSome(milliseconds: 50) else { break }
                    if !bytes.isEmpty { continuation.yield(bytes) }
                }
                RawMode.end()
                continuation.finish()
            }
        }
    }

    /// - Returns: nothing when no key was pressed in time; nil at the end of the device.
    private func readSome(milliseconds: Int32) -> [UInt8]? {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        let ready = poll(&waiting, 1, milliseconds)
        guard ready > 0 else { return ready == 0 || errno == EINTR ? [] : nil }
        var buffer = [UInt8](repeating: 0, count: 256)
        let count = read(descriptor, &buffer, buffer.count)
        if count < 0 { return errno == EINTR || errno == EAGAIN ? [] : nil }
        return count == 0 ? nil : Array(buffer[..<count])
    }
}

/// Raises once.
final class OnceFlag: Sendable {
    private let value = Atomic(false)

    var isRaised: Bool { value.load(ordering: .acquiring) }

    /// - Returns: whether it was down before.
    @discardableResult
    func raise() -> Bool { !value.exchange(true, ordering: .acquiringAndReleasing) }
}

/// The terminal without line editing and echo. It is put back on every way out.
enum RawMode {
    // Touched by one thread at a time, and by atexit; plain memory, because a signal may come at any moment.
    nonisolated(unsafe) private static var saved = termios()
    private static let descriptor = Atomic<Int32>(-1)

    static func begin(_ terminal: Int32) {
        guard tcgetattr(terminal, &saved) == 0 else { return }
        var raw = saved
        cfmakeraw(&raw)
        raw.c_oflag |= tcflag_t(OPOST)
        raw.c_lflag |= tcflag_t(ISIG)
        if descriptor.exchange(terminal, ordering: .acquiringAndReleasing) < 0 { atexit { RawMode.end() } }
        tcsetattr(terminal, TCSANOW, &raw)
    }

    static func end() {
        let terminal = descriptor.exchange(-1, ordering: .acquiringAndReleasing)
        if terminal >= 0 { tcsetattr(terminal, TCSANOW, &saved) }
    }
}
