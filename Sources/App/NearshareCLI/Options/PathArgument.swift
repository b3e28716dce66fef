internal import ArgumentParser
internal import Nearshare

/// The path of a file or folder as the value of an option.
enum PathArgument {
    /// The path with the home directory in place of a leading `~/`, which shells expand only at the beginning of a word, and not
    /// in `--inbox=~/In`.
    /// - Throws: for an empty text, which names no file.
    @Sendable static func expanded(_ path: String) throws -> String {
        if path.isEmpty { throw ValidationError("expected a path, not an empty text") }
        return Directories.expanding(
            path, home: Directories(environment: LocalMachine.environment, home: LocalMachine.home).home)
    }
}
