internal import Glibc
internal import NearshareTerminal
internal import Synchronization

/// The tool's output: results on standard output, everything else on standard error.
enum Console {
    /// Shows messages while the terminal is in full-screen mode, which other output would destroy; nil for standard error.
    static let fullScreenMessageHandler = Mutex<(@Sendable (String) -> Void)?>(nil)

    /// Writes a line of the command's result.
    static func writeResult(_ line: String) {
        StatusDisplay.shared.withAreaCleared { DescriptorOutput.write(line + "\n", to: STDOUT_FILENO) }
    }

    /// Writes a message for the user.
    static func notice(_ line: String) {
        if let handler = fullScreenMessageHandler.withLock({ $0 }) { return handler(line) }
        StatusDisplay.shared.withAreaCleared { DescriptorOutput.write(line + "\n", to: STDERR_FILENO) }
    }

    /// Writes a warning or an error for the user.
    static func warn(_ line: String) {
        notice("nearshare: \(line)")
    }
}
