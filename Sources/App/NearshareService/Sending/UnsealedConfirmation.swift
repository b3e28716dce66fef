internal import Nearshare

/// Asks the user whether a file may go out readable by everyone who relays it, for an app that takes no encrypted files: Android's
/// up to 1.7.4, and iOS' up to 1.7.0.
package struct UnsealedConfirmation: Sendable {
    /// The outcome of a file in the mesh whose receiver takes no encrypted ones.
    static let occasion = TransferOutcome.failed(.refused, at: .remote)

    /// Returns whether the file is sent. The argument is the receiver's name, escaped for a terminal.
    package let ask: @Sendable (String) async -> Bool

    package init(ask: @escaping @Sendable (String) async -> Bool) {
        self.ask = ask
    }

    package static func question(_ name: String) -> String {
        "\(name)'s app takes files only readable by everyone who relays them: send it so?"
    }

    static func refusal(of name: String) -> CommandFailure {
        CommandFailure(
            .declined,
            "nothing was sent: \(name)'s app does not accept private files; `--allow-unencrypted` sends it readable "
                + "by everyone who relays it")
    }
}
