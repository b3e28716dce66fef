package import NearshareBase
public import NearshareDirect
public import NearshareInterfaces

/// A snapshot of a transfer's progress.
public struct TransferProgress: Sendable, Hashable {
    /// The direction of a transfer, seen from this node.
    package enum Direction: Sendable, Hashable {
        /// Sent by this node.
        case outgoing
        /// Received by this node.
        case incoming
    }

    /// A stage of a transfer, in the order of the stages.
    public enum Phase: Sendable, Hashable {
        /// Searching for the peer, connecting, or shaking hands.
        case connecting
        /// Offered, and not answered yet; or not offered before the offers made earlier to the same peer are answered.
        case waiting
        /// Both ends determine what an earlier attempt has transferred.
        case comparing
        /// Content is being transferred.
        case moving
        /// Everything has been sent; the receiver makes it durable.
        case finishing
        /// The transfer has ended, with this outcome.
        case ended(TransferOutcome)
    }

    /// The transfer's identifier.
    package var id: TransferID
    /// Whether this node sends or receives.
    package var direction: Direction
    /// Whether this node receives.
    /// The current stage.
    public var phase: Phase
    /// Bytes of content that were sent or received, including those of earlier attempts.
    public var done: UInt64
    /// Total bytes of content; nil when unknown.
    public var total: UInt64?
    /// The part of ``done`` that was there from an earlier attempt.
    package var resumed: UInt64
    /// Number of files and links that are complete; folders as well where not all entries are listed (``EntryCounter``).
    package var finishedEntries: UInt64
    /// Total number of files and links; folders as well where not all entries are listed.
    package var totalEntries: UInt64
    /// Smoothed rate in bytes per second; nil until it is known.
    public var rate: Double?
    /// Estimated time until the end; nil until it is known.
    public var timeLeft: Duration?
    /// The part that the receiver has accepted; nil for the whole offer.
    package var part: OfferPart.Counts?
    /// The fragments of a mesh transfer; nil on the direct path.
    package var fragments: Fragments?

    /// A count of fragments.
    package struct Fragments: Sendable, Hashable {
        /// Fragments sent or received.
        package var done: Int
        /// Total number of fragments.
        package var total: Int

        /// Creates a count.
        package init(done: Int, total: Int) {
            self.done = done
            self.total = total
        }
    }

    /// Creates the progress of a transfer that starts.
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

/// The outcome of a transfer, and its delivered items.
public struct TransferResult: Sendable, Hashable {
    /// How the transfer ended: the same on both ends, except for the side that the outcome names.
    public var outcome: TransferOutcome
    /// Details of a failure for users, beyond the outcome.
    public var detail: String?
    /// The delivered items of an incoming transfer that was completed, or has failed for some of its files alone.
    public var delivered: [DeliveredItem]
    /// The names that the receiver of a completed transfer could not store as they are.
    package var changedNames: ChangedNames
    /// The files of a completed transfer that both ends have compared; nil where none were.
    package var compared: ComparedFiles?
    /// The files that were not stored, of a transfer that has failed for them alone; nil where all or none were stored.
    package var missing: MissingFiles?
    /// Whether the receiver has confirmed that it has the content of a completed transfer. Phones in the mesh confirm no files.
    package var isConfirmed = true

    /// Whether at least a part was stored, and nothing of it is sent again.
    package var isStored: Bool { outcome == .completed || missing != nil }

    /// Creates a result.
    package init(
        outcome: TransferOutcome, detail: String? = nil, delivered: [DeliveredItem] = [],
        changedNames: ChangedNames = ChangedNames(), compared: ComparedFiles? = nil, missing: MissingFiles? = nil
    ) {
        self.missing = missing
        self.outcome = outcome
        self.detail = detail
        self.delivered = delivered
        self.changedNames = changedNames
        self.compared = compared
    }
}
