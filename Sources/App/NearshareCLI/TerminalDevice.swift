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

    /// What the person types, line by line, until the terminal has gone or the reader goes. Back from the background, an empty
    /// line is as if Enter had been pressed: whoever reads shows again what is asked.
    ///
    /// A thread of its own waits, in steps, so that it ends soon after nobody listens any more.
    func lines() -> AsyncStream<String> {
        AsyncStream { continuation in
            let isOver = OnceFlag()
            continuation.onTermination = { _ in isOver.raise() }
            BlockingThread.start { [self] in
                Self.keepGoingInBackground()
                var pending: [UInt8] = []
                var wasForeground = true
                while !isOver.isRaised {
                    guard isForeground else {
                        // The keys belong to another process; reading them would stop this one.
                        wasForeground = false
                        pause()
                        continue
                    }
                    if !wasForeground { continuation.yield("") }
                    wasForeground = true
                    switch readSome(milliseconds: 100) {
                    case .bytes(let bytes): pending += bytes
                    case .nothing: break
                    // Ctrl-D: not the end of a terminal, whose next line may be an answer. Pausing, as one that only seems to
                    // be there would say this all the time.
                    case .endOfInput: pause()
                    case .gone:
                        // A race: it went to the background between the look and the read.
                        if isForeground { return continuation.finish() }
                    }
                    while let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                        continuation.yield(String(decoding: pending[..<end], as: UTF8.self))
                        pending.removeSubrange(...end)
                    }
                }
                continuation.finish()
            }
        }
    }

    /// Forgets what has been typed and not yet read.
    func discardTyped() {
        // From the background it would stop this process.
        if isForeground { tcflush(descriptor, TCIFLUSH) }
    }

    /// The keys are this process's; also where that can't be told, as of a terminal that has gone.
    private var isForeground: Bool {
        let group = tcgetpgrp(descriptor)
        return group < 0 || group == getpgrp()
    }

    private func pause() { poll(nil, 0, 100) }

    /// On this thread a read from the background fails, instead of stopping the process.
    private static func keepGoingInBackground() {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGTTIN)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
    }

    /// Single keys, as bytes, with the terminal in raw mode meanwhile.
    func keys() -> AsyncStream<[UInt8]> {
        AsyncStream { continuation in
            let isOver = OnceFlag()
            continuation.onTermination = { _ in isOver.raise() }
            BlockingThread.start { [self] in
                let mode = RawMode.begin(descriptor)
                readKeys(until: isOver) { if !$0.isEmpty { continuation.yield($0) } }
                RawMode.end(mode)
                continuation.finish()
            }
        }
    }

    /// Reads what is pressed until the flag is raised or the device ends. Blocks.
    /// - Parameter take: gets the bytes of each read, and none when nothing was pressed for a while.
    func readKeys(until isOver: OnceFlag, _ take: ([UInt8]) -> Void) {
        while !isOver.isRaised {
            switch readSome(milliseconds: 50) {
            case .bytes(let bytes): take(bytes)
            case .nothing: take([])
            // In raw mode Ctrl-D is a key, and this the end.
            case .endOfInput, .gone: return
            }
        }
    }

    private enum Reading {
        case bytes([UInt8])
        /// No key was pressed in time.
        case nothing
        /// Ctrl-D at the beginning of a line, or the end of the device.
        case endOfInput
        case gone
    }

    private func readSome(milliseconds: Int32) -> Reading {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        let ready = poll(&waiting, 1, milliseconds)
        guard ready > 0 else { return ready == 0 || errno == EINTR ? .nothing : .gone }
        var buffer = [UInt8](repeating: 0, count: 256)
        let count = read(descriptor, &buffer, buffer.count)
        if count < 0 { return errno == EINTR || errno == EAGAIN ? .nothing : .gone }
        if count > 0 { return .bytes(Array(buffer[..<count])) }
        return waiting.revents & Int16(POLLHUP | POLLERR | POLLNVAL) != 0 ? .gone : .endOfInput
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
///
/// Screens follow one another: one that ends late does not end the mode of the one that has begun meanwhile.
enum RawMode {
    /// Who has begun it.
    struct Mode: Sendable, Hashable {
        fileprivate var number: Int
    }

    // Touched by one thread at a time, and by atexit; plain memory, because a signal may come at any moment.
    nonisolated(unsafe) private static var saved = termios()
    private static let descriptor = Atomic<Int32>(-1)
    private static let latest = Atomic<Int>(0)

    /// - Parameter keepsSignals: Ctrl-C and Ctrl-Z stay signals instead of becoming keys.
    @discardableResult
    static func begin(_ terminal: Int32, keepsSignals: Bool = true) -> Mode {
        let mode = Mode(number: latest.add(1, ordering: .acquiringAndReleasing).newValue)
        let isFirst = descriptor.load(ordering: .acquiring) < 0
        if isFirst, tcgetattr(terminal, &saved) != 0 { return mode }
        var raw = saved
        cfmakeraw(&raw)
        raw.c_oflag |= tcflag_t(OPOST)
        if keepsSignals { raw.c_lflag |= tcflag_t(ISIG) }
        descriptor.store(terminal, ordering: .releasing)
        if isFirst { atexit { RawMode.end() } }
        tcsetattr(terminal, TCSANOW, &raw)
        return mode
    }

    static func end(_ mode: Mode) {
        if mode.number == latest.load(ordering: .acquiring) { end() }
    }

    static func end() {
        let terminal = descriptor.exchange(-1, ordering: .acquiringAndReleasing)
        if terminal >= 0 { tcsetattr(terminal, TCSANOW, &saved) }
    }
}
