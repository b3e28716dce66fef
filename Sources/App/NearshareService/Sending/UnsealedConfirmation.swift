package import Nearshare

/// Asks the user whether a file may go out readable by everyone who relays it, for an app that takes no encrypted files: Android's
/// up to 1.7.4, and iOS' up to 1.7.0.
package struct UnsealedConfirmation: Sendable {
    /// The outcome of a file in the mesh whose receiver takes no encrypted ones.
    package static let missingEncryption = TransferOutcome.failed(.refused, at: .remote)

    /// Returns whether the file is sent. The argument is the receiver's name, escaped for a terminal.
    package let ask: @Sendable (String) async -> Bool

    package init(ask: @escaping @Sendable (String) async -> Bool) {
        self.ask = ask
    }

    package static func question(_ name: String) -> String {
        "\(name)'s app takes files only readable by everyone who relays them: send it so?"
    }

    /// Time after which a question without an answer counts as a no.
    package static let timeout = Duration.seconds(300)

    static func refusal(of name: String) -> CommandFailure {
        CommandFailure(.declined, "nothing was sent: \(advice(for: name))")
    }

    /// The sentence where the user was not asked.
    static func advice(for name: String) -> String {
        "\(name)'s app does not accept private files; with --allow-unencrypted they are sent readable by everyone who relays them"
    }

    /// The result of a transfer, with the way to send it nevertheless.
    static func withAdvice(_ result: TransferResult, for name: String) -> TransferResult {
        guard result.outcome == missingEncryption else { return result }
        return TransferResult(outcome: result.outcome, detail: advice(for: name))
    }
}
