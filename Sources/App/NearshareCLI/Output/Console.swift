internal import Glibc
internal import NearshareTerminal
internal import Synchronization

/// The tool's output: results on standard output, everything else on standard error.
enum Console {
    /// The receiver of messages while a full screen is shown, which other output would destroy; nil for standard error.
    static let messageHandler = Mutex<(@Sendable (String) -> Void)?>(nil)

    /// Writes a line of the command's result.
    static func result(_ line: String) {
        StatusDisplay.shared.around { DescriptorOutput.write(line + "\n", to: STDOUT_FILENO) }
    }

    /// Writes a message for the user.
    static func say(_ line: String) {
        if let handler = messageHandler.withLock({ $0 }) { return handler(line) }
        StatusDisplay.shared.around { DescriptorOutput.write(line + "\n", to: STDERR_FILENO) }
    }

    /// Writes a warning or an error for the user.
    static func complain(_ line: String) {
        say("nearshare: \(line)")
    }
}
