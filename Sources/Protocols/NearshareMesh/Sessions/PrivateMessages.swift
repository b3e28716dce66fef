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
        /// When the receipt is overdue.
        var deadline: MonotonicInstant
        var repetitionCount = 0
    }

    /// The messages that wait for their receipt, the oldest first.
    private var pending: [PeerID: [PendingMessage]] = [:]
    /// Ids of the latest messages of each peer that the program has stored, because copies may still arrive.
    private var acknowledgedIDs: [PeerID: [String]] = [:]

    func hasRoom(for peer: PeerID) -> Bool { (pending[peer]?.count ?? 0) < Self.maximumPendingCount }

    /// Records a message that is being sent.
    mutating func insert(_ payload: [UInt8], id: String, to peer: PeerID, now: MonotonicInstant) {
        pending[peer, default: []].append(
            PendingMessage(id: id, payload: payload, deadline: now + Self.receiptTimeout(after: 0)))
    }

    /// Records a receipt of a peer.
    mutating func recordReceipt(_ id: String, from peer: PeerID) {
        pending[peer]?.removeAll { $0.id == id }
        if pending[peer]?.isEmpty == true { pending[peer] = nil }
    }

    /// Makes the messages due that were repeated in vain: a new session shows that the peer is back.
    mutating func repeatSoon(to peer: PeerID, now: MonotonicInstant) {
        guard var messages = pending[peer] else { return }
        for index in messages.indices where messages[index].repetitionCount > 0 { messages[index].deadline = now }
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

    /// Messages whose receipt is overdue, those of a peer in the order in which they were sent first.
    mutating func advance(to now: MonotonicInstant) -> [Reaction] {
        var reactions: [Reaction] = []
        for (peer, messages) in pending.sorted(by: { $0.key < $1.key }) {
            var remaining: [PendingMessage] = []
            for var message in messages {
                guard now >= message.deadline else {
                    remaining.append(message)
                    continue
                }
                guard message.repetitionCount < Self.maximumRepetitionCount else {
                    reactions.append(.failed(messageID: message.id, to: peer))
                    continue
                }
                message.repetitionCount += 1
                message.deadline = now + Self.receiptTimeout(after: message.repetitionCount)
                remaining.append(message)
                reactions.append(.resend(message.payload, to: peer))
            }
            pending[peer] = remaining.isEmpty ? nil : remaining
        }
        return reactions
    }

    private static let maximumPendingCount = 64
    private static let maximumAcknowledgedCount = 256
    /// A message is given up after 5 + 10 + 20 + 40 + 80 = 155 s.
    private static let maximumRepetitionCount = 4
    /// Twice as long after each repetition: a phone that sleeps answers none.
    private static func receiptTimeout(after repetitionCount: Int) -> Duration { .seconds(5 << repetitionCount) }
}
