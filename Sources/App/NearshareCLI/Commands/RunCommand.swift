internal import ArgumentParser
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// Runs a command's body, and turns what it throws into a message and an exit code.
func runCommand(_ body: () async throws -> Void) async throws {
    do {
        try await body()
    } catch is SignalHandling.Interrupted {
        StatusDisplay.shared.clear()
        throw ExitCode(ExitStatus.interrupted.rawValue)
    } catch {
        let failure = CommandFailure(error)
        StatusDisplay.shared.clear()
        if !failure.message.isEmpty { Console.complain(failure.message) }
        throw ExitCode(failure.status.rawValue)
    }
}
