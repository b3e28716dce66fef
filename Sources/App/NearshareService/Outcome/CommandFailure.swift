internal import Nearshare

/// The failure of a command: a message for the user and an exit code for scripts.
package struct CommandFailure: Error, Sendable {
    package var status: ExitStatus
    /// The failure and a suggested remedy; empty when it has been reported already.
    package var message: String

    package init(_ status: ExitStatus, _ message: String) {
        self.status = status
        self.message = message
    }

    /// A failure that has been reported already, or needs no message.
    package static func silent(_ status: ExitStatus) -> CommandFailure { CommandFailure(status, "") }

    /// Converts an error of any module below.
    package init(_ error: any Error) {
        switch error {
        case let failure as CommandFailure: self = failure
        case let error as NodeError:
            let status: ExitStatus =
                switch error {
                case .unreachable, .notFound, .ambiguous: .peerNotFound
                case .timedOut: .timedOut
                case .incompatible: .incompatible
                case .identityMismatch, .blocked: .notTrusted
                case .refused: .declined
                case .connectionLost: .peerGone
                case .invalidParameter, .unavailable: .failure
                }
            self.init(status, ErrorMessage.text(for: error))
        case let error as NetworkNotice.SearchFailure: self.init(.peerNotFound, error.description)
        case let error as StorageError:
            let status: ExitStatus =
                switch error.code {
                case .noSpace, .overLimit: .noSpace
                case .unsuitable: .usage
                case .notFound, .noPermission, .changed, .rejected, .outputClosed, .failed: .failure
                }
            self.init(status, error.description)
        case let error as AudioError:
            let status: ExitStatus =
                switch error.code {
                case .noSpace, .overLimit: .noSpace
                case .damaged: .damaged
                case .unavailable, .deviceGone, .failed: .failure
                }
            self.init(status, error.description)
        case let error as ControlFailure:
            let status: ExitStatus =
                switch error.kind {
                case .peerNotFound, .ambiguous: .peerNotFound
                case .refused: .usage
                case .tooLarge: .noSpace
                case .blocked, .nameClash: .notTrusted
                case .storage, .unavailable, .gone: .failure
                }
            self.init(status, error.description)
        case let error as WiFiError:
            let isTimedOut = if case .timedOut = error { true } else { false }
            self.init(isTimedOut ? .timedOut : .failure, error.description)
        case is CancellationError: self.init(.interrupted, "interrupted")
        default: self.init(.failure, ErrorMessage.text(for: error))
        }
    }
}
