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

extension TransferOutcome: CustomStringConvertible {
    public var description: String {
        switch self {
        case .completed: "completed"
        case .declined(let reason): "declined: \(reason.words)"
        case .expired: "not answered in time"
        case .cancelled(by: .local): "cancelled at this end"
        case .cancelled(by: .remote): "cancelled by the peer"
        case .failed(let reason, at: .local): "failed at this end: \(reason.words)"
        case .failed(let reason, at: .remote): "failed at the peer: \(reason.words)"
        case .interrupted: "interrupted; send it again to resume it"
        }
    }
}

extension DeclineReason {
    fileprivate var words: String {
        switch self {
        case .declined: "the receiver does not want it"
        case .notAllowed: "the receiver accepts offers from friends only, or cannot ask its user"
        case .tooLarge: "it is larger than the receiver accepts"
        case .noSpace: "the receiver's disk is full"
        case .busy: "the receiver was asked too often, or is busy; try again in a minute"
        case .identityChanged: "the receiver knows the sender's name with another key"
        case .acceptsNothing: "the receiver accepts nothing from this machine"
        case .singleFileOnly: "the receiver accepts a single file only, and no folder"
        }
    }
}

extension TransferFailure {
    fileprivate var words: String {
        switch self {
        case .sourceChanged: "the content differs from the offer"
        case .sourceUnreadable: "the content could not be read"
        case .noSpace: "the receiver's disk is full"
        case .refused: "the content does not match the offer, and was refused"
        case .storageFailed: "the receiver could not store it"
        case .tooLarge: "it is larger than the receiver accepts"
        }
    }
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
        case .storageFailed, .outputClosed: self = .failed(.storageFailed, at: side)
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
