import ArgumentParser
import Nearshare
import NearshareAudio
import NearshareService
import Testing

@testable import NearshareCLI

/// The command that a command line means.
func parse<Command: ParsableCommand>(_ line: [String], as type: Command.Type = Command.self) throws -> Command {
    let command = try NearshareCommand.parseAsRoot(line)
    return try #require(command as? Command, "\(line) is parsed as \(Swift.type(of: command))")
}

/// The usage error of a command line.
func usageError(_ line: [String]) -> String? {
    do {
        _ = try NearshareCommand.parseAsRoot(line)
        return nil
    } catch {
        guard NearshareCommand.exitCode(for: error) == .validationFailure else { return nil }
        return NearshareCommand.message(for: error)
    }
}

func words(_ line: String) -> [String] { line.split(separator: " ").map(String.init) }
