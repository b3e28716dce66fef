package import NearshareBase

/// Reliable messages between two members of a session: in order, each delivered once, over all links that the two have, in
/// sequence or at the same time (`docs/PROTOCOL.md`, section 12.4).
///
/// Messages are numbered when a link first carries them. The sender keeps them until they are delivered to the receiver's
/// program. On a new link, the receiver first sends the number from which it needs them.
///
///     each link:   attached ── peer's resume ──► sending from there ── detached ──► (other links continue)
///
/// Metadata is no message, but state: each link carries the latest value once, whatever messages wait.
///
/// The parts are ``SendQueue``, ``AcknowledgedTickets``, ``DroppedTickets``, ``ReceiveWindow`` and ``ChannelLinks``.
package struct MessageChannel: Sendable {
    /// Limits on the messages in flight to one member.
    package struct Limits: Sendable, Hashable {
        /// Limit on bytes sent and not acknowledged, after which ``MessageChannel/hasRoom`` is false. Values above the default,
        /// which is the window of every receiver, have no effect.
        package var maximumUnacknowledgedByteCount = 2 << 20
        /// Limit on messages sent and not acknowledged.
        package var maximumUnacknowledgedCount = 4096

        /// The window of every receiver.
        package init() {}

        /// The part of the limits that is kept for urgent messages: other messages do not fill it.
        var reserve: Limits {
            var part = self
            part.maximumUnacknowledgedByteCount /= 8
            part.maximumUnacknowledgedCount /= 8
            return part
        }
    }

    /// The place of an appended message among those with the same urgency, since the last restart of the peer.
    package struct Ticket: Sendable, Hashable {
        let isUrgent: Bool
        let number: UInt64
    }

    /// A sequence number for each urgency.
    struct SequenceNumbers: Sendable {
        private var urgent: UInt64 = 0
        private var others: UInt64 = 0

        subscript(isUrgent: Bool) -> UInt64 {
            get { isUrgent ? urgent : others }
            set { if isUrgent { urgent = newValue } else { others = newValue } }
        }
    }

    /// The identifier of a link within its channel.
    package struct LinkID: Sendable, Hashable {
        let number: UInt64
    }

    /// The place of a received message among all messages of its sender.
    package struct Position: Sendable, Hashable {
        fileprivate let epoch: UInt64
        fileprivate let generation: Int
        fileprivate let number: UInt64
    }

    /// The result of a received frame.
    package enum Event: Sendable, Hashable {
        /// The next message for the program.
        case message(SessionMessage)
        /// The metadata that the peer has set.
        case metadata(StructuredValue)
        /// The peer has restarted and has lost its state. Messages that it had not delivered are lost.
        case restarted(lost: Int)
        /// The link belongs to a program whose place a later one with the same key has taken. It is detached.
        case outdated
    }

    /// This member's metadata with the number of its changes.
    private struct OwnMetadata: Sendable {
        var bytes: [UInt8]
        var revision: UInt64
    }

    private enum DueFrame {
        case resume
        case metadata(OwnMetadata)
        case message(SessionMessage, number: UInt64)
        case acknowledgement
        case selectiveAcknowledgement
    }

    /// The window of every receiver.
    private static let window = Limits()

    /// The number of restarts of the peer, after each of which messages are numbered anew.
    package private(set) var generation = 0
    /// The messages that were acknowledged before the last restart.
    private var lastAcknowledged = AcknowledgedTickets()
    /// The random number that tells this channel from others.
    private let ownEpoch: UInt64
    private var peerEpoch: UInt64?
    /// The epochs of the peer before the present one, the latest last.
    private var formerEpochs: [UInt64] = []
    private static let maximumFormerCount = 8
    private let limits: Limits
    private var links = ChannelLinks()
    private var sendQueue = SendQueue()
    private var receiveWindow: ReceiveWindow
    /// This member's latest metadata; nil before any was set.
    private var ownMetadata: OwnMetadata?
    /// The number of the latest change of the peer's metadata since its last restart.
    private var peerMetadataRevision: UInt64 = 0
    /// Messages that were dropped before a link carried them, since the last restart of the peer and before it.
    private var dropped = DroppedTickets()
    private var lastDropped = DroppedTickets()
    /// Whether an owed acknowledgement is due without waiting for a message that can carry it.
    private var isAcknowledgementDue = false
    /// The link that has carried the latest selective acknowledgement.
    private var selectiveLink: LinkID?

    /// - Parameters:
    ///   - epoch: A random number other than 0, drawn for this channel. It tells a restarted member from the one before.
    ///   - stale: Messages that an earlier channel to the same member has received and not delivered, as those of an earlier
    ///     epoch of the peer.
    package init(epoch: UInt64, limits: Limits = Limits(), stale: [SessionMessage] = []) {
        ownEpoch = epoch
        self.limits = limits
        receiveWindow = ReceiveWindow(stale: stale)
    }

    // MARK: The program

    /// Whether the limits allow another message.
    package var hasRoom: Bool { sendQueue.hasRoom(limits) && sendQueue.hasRoom(Self.window) }

    /// Whether another urgent message may wait, whatever else does.
    package var hasRoomForUrgent: Bool { sendQueue.hasRoomForUrgent(Self.window) }

    /// Whether all messages are acknowledged.
    package var isEmpty: Bool { sendQueue.count == 0 }

    /// The number of messages that the peer has not acknowledged.
    package var unacknowledgedCount: Int { sendQueue.count }

    /// The bytes of the messages that the peer has not acknowledged, as the window counts them.
    package var unacknowledgedByteCount: Int { sendQueue.windowByteCount }

    /// The bytes of the messages among them that no link has carried.
    package var queuedByteCount: Int { sendQueue.waitingByteCount }

    /// Whether the peer has acknowledged all messages but one, so that its sender waits for nothing else.
    package var isQuiet: Bool { sendQueue.count <= 1 }

    /// Appends a message to send.
    /// - Parameters:
    ///   - isUrgent: Goes before all others that no link has carried yet.
    ///   - expiry: The time at which ``dropExpired(now:)`` drops it, unless a link has carried it before.
    /// - Returns: The message's place, for ``isAcknowledged(_:of:)``.
    @discardableResult
    package mutating func append(
        _ message: SessionMessage, isUrgent: Bool = false, expiry: MonotonicInstant? = nil
    ) -> Ticket {
        // Safe: `SessionMessage` throws for more.
        precondition(message.bytes.count <= SessionMessage.maximumByteCount)
        return sendQueue.append(message, isUrgent: isUrgent, expiry: expiry)
    }

    /// Sets this member's metadata in place of an earlier one. It goes before messages that wait, on the present link and on each
    /// new one.
    /// - Precondition: At most ``SessionMember/maximumMetadataByteCount`` bytes.
    package mutating func setMetadata(_ metadata: [UInt8]) {
        // Safe: the session throws for more.
        precondition(metadata.count <= SessionMember.maximumMetadataByteCount)
        ownMetadata = OwnMetadata(bytes: metadata, revision: (ownMetadata?.revision ?? 0).addingClamped(1))
    }

    /// The next time at which ``dropExpired(now:)`` may have something to drop.
    package var nextExpiry: MonotonicInstant? { sendQueue.firstExpiry }

    /// Drops the messages that no link has carried in their time.
    /// - Returns: Whether there were any.
    package mutating func dropExpired(now: MonotonicInstant) -> Bool {
        let tickets = sendQueue.dropExpired(now: now)
        for ticket in tickets { dropped.insert(ticket) }
        return !tickets.isEmpty
    }

    /// Whether the message was dropped; false also for one of earlier generations than the last two, which counts as lost.
    /// - Parameter generation: ``generation`` when the message was appended.
    package func isDropped(_ ticket: Ticket, of generation: Int) -> Bool {
        if generation == self.generation { return dropped.contains(ticket) }
        return generation == self.generation - 1 && lastDropped.contains(ticket)
    }

    /// Whether the peer has delivered the message to its program; nil when the message is lost or was dropped.
    /// - Parameter generation: ``generation`` when the message was appended.
    package func isAcknowledged(_ ticket: Ticket, of generation: Int) -> Bool? {
        if isDropped(ticket, of: generation) { return nil }
        if generation == self.generation { return sendQueue.acknowledged.contains(ticket) }
        return generation == self.generation - 1 && lastAcknowledged.contains(ticket) ? true : nil
    }

    /// The position of the message that was received last.
    package var lastPosition: Position {
        Position(epoch: ownEpoch, generation: generation, number: receiveWindow.expected.subtractingClamped(1))
    }

    /// Records the delivery of a message to the program, which opens the window for another one.
    /// - Parameter position: nil for the first of those that wait.
    package mutating func recordDelivery(of message: SessionMessage, at position: Position? = nil) {
        guard let position else { return receiveWindow.recordDelivery(of: message) }
        if position.epoch == ownEpoch, position.generation == generation {
            receiveWindow.recordDelivery(of: message, number: position.number)
        } else {
            receiveWindow.recordStaleDelivery(of: message)
        }
    }

    /// Whether delivered messages are not acknowledged yet. Acknowledgements wait briefly for a message that can carry them;
    /// after that the caller calls ``acknowledgeNow()``.
    package var owesAcknowledgement: Bool {
        guard let link = links.preferred else { return false }
        return receiveWindow.firstUndelivered > link.acknowledged || owesSelectiveAcknowledgement(on: link.id)
    }

    /// Whether a link has not carried the acknowledgement of a message that was delivered before an earlier one. Those that another
    /// link has carried may be lost.
    private func owesSelectiveAcknowledgement(on id: LinkID) -> Bool {
        selectiveLink == id ? !receiveWindow.unreported.isEmpty : !receiveWindow.early.isEmpty
    }

    /// Makes an owed acknowledgement due.
    package mutating func acknowledgeNow() { isAcknowledgementDue = true }

    /// Releases the messages of a channel that is not used any more.
    package mutating func discardMessages() {
        sendQueue.discard()
        receiveWindow = ReceiveWindow(stale: [])
    }

    // MARK: Links

    /// Adds a new link.
    package mutating func attach() -> LinkID { links.attach() }

    /// Removes a link. Messages that it carried and that are not acknowledged are sent over other links.
    package mutating func detach(_ id: LinkID) { links.detach(id) }

    /// Whether a link is in use: neither removed, nor one of the peer's program before its restart.
    package func isAttached(_ id: LinkID) -> Bool { links[id] != nil }

    /// Whether ``nextFrame(for:)`` returns a frame.
    package func hasFrame(for id: LinkID) -> Bool { dueFrame(for: id) != nil }

    private func dueFrame(for id: LinkID) -> DueFrame? {
        guard let link = links[id] else { return nil }
        // The peer sends no message before it, so its unread messages stay bounded however often it restarts.
        guard link.hasResumed else { return receiveWindow.hasRoomForEpoch(Self.window) ? .resume : nil }
        guard let next = link.next, links.preferred?.id == id else { return nil }
        if let ownMetadata, ownMetadata.revision > link.metadataRevision { return .metadata(ownMetadata) }
        // Before messages, which carry no ranges.
        if owesSelectiveAcknowledgement(on: id), isSelectiveAcknowledgementDue(on: id) { return .selectiveAcknowledgement }
        // Messages that were acknowledged over another link are skipped.
        let number = sendQueue.firstUnacknowledged(from: next)
        if let message = sendQueue.message(number, within: Self.window) { return .message(message, number: number) }
        guard receiveWindow.firstUndelivered > link.acknowledged else { return nil }
        let isDue = isAcknowledgementDue || receiveWindow.isAcknowledgementDue(acknowledged: link.acknowledged, Self.window)
        return isDue ? .acknowledgement : nil
    }

    private func isSelectiveAcknowledgementDue(on id: LinkID) -> Bool {
        let isRepetition = selectiveLink != nil && selectiveLink != id
        return isAcknowledgementDue || isRepetition || receiveWindow.isSelectiveAcknowledgementDue(Self.window)
    }

    /// Returns the next frame for a link; nil when none is due. Messages go over the newest link on which both sides have
    /// resumed.
    package mutating func nextFrame(for id: LinkID) -> [UInt8]? {
        switch dueFrame(for: id) {
        case .resume:
            links.update(id) { $0.hasResumed = true }
            return ChannelFrame.resume(ownEpoch: ownEpoch, peerEpoch: peerEpoch ?? 0, expected: receiveWindow.expected).encoded
        case .metadata(let metadata):
            links.update(id) { $0.metadataRevision = metadata.revision }
            return ChannelFrame.metadata(revision: metadata.revision, bytes: metadata.bytes[...]).encoded
        case .message(let message, let number):
            links.update(id) { $0.next = number.addingClamped(1) }
            if number == sendQueue.nextNumber { sendQueue.assignNextNumber() }
            recordAcknowledgement(on: id)
            return ChannelFrame.message(
                number: number, acknowledged: receiveWindow.firstUndelivered, kind: message.kind.rawValue,
                bytes: message.bytes[...]
            ).encoded
        case .acknowledgement:
            recordAcknowledgement(on: id)
            return ChannelFrame.acknowledgement(receiveWindow.firstUndelivered).encoded
        case .selectiveAcknowledgement:
            if selectiveLink != id { receiveWindow.repeatEarly() }
            selectiveLink = id
            let ranges = receiveWindow.removeUnreported(upTo: ChannelFrame.maximumRangeCount)
            recordAcknowledgement(on: id)
            isAcknowledgementDue = !receiveWindow.unreported.isEmpty
            return ChannelFrame.selectiveAcknowledgement(next: receiveWindow.firstUndelivered, ranges).encoded
        case nil: return nil
        }
    }

    private mutating func recordAcknowledgement(on id: LinkID) {
        let delivered = receiveWindow.firstUndelivered
        links.update(id) { $0.acknowledged = delivered }
        receiveWindow.recordAcknowledgement()
        isAcknowledgementDue = false
    }

    // MARK: Frames

    /// Processes one frame that arrived over a link. One that is not attached carries nothing more until it is closed.
    package mutating func receive(_ frame: [UInt8], on id: LinkID) throws(MalformedInput) -> Event? {
        guard isAttached(id) else { return nil }
        switch try ChannelFrame(decoding: frame) {
        case .resume(let remoteEpoch, let localEpoch, let expected):
            return try receiveResume(on: id, remoteEpoch: remoteEpoch, localEpoch: localEpoch, expected: expected)
        case .message(let number, let acknowledged, let kind, let bytes):
            try requireResumed(id)
            try sendQueue.acknowledge(below: acknowledged)
            guard try receiveWindow.receive(number, Self.window) else { return nil }
            // Kinds of later versions are acknowledged and dropped.
            guard let kind = SessionMessage.Kind(rawValue: kind) else {
                receiveWindow.skip()
                isAcknowledgementDue = true
                return nil
            }
            let message = SessionMessage(kind: kind, bytes: Array(bytes))
            receiveWindow.store(message)
            return .message(message)
        case .acknowledgement(let number):
            try requireResumed(id)
            try sendQueue.acknowledge(below: number)
            return nil
        case .selectiveAcknowledgement(let next, let ranges):
            try requireResumed(id)
            try sendQueue.acknowledge(below: next, early: ranges)
            return nil
        case .metadata(let revision, let bytes):
            try requireResumed(id)
            let value = try Self.metadata(decoding: bytes)
            // Another link may have carried a later one.
            guard revision > peerMetadataRevision else { return nil }
            peerMetadataRevision = revision
            return .metadata(value)
        case nil: return nil
        }
    }

    private static func metadata(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) -> StructuredValue {
        guard bytes.count <= SessionMember.maximumMetadataByteCount else {
            throw MalformedInput("message: metadata of more than \(SessionMember.maximumMetadataByteCount) bytes")
        }
        return try StructuredValue(decoding: bytes)
    }

    private func requireResumed(_ id: LinkID) throws(MalformedInput) {
        guard links[id]?.next != nil else { throw MalformedInput("message: a frame before the resume frame") }
    }

    private mutating func receiveResume(
        on id: LinkID, remoteEpoch: UInt64, localEpoch: UInt64, expected: UInt64
    ) throws(MalformedInput) -> Event? {
        guard let link = links[id], link.next == nil else { throw MalformedInput("message: a second resume frame") }
        guard !formerEpochs.contains(remoteEpoch) else {
            links.detach(id)
            return .outdated
        }
        let isRestart = peerEpoch.map { $0 != remoteEpoch } ?? false
        let knowsEpoch = localEpoch == ownEpoch
        // Before any change: the links of the present program stay as they are.
        guard !knowsEpoch || expected <= (isRestart ? 0 : sendQueue.nextNumber) else {
            throw MalformedInput("message: a resume frame beyond the last message")
        }
        var event: Event?
        if isRestart, let known = peerEpoch {
            // The peer has restarted without its former state.
            formerEpochs = formerEpochs.suffix(Self.maximumFormerCount - 1) + [known]
            event = .restarted(lost: sendQueue.count)
            lastAcknowledged = sendQueue.acknowledged
            (lastDropped, dropped) = (dropped, DroppedTickets())
            // Bounded: each restart takes a link.
            generation += 1
            sendQueue.restart()
            receiveWindow.restart()
            peerMetadataRevision = 0
            // Links without a resume frame may belong to the new epoch.
            links.detachResumed()
        }
        peerEpoch = remoteEpoch
        // Each new link repeats the acknowledgement.
        isAcknowledgementDue = receiveWindow.firstUndelivered > 0 || !receiveWindow.early.isEmpty
        // A peer that does not know this epoch receives everything that is not acknowledged. For one that does, messages that
        // it has received and not delivered are not repeated; they fill the window on both sides.
        let next = knowsEpoch ? expected : sendQueue.firstNumber
        links.update(id) { $0.next = next }
        return event
    }
}
