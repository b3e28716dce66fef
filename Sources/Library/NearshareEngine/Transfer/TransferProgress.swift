package import NearshareBase
public import NearshareDirect
public import NearshareInterfaces

/// Where a transfer stands at one moment.
public struct TransferProgress: Sendable, Hashable {
    /// Seen from here.
    public enum Direction: Sendable, Hashable {
        /// Sent by this node.
        case outgoing
        /// Received by this node.
        case incoming
    }

    /// A stage of a transfer, in the order of the stages.
    public enum Phase: Sendable, Hashable {
        /// Looking for a way to the peer, connecting, shaking hands.
        case connecting
        /// Invited; the other person has not answered yet.
        case waiting
        /// Both ends find out what is there already of an earlier try.
        case comparing
        /// Content is on its way.
        case moving
        /// Everything has been sent; the receiver makes it durable.
        case finishing
        /// It is over, and how it went.
        case ended(TransferOutcome)
    }

    /// Which transfer.
    package var id: TransferID
    /// Sent or received.
    public var direction: Direction
    /// The current stage.
    public var phase: Phase
    /// Bytes of content that are at the receiver or on their way, those from an earlier try included.
    public var done: UInt64
    /// Bytes of content in all; nil when it can't be known.
    public var total: UInt64?
    /// The part of ``done`` that was there from an earlier attempt.
    public var resumed: UInt64
    /// Files, folders and links that are finished, and how many there are.
    public var finishedEntries: UInt64
    /// Files, folders and links in all.
    public var totalEntries: UInt64
    /// Bytes a second, smoothed; nil until it can be told.
    public var rate: Double?
    /// Until the end at the present rate; nil until it can be told.
    public var timeLeft: Duration?
    /// On the frame path, which counts these; nil on the direct one.
    package var fragments: Fragments?

    /// How many pieces of how many.
    package struct Fragments: Sendable, Hashable {
        /// That are on their way or there.
        package var done: Int
        /// In all.
        package var total: Int

        /// Puts a count together.
        package init(done: Int, total: Int) {
            self.done = done
            self.total = total
        }
    }

    /// The progress of a transfer that starts.
    package init(id: TransferID, direction: Direction, total: UInt64?, totalEntries: UInt64) {
        self.id = id
        self.direction = direction
        phase = .connecting
        done = 0
        self.total = total
        resumed = 0
        finishedEntries = 0
        self.totalEntries = totalEntries
    }
}

/// How a transfer ended, and what is there now.
public struct TransferResult: Sendable, Hashable {
    /// How it ended; the same on both ends.
    public var outcome: TransferOutcome
    /// Details of a failure for users, beyond the outcome.
    public var detail: String?
    /// Incoming and completed: where everything is.
    public var delivered: [DeliveredItem]

    /// Puts a result together.
    package init(outcome: TransferOutcome, detail: String? = nil, delivered: [DeliveredItem] = []) {
        self.outcome = outcome
        self.detail = detail
        self.delivered = delivered
    }
}
