internal import Glibc
internal import Synchronization

/// The alternate screen of a terminal. Every way out restores the main screen: the normal end, a signal, a crash.
package enum FullScreen {
    /// The alternate screen, without automatic wrapping, with bracketed paste.
    private static let enterSequence = "\u{1b}[?1049h\u{1b}[?7l\u{1b}[?2004h\u{1b}[0m\u{1b}[2J"
    // Written by signal handlers, so the bytes are allocated in advance and never freed.
    nonisolated(unsafe) private static let leaveSequence: UnsafeMutableBufferPointer<UInt8> = {
        let bytes = Array("\u{1b}[?2026l\u{1b}[0m\u{1b}[?2004l\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l".utf8)
        let memory = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: bytes.count)
        _ = memory.initialize(from: bytes)
        return memory
    }()
    private static let descriptor = Atomic<Int32>(-1)
    private static let isPrepared = OnceFlag()

    package static func enter(_ terminal: TerminalDevice) {
        if isPrepared.raise() { prepare() }
        RawMode.begin(on: terminal.descriptor, keepsSignals: false)
        descriptor.store(terminal.descriptor, ordering: .releasing)
        DescriptorOutput.write(enterSequence, to: terminal.descriptor)
    }

    package static func leave() {
        let terminal = descriptor.exchange(-1, ordering: .acquiringAndReleasing)
        guard terminal >= 0 else { return }
        _ = write(terminal, leaveSequence.baseAddress, leaveSequence.count)
        RawMode.end()
    }

    /// Stops the process, as Ctrl-Z does in other programs. Returns after the user has resumed it.
    package static func suspend(_ terminal: TerminalDevice) {
        leave()
        // Threads of the pool block signals. Unblocked here, the signal stops the process before this function goes on.
        var signals = sigset_t()
        var savedMask = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGTSTP)
        pthread_sigmask(SIG_UNBLOCK, &signals, &savedMask)
        raise(SIGTSTP)
        pthread_sigmask(SIG_SETMASK, &savedMask, nil)
        enter(terminal)
    }

    private static func prepare() {
        _ = leaveSequence.count
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
