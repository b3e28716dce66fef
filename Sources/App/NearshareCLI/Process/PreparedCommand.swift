internal import ArgumentParser
internal import Glibc
internal import NearshareService
internal import NearshareTerminal

/// A parsed command whose process is prepared.
package struct PreparedCommand {
    let run: () async throws -> Void

    /// Called while the process has one thread.
    /// - Throws: the errors of the command line.
    static func parse() throws -> PreparedCommand {
        let command = try NearshareCommand.parseAsRoot(
            OptionValues.joinNegative(in: Array(CommandLine.arguments.dropFirst())))
        if let command = command as? any ConfinedCommand {
            let prepared = Result { try command.prepare() }
            return PreparedCommand { try await runCommand { try await prepared.get()() } }
        }
        return PreparedCommand {
            var command = command
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        }
    }
}

/// Runs the body of a command; reports a failure on standard error and as the exit status.
func runCommand(_ body: () async throws -> Void) async throws {
    do {
        try await body()
        if let problem = DescriptorOutput.outputFailure { throw CommandFailure(.failure, problem) }
    } catch is SignalHandling.Interrupted {
        // The terminal has shown ^C where the shell writes its prompt.
        if !StatusDisplay.shared.clear(), TerminalProperties.isTerminal(STDERR_FILENO) {
            DescriptorOutput.write("\n", to: STDERR_FILENO)
        }
        throw ExitCode(ExitStatus.interrupted.rawValue)
    } catch {
        let failure = CommandFailure(error)
        StatusDisplay.shared.clear()
        if !failure.message.isEmpty { Console.warn(failure.message) }
        throw ExitCode(failure.status.rawValue)
    }
}
