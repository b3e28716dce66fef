package import NearshareBase
package import NearshareDirect
package import NearshareInterfaces

/// Where a transfer stands at one moment.
package struct TransferProgress: Sendable, Hashable {
    /// Seen from here.
    package enum Direction: Sendable, Hashable {
        /// To somebody else.
        case outgoing
        /// From somebody else.
        case incoming
    }

    /// What it does at the moment, in the order in which it does it.
    package enum Phase: Sendable, Hashable {
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
    /// To somebody or from somebody.
    package var direction: Direction
    /// What it does at the moment.
    package var phase: Phase
    /// Bytes of content that are at the receiver or on their way, those from an earlier try included.
    package var done: UInt64
    /// Bytes of content in all; nil when it can't be known.
    package var total: UInt64?
    /// Of ``done``, bytes that did not have to be sent again.
    package var resumed: UInt64
    /// Files, folders and links that are finished, and how many there are.
    package var finishedEntries: UInt64
    /// Files, folders and links in all.
    package var totalEntries: UInt64
    /// Bytes a second, smoothed; nil until it can be told.
    package var rate: Double?
    /// Until the end at the present rate; nil until it can be told.
    package var timeLeft: Duration?
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

    /// Of a transfer that begins.
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
package struct TransferResult: Sendable, Hashable {
    /// How it ended; the same on both ends.
    package var outcome: TransferOutcome
    /// What went wrong, for people, where more can be said than the outcome says.
    package var detail: String?
    /// Incoming and completed: where everything is.
    package var delivered: [DeliveredItem]

    /// Puts a result together.
    package init(outcome: TransferOutcome, detail: String? = nil, delivered: [DeliveredItem] = []) {
        self.outcome = outcome
        self.detail = detail
        self.delivered = delivered
    }
}
