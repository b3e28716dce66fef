package import Nearshare

/// The exit codes of `nearshare`, as `nearshare(1)` lists them.
package enum ExitStatus: Int32, Sendable {
    case ok = 0
    case failure = 1
    case usage = 2
    case peerNotFound = 3
    case declined = 4
    case notTrusted = 5
    case partly = 6
    case noSpace = 7
    case damaged = 8
    case timedOut = 9
    case peerGone = 10
    case incompatible = 11
    case interrupted = 130
    /// The reader of standard output has closed it: the status that a shell shows of a program that SIGPIPE has ended.
    case outputClosed = 141

    /// The exit code for a transfer.
    package init(_ result: TransferResult) {
        self = result.missing == nil ? ExitStatus(result.outcome) : .partly
    }

    /// The exit code for a transfer with this outcome.
    package init(_ outcome: TransferOutcome) {
        self =
            switch outcome {
            case .completed: .ok
            case .declined(.noSpace), .declined(.tooLarge): .noSpace
            case .declined(.identityChanged): .notTrusted
            case .declined: .declined
            case .expired: .timedOut
            case .cancelled(by: .local): .interrupted
            case .cancelled(by: .remote): .declined
            case .failed(.noSpace, _), .failed(.tooLarge, _): .noSpace
            case .failed(.sourceChanged, _): .damaged
            case .failed: .failure
            case .interrupted: .peerGone
            }
    }
}
