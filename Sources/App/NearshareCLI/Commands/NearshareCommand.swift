package import ArgumentParser
internal import CNearshareShims
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// The root command, `nearshare`.
package struct NearshareCommand: AsyncParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "nearshare", abstract: "Send files, folders and text to people nearby: no account, no server, no set-up.",
        usage: "nearshare <subcommand>",
        discussion: """
            On one machine:   nearshare receive
            On another:       nearshare send photo.jpg --to anna
            """,
        version: "nearshare \(NearshareVersion.current)",
        subcommands: [
            ReceiveCommand.self, SendCommand.self, BrowseCommand.self, FriendsCommand.self, ChatCommand.self,
            MessageCommand.self, MessagesCommand.self, MeshCommand.self, PeersCommand.self, KeysCommand.self,
            IdentityCommand.self, InboxCommand.self, HistoryCommand.self, VoiceCommand.self, ConfigCommand.self,
            NotifyCommand.self, SetupCommand.self, DoctorCommand.self,
        ])

    /// Prefix of the parser's messages, as of all others.
    package static var _errorPrefix: String { Console.messagePrefix }

    @Flag(help: "With --version: the build, the libraries that it finds here, and features.")
    var verbose = false

    package init() {}

    /// The number of descriptors that the process may have open where the system allows it.
    static let descriptorLimit: rlim_t = 8_192

    package func validate() throws {
        if verbose { throw ValidationError("--verbose belongs to --version; -v of a command logs more") }
    }

    /// Parses the command line and prepares the process, which has one thread. Called by `main`.
    package static func prepare() -> Result<PreparedCommand, any Error> {
        openMissingStandardDescriptors()
        // Bulk transfers allocate and free large blocks continuously.
        nearshare_keep_freed_memory()
        // A core dump would contain keys (K5).
        var limit = rlimit(rlim_cur: 0, rlim_max: 0)
        setrlimit(__rlimit_resource_t(UInt32(RLIMIT_CORE.rawValue)), &limit)
        raiseDescriptorLimit()
        // A closed pipe is reported by write(2), and must not end the process during a transfer.
        signal(SIGPIPE, SIG_IGN)
        // Swift's runtime reads the arguments from /proc. Without it, a thread that needs it ends the process at any later time.
        guard access("/proc/self/stat", R_OK) == 0 else {
            Console.warn(
                "/proc is not mounted, or cannot be read, and nearshare needs it; in a container, `mount -t proc proc /proc` mounts it"
            )
            Glibc.exit(ExitStatus.failure.rawValue)
        }
        return Result { try PreparedCommand.parse() }
    }

    /// Runs the command and ends the process if it fails. Called by `main`.
    package static func run(_ command: sending Result<PreparedCommand, any Error>) async {
        do {
            try await command.get().run()
        } catch {
            let code = exitCode(for: error)
            let descriptor = code.isSuccess ? STDOUT_FILENO : STDERR_FILENO
            let columns = TerminalProperties.isTerminal(descriptor) ? TerminalProperties.size(of: descriptor).columns : nil
            let text = HelpLayout.text(
                fullMessage(for: error, columns: HelpLayout.parserColumns(for: columns)), columns: columns)
            let words = CommandLine.arguments.dropFirst()
            // The parser answers `help` of an unknown command with the general help.
            let isHelp = words.first == "help"
            if code == .validationFailure || isHelp,
                let sentence = CommandSuggestion.sentence(for: isHelp ? words.dropFirst() : words)
            {
                Console.warn(sentence)
                Glibc.exit(ExitStatus.usage.rawValue)
            }
            if code.isSuccess {
                // The requested output: help or version.
                let isScript = words.contains { $0.hasPrefix("--generate-completion-script") }
                let output = isScript ? CompletionScript.adapted(text, for: NearshareCommand.self) : text
                if !output.isEmpty { Console.writeResult(output) }
                if text == configuration.version, words.contains("--verbose") {
                    Console.writeTable(BuildDescription().rows())
                }
                Glibc.exit(ExitStatus.ok.rawValue)
            }
            if !text.isEmpty { Console.notice(text) }
            Glibc.exit(code == .validationFailure ? ExitStatus.usage.rawValue : code.rawValue)
        }
    }
}

/// Occupies the standard descriptors that the caller has closed: otherwise the next file or socket would get their numbers, and
/// receive what is written for the user. Reading from standard input and writing to standard output then fail, as they should.
private func openMissingStandardDescriptors() {
    for (descriptor, mode) in [(STDIN_FILENO, O_WRONLY), (STDOUT_FILENO, O_RDONLY), (STDERR_FILENO, O_WRONLY)]
    where fcntl(descriptor, F_GETFD) < 0 {
        // open(2) returns the lowest free number, which is this one.
        _ = open("/dev/null", mode)
    }
}

/// Raises the number of descriptors that this process may have open, up to what the system allows: each link, transfer and
/// database takes some, and the usual limit of 1024 is for programs that use select(2).
private func raiseDescriptorLimit() {
    let resource = __rlimit_resource_t(UInt32(RLIMIT_NOFILE.rawValue))
    var limit = rlimit()
    guard getrlimit(resource, &limit) == 0 else { return }
    let wanted = min(limit.rlim_max, NearshareCommand.descriptorLimit)
    guard limit.rlim_cur < wanted else { return }
    limit.rlim_cur = wanted
    setrlimit(resource, &limit)
}
