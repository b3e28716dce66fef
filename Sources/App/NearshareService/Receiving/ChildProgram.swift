internal import Glibc
internal import Synchronization

/// A program that runs in the background, and its end.
package enum ChildProgram {
    package enum Outcome: Sendable, Hashable, Codable {
        case exited(Int32)
        case killed(signal: Int32)
        case notStarted(code: Int32)
    }

    /// Runs a program and waits for its end. Blocks. No shell reads the words.
    /// - Parameters:
    ///   - words: the program, which is looked for in PATH, and its arguments.
    ///   - input: its standard input; nil for an empty one.
    ///   - output: its standard output.
    ///   - errors: its standard error; nil for `output`.
    ///   - termination: ends it from another thread; nil for a program that ends by itself.
    package static func run(
        _ words: [String], input: Int32? = nil, output: Int32, errors: Int32? = nil, termination: Termination? = nil
    ) -> Outcome {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if let input {
            posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO)
        } else {
            posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
        }
        posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO)
        posix_spawn_file_actions_adddup2(&actions, errors ?? output, STDERR_FILENO)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigfillset(&signals)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        // A thread of this process may have blocked them.
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        // Ctrl-C in the terminal ends the receiver, and not what it has started.
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP))
        var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var process = pid_t()
        let code = posix_spawnp(&process, words[0], &actions, &attributes, &arguments, environ)
        guard code == 0 else { return .notStarted(code: code) }
        if let termination {
            termination.begin(process)
            // The process keeps its id until it is waited for without WNOWAIT, so that no signal reaches another one.
            var end = siginfo_t()
            while waitid(P_PID, id_t(process), &end, WEXITED | WNOWAIT) < 0, errno == EINTR {}
            termination.end()
        }
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0 { guard errno == EINTR else { return .notStarted(code: errno) } }
        let signal = status & 0x7f
        return signal == 0 ? .exited((status >> 8) & 0xff) : .killed(signal: signal)
    }

    /// Replaces this process by a program, which has the terminal then. All signals have their usual actions, as in `run`, and
    /// none is blocked.
    /// - Parameter words: the program, which is looked for in PATH, and its arguments.
    /// - Returns: the code of the error (errno(3)), where the program cannot be started.
    package static func replaceThisProcess(by words: [[UInt8]]) -> Int32 {
        var arguments: [UnsafeMutablePointer<CChar>?] =
            words.map { word in strdup(word.map { CChar(bitPattern: $0) } + [0]) } + [nil]
        defer { for argument in arguments { free(argument) } }
        guard let program = arguments[0] else { return ENOENT }
        // Those that cannot be changed stay as they are.
        for number in 1...maximumSignalNumber { signal(number, SIG_DFL) }
        var none = sigset_t()
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, nil)
        execvp(program, &arguments)
        return errno
    }

    /// The last of the real-time signals (signal(7)).
    private static let maximumSignalNumber: Int32 = 64

    /// Ends a program before its time.
    package final class Termination: Sendable {
        private struct State {
            var process: pid_t?
            var isRequested = false
        }

        private let state = Mutex(State())

        package init() {}

        /// Sends SIGTERM to the program, or to one that is started later.
        /// - Returns: whether it runs.
        @discardableResult
        package func request() -> Bool {
            state.withLock { state in
                state.isRequested = true
                guard let process = state.process else { return false }
                kill(process, SIGTERM)
                return true
            }
        }

        fileprivate func begin(_ process: pid_t) {
            state.withLock { state in
                state.process = process
                if state.isRequested { kill(process, SIGTERM) }
            }
        }

        fileprivate func end() { state.withLock { $0.process = nil } }
    }
}
