package import Nearshare

/// The outcome of a transfer in the history and its logs, which store the raw value.
package enum RecordedOutcome: String, Sendable, Hashable, CaseIterable {
    case completed, declined, expired, cancelled, failed, interrupted
    /// The receiver has not stored all files.
    case partial
    /// The transfer has begun, and its process runs.
    case running
    /// A chat message that was not delivered in time goes on waiting.
    case keptByNode = "kept by the node"
    /// One that a newer version has recorded.
    case unknown

    package init(_ outcome: TransferOutcome) {
        self =
            switch outcome {
            case .completed: .completed
            case .declined: .declined
            case .expired: .expired
            case .cancelled: .cancelled
            case .failed: .failed
            case .interrupted: .interrupted
            }
    }
}
