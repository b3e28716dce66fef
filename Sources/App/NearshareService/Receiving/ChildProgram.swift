internal import Glibc
internal import Synchronization

/// A program that this process runs, and its end.
package enum ChildProgram {
    package enum Outcome: Sendable, Hashable, Codable {
        case exited(Int32)
        case killed(signal: Int32)
        case notStarted(code: Int32)
    }

    /// Runs a program in the background and waits for its end. Blocks. No shell reads the words.
    /// - Parameters:
    ///   - words: the program, which is looked for in PATH, and its arguments.
    ///   - input: its standard input; nil for an empty one.
    ///   - output: its standard output.
    ///   - errors: its standard error; nil for `output`.
    ///   - termination: ends it from another thread; nil for a program that ends by itself.
    package static func run(
        _ words: [String], input: Int32? = nil, output: Int32, errors: Int32? = nil, termination: Termination? = nil
    ) -> Outcome {
        start(words, hasTerminal: false, termination) { actions in
            if let input {
                posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO)
            } else {
                posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
            }
            posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO)
            posix_spawn_file_actions_adddup2(&actions, errors ?? output, STDERR_FILENO)
        }
    }

    /// The code of the error (errno(3)) with which a program could not be started now; nil where an executable file is found.
    /// - Parameter program: looked for in PATH, unless it has a slash.
    package static func lookupError(of program: String) -> Int32? {
        let path = getenv("PATH").map { String(cString: $0) } ?? "/bin:/usr/bin"
        let folders = path.split(separator: ":", omittingEmptySubsequences: false)
        let candidates = program.contains("/") ? [program] : folders.map { $0.isEmpty ? program : "\($0)/\(program)" }
        var code = ENOENT
        for candidate in candidates where access(candidate, F_OK) == 0 {
            var status = stat()
            if access(candidate, X_OK) == 0, stat(candidate, &status) == 0, status.st_mode & S_IFMT == S_IFREG { return nil }
            code = EACCES
        }
        return code
    }

    /// Runs a program that has the terminal until it ends, such as sudo, which asks for a password. Blocks. No shell reads the
    /// words.
    /// - Parameters:
    ///   - words: the program, which is looked for in PATH, and its arguments.
    ///   - isQuiet: whether its output is dropped.
    /// - Returns: whether it ended successfully; false also when it could not be started.
    package static func runInTerminal(_ words: [String], isQuiet: Bool = false) -> Bool {
        let outcome = start(words, hasTerminal: true, nil) { actions in
            guard isQuiet else { return }
            for descriptor in [STDOUT_FILENO, STDERR_FILENO] {
                posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_WRONLY, 0)
            }
        }
        return outcome == .exited(0)
    }

    /// Starts a program and waits for its end. All signals have their usual actions, and none is blocked: this process ignores,
    /// handles or blocks signals that the program expects to end it.
    /// - Parameters:
    ///   - hasTerminal: whether Ctrl-C in the terminal reaches the program as well, and ends it.
    ///   - redirect: adds the actions on its standard streams.
    private static func start(
        _ words: [String], hasTerminal: Bool, _ termination: Termination?,
        redirect: (inout posix_spawn_file_actions_t) -> Void
    ) -> Outcome {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        redirect(&actions)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var all = sigset_t()
        sigfillset(&all)
        posix_spawnattr_setsigdefault(&attributes, &all)
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        var flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK
        if !hasTerminal {
            posix_spawnattr_setpgroup(&attributes, 0)
            flags |= POSIX_SPAWN_SETPGROUP
        }
        posix_spawnattr_setflags(&attributes, Int16(flags))
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

    /// Replaces this process by a program, which has the terminal then. All signals have their usual actions, as in `start`, and
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
