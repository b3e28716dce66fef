internal import Glibc
internal import Nearshare
internal import Synchronization

/// The terminal's other screen, for as long as a program needs all of it. The first one comes back on every way out: at the end, by
/// a signal, and when the program breaks down.
enum FullScreen {
    // Synchronized output, so that no terminal shows half a picture; where it isn't known it does nothing.
    private static let beginFrame = "\u{1b}[?2026h\u{1b}[?25l"
    private static let endFrame = "\u{1b}[?25h\u{1b}[?2026l"
    /// The other screen, without wrapping at its right edge, with pastes marked as such.
    private static let enterCode = "\u{1b}[?1049h\u{1b}[?7l\u{1b}[?2004h\u{1b}[0m\u{1b}[2J"
    // Written in a signal handler: bytes that lie ready.
    nonisolated(unsafe) private static let leaveCode: UnsafeMutableBufferPointer<UInt8> = {
        let bytes = Array("\u{1b}[?2026l\u{1b}[0m\u{1b}[?2004l\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l".utf8)
        let memory = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: bytes.count)
        _ = memory.initialize(from: bytes)
        return memory
    }()
    private static let descriptor = Atomic<Int32>(-1)
    private static let isPrepared = OnceFlag()

    static func enter(_ terminal: TerminalDevice) {
        if isPrepared.raise() { prepare() }
        RawMode.begin(terminal.descriptor, keepsSignals: false)
        descriptor.store(terminal.descriptor, ordering: .releasing)
        Console.write(enterCode, to: terminal.descriptor)
    }

    static func leave() {
        let terminal = descriptor.exchange(-1, ordering: .acquiringAndReleasing)
        guard terminal >= 0 else { return }
        _ = write(terminal, leaveCode.baseAddress, leaveCode.count)
        RawMode.end()
    }

    /// Hands the terminal back to the shell until the person comes back to this program.
    static func suspend(_ terminal: TerminalDevice) {
        leave()
        // Threads of the pool block signals; unblocked here, the process stops before this goes on.
        var set = sigset_t()
        var before = sigset_t()
        sigemptyset(&set)
        sigaddset(&set, SIGTSTP)
        pthread_sigmask(SIG_UNBLOCK, &set, &before)
        raise(SIGTSTP)
        pthread_sigmask(SIG_SETMASK, &before, nil)
        enter(terminal)
    }

    /// Draws the rows that have changed.
    /// - Parameter old: what is on the screen; nil when nothing is known of it.
    static func draw(
        _ picture: ChatScreen.Picture, over old: ChatScreen.Picture?, hasColor: Bool, hasUTF8: Bool, on terminal: TerminalDevice
    ) {
        var code = beginFrame
        for (row, line) in picture.lines.enumerated() {
            if let old, row < old.lines.count, old.lines[row] == line { continue }
            code += "\u{1b}[\(row + 1);1H\u{1b}[0m\u{1b}[2K" + line.encoded(hasColor: hasColor, hasUTF8: hasUTF8)
        }
        code += "\u{1b}[\(picture.cursorRow + 1);\(picture.cursorColumn + 1)H" + endFrame
        Console.write(code, to: terminal.descriptor)
    }

    private static func prepare() {
        _ = leaveCode.count
        atexit { FullScreen.leave() }
        for number in [SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV] {
            signal(number) { number in
                FullScreen.leave()
                signal(number, SIG_DFL)
                raise(number)
            }
        }
    }
}
