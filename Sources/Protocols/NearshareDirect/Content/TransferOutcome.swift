/// How a transfer ended. Both ends come to the same one.
public enum TransferOutcome: Sendable, Hashable, Codable {
    /// An end of a transfer, seen from here.
    public enum Side: Sendable, Hashable, Codable {
        /// This end.
        case here
        /// The other end.
        case there
    }

    /// Everything is stored at the receiver.
    case completed
    /// The receiver did not take it.
    case declined(DeclineReason)
    /// Nobody answered in time.
    case expired
    /// A person stopped it.
    case cancelled(by: Side)
    /// It can't go on, for a reason that one end has told the other.
    case failed(CancelReason, at: Side)
    /// The link was lost, or a side went away. What has arrived is kept, and the same send repeated goes on from there.
    case interrupted
}

extension TransferOutcome {
    /// The outcome of a cancel for this reason at `side`.
    init(cancelledFor reason: CancelReason, at side: Side) {
        switch reason {
        case .cancelled: self = .cancelled(by: side)
        case .expired: self = .expired
        case .goingAway: self = .interrupted
        case .sourceChanged, .sourceUnreadable, .noSpace, .refused, .storageFailed: self = .failed(reason, at: side)
        }
    }

    /// A transfer that ended so may go on when the same send is repeated.
    package var keepsPartial: Bool {
        switch self {
        case .completed, .declined, .expired: false
        case .cancelled, .interrupted: true
        case .failed(let reason, _): reason != .refused
        }
    }
}
