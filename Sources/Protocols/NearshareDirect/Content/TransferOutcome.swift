/// The outcome of a transfer, on which both sides agree.
public enum TransferOutcome: Sendable, Hashable, Codable {
    /// The end of a transfer at which something happened.
    public enum Side: Sendable, Hashable, Codable {
        /// The node that this program runs.
        case local
        /// The peer's side.
        case remote
    }

    /// The receiver has stored all content.
    case completed
    /// The receiver declined.
    case declined(DeclineReason)
    /// The offer was not answered in time.
    case expired
    /// A user cancelled.
    case cancelled(by: Side)
    /// One side cannot continue, for a reason that it has told the other.
    case failed(TransferFailure, at: Side)
    /// The link was lost, or a side went away. The receiver keeps the content that has arrived, and a repeated send resumes.
    case interrupted
}

extension TransferOutcome {
    /// The outcome of a cancel at `side`.
    init(cancelledFor reason: CancelReason, at side: Side) {
        switch reason {
        case .cancelled: self = .cancelled(by: side)
        case .expired: self = .expired
        case .goingAway: self = .interrupted
        case .sourceChanged: self = .failed(.sourceChanged, at: side)
        case .sourceUnreadable: self = .failed(.sourceUnreadable, at: side)
        case .noSpace: self = .failed(.noSpace, at: side)
        case .refused: self = .failed(.refused, at: side)
        case .storageFailed: self = .failed(.storageFailed, at: side)
        case .tooLarge: self = .failed(.tooLarge, at: side)
        }
    }

    /// Whether the receiver keeps the content that has arrived, for resuming.
    package var keepsPartial: Bool {
        switch self {
        case .completed, .declined, .expired: false
        case .cancelled, .interrupted: true
        case .failed(let reason, _): reason != .refused && reason != .tooLarge
        }
    }
}
