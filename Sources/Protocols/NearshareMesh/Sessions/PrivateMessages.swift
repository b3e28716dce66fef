internal import NearshareBase

/// Private messages of this node that wait for their receipt, and those of other peers that got one.
struct PrivateMessages: Sendable {
    enum Reaction {
        /// Sends a message again.
        case resend([UInt8], to: PeerID)
        /// No receipt was received, and the message is not sent again.
        case failed(messageID: String, to: PeerID)
    }

    /// A message of this node without a receipt.
    private struct PendingMessage: Sendable {
        let id: String
        let payload: [UInt8]
        /// When the receipt is overdue; nil for a message that was not sent yet.
        var deadline: MonotonicInstant?
        var repetitionCount = 0
        var repetitionLimit = PrivateMessages.maximumRepetitionCount
    }

    /// The messages that wait for their receipt, the oldest first.
    private var pending: [PeerID: [PendingMessage]] = [:]
    /// Ids of the latest messages of each peer that the program has stored, because copies may still arrive.
    private var acknowledgedIDs: [PeerID: [String]] = [:]

    func hasRoom(for peer: PeerID, messageCount: Int = 1) -> Bool {
        (pending[peer]?.count ?? 0) + messageCount <= Self.maximumPendingCount
    }

    /// Records a message.
    /// - Parameter isOrdered: whether it waits until the peer has those before it, because its path may change the order.
    /// - Returns: whether it is to be sent now.
    mutating func insert(
        _ payload: [UInt8], id: String, to peer: PeerID, isOrdered: Bool = false, now: MonotonicInstant
    ) -> Bool {
        let waits = isOrdered && pending[peer] != nil
        let deadline = waits ? nil : now + Self.receiptTimeout(after: 0)
        pending[peer, default: []].append(PendingMessage(id: id, payload: payload, deadline: deadline))
        return !waits
    }

    /// Records a receipt of a peer.
    /// - Returns: the message that is to be sent now.
    mutating func recordReceipt(_ id: String, from peer: PeerID, now: MonotonicInstant) -> [UInt8]? {
        guard var messages = pending[peer] else { return nil }
        messages.removeAll { $0.id == id }
        var next: [UInt8]?
        // All that were sent have their receipts.
        if let first = messages.first, first.deadline == nil {
            messages[0].deadline = now + Self.receiptTimeout(after: 0)
            next = first.payload
        }
        pending[peer] = messages.isEmpty ? nil : messages
        return next
    }

    /// Makes repeated messages without a receipt due at once: a new session shows that the peer is back. The last repetition may only
    /// have asked for that session, so there is one more, once.
    mutating func repeatSoon(to peer: PeerID, now: MonotonicInstant) {
        guard var messages = pending[peer] else { return }
        for index in messages.indices where messages[index].repetitionCount > 0 {
            if messages[index].repetitionCount == messages[index].repetitionLimit {
                guard messages[index].repetitionLimit == Self.maximumRepetitionCount else { continue }
                messages[index].repetitionLimit += 1
            }
            messages[index].deadline = now
        }
        pending[peer] = messages
    }

    /// Whether the program has stored a message of a peer, so that a copy only gets another receipt.
    func isAcknowledged(_ id: String, of peer: PeerID) -> Bool { acknowledgedIDs[peer]?.contains(id) ?? false }

    mutating func recordAcknowledgement(_ id: String, of peer: PeerID) {
        guard !isAcknowledged(id, of: peer) else { return }
        acknowledgedIDs[peer, default: []].append(id)
        if let count = acknowledgedIDs[peer]?.count, count > Self.maximumAcknowledgedCount {
            acknowledgedIDs[peer]?.removeFirst()
        }
    }

    /// - Returns: the ids of the messages that the peer has not acknowledged, the oldest first.
    mutating func removePeer(_ peer: PeerID) -> [String] {
        acknowledgedIDs[peer] = nil
        return (pending.removeValue(forKey: peer) ?? []).map(\.id)
    }

    /// Messages whose receipt is overdue, those of a peer in the order in which they were sent first. Those that wait behind a
    /// message that is given up are given up with it.
    /// - Parameter isBusy: whether messages to a peer wait behind a file, and are not repeated meanwhile.
    mutating func advance(to now: MonotonicInstant, excluding isBusy: (PeerID) -> Bool = { _ in false }) -> [Reaction] {
        var reactions: [Reaction] = []
        for (peer, messages) in pending.sorted(by: { $0.key < $1.key }) {
            let isBusy = isBusy(peer)
            var remaining: [PendingMessage] = []
            var isGivenUp = false
            for var message in messages {
                let timeout = Self.receiptTimeout(after: message.repetitionCount)
                switch message.deadline {
                case nil where isGivenUp: reactions.append(.failed(messageID: message.id, to: peer))
                case let deadline? where isBusy:
                    message.deadline = max(deadline, now + timeout)
                    remaining.append(message)
                case let deadline? where now >= deadline:
                    guard message.repetitionCount < message.repetitionLimit else {
                        isGivenUp = true
                        reactions.append(.failed(messageID: message.id, to: peer))
                        continue
                    }
                    message.repetitionCount += 1
                    message.deadline = now + timeout * 2
                    remaining.append(message)
                    reactions.append(.resend(message.payload, to: peer))
                default: remaining.append(message)
                }
            }
            pending[peer] = remaining.isEmpty ? nil : remaining
        }
        return reactions
    }

    /// Limit on the messages to one peer that wait: more than a user writes while a peer behind relays acknowledges one text
    /// after the other.
    static let maximumPendingCount = 256
    private static let maximumAcknowledgedCount = 256
    /// A message is given up after 5 + 10 + 20 + 40 + 80 = 155 s.
    private static let maximumRepetitionCount = 4
    /// The time in which a receipt must arrive. It doubles with each repetition, because a phone that sleeps answers none.
    private static func receiptTimeout(after repetitionCount: Int) -> Duration { .seconds(5 << repetitionCount) }
}
