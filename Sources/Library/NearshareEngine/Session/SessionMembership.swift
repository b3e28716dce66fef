internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces

/// One member as seen from this node: the channel of its reliable messages, and the links that carry it.
struct SessionMembership {
    var channel: MessageChannel
    /// The links in the order in which they were opened.
    var links: [SessionLink] = []
    /// The metadata that the member has set; nil for none.
    var metadata: StructuredValue?
    /// The outcome of the messages since the last restart of the member, for their receipts: the channel, without its messages, when
    /// the member has left or restarted. It lives as long as one of the receipts.
    private var settlement = Promise<MessageChannel>()

    init(channel: MessageChannel) {
        self.channel = channel
    }

    /// Ends the receipts of all messages so far: the peer acknowledges no more of them.
    mutating func settleReceipts() {
        var last = channel
        last.discardMessages()
        settlement.fulfil(last)
        settlement = Promise()
    }

    /// - Returns: links over which the message may go, whether it is the only one in transit, and its receipt; nil while the
    ///   window is full.
    mutating func append(
        _ message: SessionMessage, isUrgent: Bool, for member: PeerID, expiry: MonotonicInstant? = nil
    ) -> (links: [SessionLink], isAlone: Bool, receipt: SentMessage.Receipt)? {
        guard hasRoom(isUrgent: isUrgent) else { return nil }
        let ticket = channel.append(message, isUrgent: isUrgent, expiry: expiry)
        let receipt = SentMessage.Receipt(
            member: member, generation: channel.generation, ticket: ticket, settlement: settlement)
        return (links, channel.isQuiet, receipt)
    }

    /// Whether another message can be appended.
    func hasRoom(isUrgent: Bool) -> Bool { isUrgent ? channel.hasRoomForUrgent : channel.hasRoom }

    /// Links with frames of the channel to send.
    var dueLinks: [SessionLink] { links.filter { channel.hasFrame(for: $0.channelLink) } }

    /// Removes a link that has ended.
    /// - Returns: false when the link is not one of the member's.
    mutating func remove(_ link: SessionLink) -> Bool {
        guard let index = links.firstIndex(where: { $0 === link }) else { return false }
        links.remove(at: index)
        channel.detach(link.channelLink)
        return true
    }

    /// Encodes frames that are due on a link.
    /// - Parameter byteCount: stops after this many bytes.
    mutating func nextBatch(for link: MessageChannel.LinkID, byteCount: Int) -> [UInt8] {
        var batch: [UInt8] = []
        while batch.count < byteCount, let frame = channel.nextFrame(for: link) {
            MessageFraming.append(frame, to: &batch)
        }
        return batch
    }

    /// The results of received frames.
    struct Arrival {
        var messages: [Session.ReceivedMessage] = []
        /// The peer has restarted without its state: the number of this node's messages that are lost.
        var lostCount: Int?
        /// The links of the peer's program before its restart.
        var replacedLinks: [SessionLink] = []
        /// The member's metadata has changed.
        var hasNewMetadata = false
        /// The peer violated the protocol; messages before that are delivered.
        var failure: MalformedInput?
        /// The channel has frames to send on the link.
        var hasFrames = false
        /// Messages can be appended again, or all were acknowledged.
        var makesRoom = false
        /// Messages were acknowledged, or are lost: fewer wait for the peer's program.
        var hasDeliveries = false
        /// Messages still wait for the peer's program.
        var hasUndelivered = false
    }

    mutating func receive(_ frames: [[UInt8]], on link: SessionLink) -> Arrival {
        let (hadRoom, hadRoomForUrgent) = (channel.hasRoom, channel.hasRoomForUrgent)
        let unreadCount = channel.unacknowledgedCount
        var arrival = Arrival()
        arrival.messages.reserveCapacity(frames.count)
        do throws(MalformedInput) {
            for frame in frames {
                switch try channel.receive(frame, on: link.channelLink) {
                case .message(let message):
                    arrival.messages.append(
                        Session.ReceivedMessage(
                            sender: link.peer, message: message, mode: .reliable, position: channel.lastPosition))
                case .metadata(let value):
                    let value = value == .null ? nil : value
                    if value != metadata { (metadata, arrival.hasNewMetadata) = (value, true) }
                case .restarted(let lost):
                    settleReceipts()
                    arrival.lostCount = lost
                    arrival.replacedLinks = links.filter { !channel.isAttached($0.channelLink) }
                    if metadata != nil { (metadata, arrival.hasNewMetadata) = (nil, true) }
                case .outdated: arrival.replacedLinks.append(link)
                case nil: break
                }
            }
        } catch {
            arrival.failure = error
        }
        arrival.hasFrames = channel.hasFrame(for: link.channelLink)
        arrival.hasDeliveries = channel.unacknowledgedCount < unreadCount
        arrival.hasUndelivered = !channel.isEmpty
        arrival.makesRoom =
            (!hadRoom && channel.hasRoom) || (!hadRoomForUrgent && channel.hasRoomForUrgent) || channel.isEmpty
        return arrival
    }

    /// Makes an acknowledgement that is owed due at once.
    /// - Returns: links to wake. When nothing is owed, those whose resume frame had to wait for deliveries.
    mutating func sendOwedAcknowledgement() -> [SessionLink] {
        guard channel.owesAcknowledgement else { return dueLinks }
        channel.acknowledgeNow()
        return links
    }
}
