internal import ArgumentParser
internal import NearshareService

/// The option for files that go out readable by all relays.
struct UnsealedFileOptions: ParsableArguments {
    @Flag(
        name: .customLong("allow-unencrypted"),
        help: """
            Send without a question to an app of the mesh that takes only files readable by everyone who relays them.
            """)
    var isAllowed = false

    /// - Parameter isQuiet: whether the user is not to be asked.
    /// - Returns: nil where the user cannot be asked, and has allowed nothing.
    func confirmation(isQuiet: Bool) -> UnsealedConfirmation? {
        if isAllowed { return UnsealedConfirmation { _ in true } }
        return isQuiet ? nil : .onTerminal
    }
}
