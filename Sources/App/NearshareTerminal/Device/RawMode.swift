internal import Glibc
internal import Synchronization

/// Raw mode of the terminal: no line editing, no echo. Every way out of the process restores the previous mode.
///
/// Screens may overlap in time: a screen that ends late does not end the mode that its successor has begun.
package enum RawMode {
    /// One request for raw mode.
    package struct Token: Sendable, Hashable {
        fileprivate var number: Int
    }

    // Written by the first `begin` and read by `end`, also from `atexit` and signal handlers: plain memory, no lock.
    nonisolated(unsafe) private static var savedMode = termios()
    private static let descriptor = Atomic<Int32>(-1)
    private static let latest = Atomic<Int>(0)
    /// Raised when the mode is restored at the end of the process.
    private static let endsAtExit = OnceFlag()

    /// Switches the terminal to raw mode.
    /// - Parameter keepsSignals: Ctrl-C and Ctrl-Z stay signals; otherwise they become keys.
    @discardableResult
    package static func begin(on terminal: Int32, keepsSignals: Bool = true) -> Token {
        let token = Token(number: latest.add(1, ordering: .acquiringAndReleasing).newValue)
        let isFirst = descriptor.load(ordering: .acquiring) < 0
        if isFirst, tcgetattr(terminal, &savedMode) != 0 { return token }
        var raw = savedMode
        cfmakeraw(&raw)
        // Line feeds in other output keep returning the carriage.
        raw.c_oflag |= tcflag_t(OPOST)
        if keepsSignals { raw.c_lflag |= tcflag_t(ISIG) }
        descriptor.store(terminal, ordering: .releasing)
        if endsAtExit.raise() { atexit { RawMode.end() } }
        tcsetattr(terminal, TCSANOW, &raw)
        return token
    }

    /// Restores the mode unless a later ``begin(on:keepsSignals:)`` has taken over.
    package static func end(_ token: Token) {
        if token.number == latest.load(ordering: .acquiring) { end() }
    }

    /// Restores the mode. Safe in signal handlers.
    package static func end() {
        let terminal = descriptor.exchange(-1, ordering: .acquiringAndReleasing)
        guard terminal >= 0 else { return }
        // In the background the mode is that of another process group, and the call would stop this process (SIGTTOU).
        let group = tcgetpgrp(terminal)
        if group < 0 || group == getpgrp() { tcsetattr(terminal, TCSANOW, &savedMode) }
    }
}
