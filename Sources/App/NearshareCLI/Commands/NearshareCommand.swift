package import ArgumentParser
internal import CNearshareShims
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// `nearshare`
package struct NearshareCommand: AsyncParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "nearshare", abstract: "Send files, folders and text to people nearby: no account, no server, no set-up.",
        discussion: """
            On one machine:   nearshare receive
            On another one:   nearshare send photo.jpg --to anna
            """,
        version: "nearshare \(NearshareVersion.current)",
        subcommands: [
            ReceiveCommand.self, SendCommand.self, BrowseCommand.self, FriendsCommand.self, ChatCommand.self,
            MessageCommand.self, MessagesCommand.self, MeshCommand.self, PeersCommand.self, KeysCommand.self,
            IdentityCommand.self,
            InboxCommand.self, VoiceCommand.self, DoctorCommand.self,
        ])

    package init() {}

    /// Parses the command line, runs the command and ends the process. Called by `main`.
    package static func start() async {
        // Bulk transfer uses and frees large blocks all the time.
        nearshare_keep_freed_memory()
        // A crash must not leave keys in a file (K5).
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        setrlimit(__rlimit_resource_t(UInt32(RLIMIT_CORE.rawValue)), &none)
        // A reader that goes away is told by the write, and is no reason to die in the middle of a transfer.
        signal(SIGPIPE, SIG_IGN)
        do {
            var command = try parseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch {
            let code = exitCode(for: error)
            let text = fullMessage(for: error)
            if code.isSuccess {
                // Help and version are what was asked for.
                if !text.isEmpty { Console.result(text) }
                Glibc.exit(ExitStatus.ok.rawValue)
            }
            if !text.isEmpty { DescriptorOutput.write(text + "\n", to: STDERR_FILENO) }
            Glibc.exit(code == .validationFailure ? ExitStatus.usage.rawValue : code.rawValue)
        }
    }
}
