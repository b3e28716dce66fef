internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

/// The received messages of a session: those that wait for the program, and those that the program has received and whose
/// senders do not know it yet.
final class SessionInbox: Sendable {
    private struct Delivered {
        var messages: [Session.ReceivedMessage] = []
        var byteCount = 0
        /// A report to the senders is scheduled.
        var isScheduled = false
    }

    /// The caller's actions after the program has received a message.
    struct DeliveryReaction: Sendable, Hashable {
        /// The channels are to be told at once.
        var isReportDue: Bool
        /// A report is to be scheduled.
        var needsSchedule: Bool
    }

    private let queue = AsyncQueue<Session.ReceivedMessage>()
    /// The channels of values that the program has opened, with the messages for them.
    private let channels = Mutex<[String: AsyncQueue<Session.ReceivedMessage>]>([:])
    private let delivered = Mutex(Delivered())

    private static let maximumDeliveredCount = 32
    private static let maximumDeliveredByteCount = 64 << 10
    /// Limit on waiting messages, beyond which unreliable ones are dropped.
    private static let maximumWaitingDatagrams = 1024

    // MARK: Waiting messages

    /// Appends reliable messages without resuming the program: ``notifyReaders()`` must follow without a lock.
    func append(contentsOf messages: [Session.ReceivedMessage]) {
        guard messages.contains(where: { $0.message.kind == .channel }) else { return queue.append(contentsOf: messages) }
        channels.withLock { channels in
            for message in messages { queue(for: message, among: channels).append(contentsOf: [message]) }
        }
    }

    func notifyReaders() {
        queue.notifyReaders()
        for channel in openChannels where channel.count > 0 { channel.notifyReaders() }
    }

    /// Appends an unreliable message, unless too many messages wait.
    func append(unreliable message: Session.ReceivedMessage) {
        let waiting = channels.withLock { queue(for: message, among: $0) }
        if waiting.count < Self.maximumWaitingDatagrams { waiting.enqueue(message) }
    }

    /// The reliable messages of a member that wait for the program.
    func waitingMessages(of member: PeerID) -> [SessionMessage] {
        ([queue] + openChannels).flatMap(\.elements).filter { $0.sender == member && $0.mode == .reliable }.map(\.message)
    }

    // MARK: Channels of values

    private var openChannels: [AsyncQueue<Session.ReceivedMessage>] { channels.withLock { Array($0.values) } }

    /// The queue of the message's channel, if the program has opened it, or else the common one.
    private func queue(
        for message: Session.ReceivedMessage, among channels: [String: AsyncQueue<Session.ReceivedMessage>]
    ) -> AsyncQueue<Session.ReceivedMessage> {
        message.message.channelContent.flatMap { channels[$0.name] } ?? queue
    }

    /// Opens a channel, and moves the messages for it that wait already. Opened again, it is the same one.
    func openChannel(_ name: String) -> AsyncQueue<Session.ReceivedMessage> {
        channels.withLock { channels in
            if let channel = channels[name] { return channel }
            let channel = AsyncQueue<Session.ReceivedMessage>()
            channel.append(contentsOf: queue.removeAll { $0.message.channelContent?.name == name })
            if queue.isFinished { channel.finish() }
            channels[name] = channel
            return channel
        }
    }

    func dequeue() async -> Session.ReceivedMessage? { await queue.dequeue() }

    func dequeueWithoutWaiting() -> Session.ReceivedMessage? { queue.dequeueWithoutWaiting() }

    var hasMessages: Bool { queue.count > 0 }

    /// Messages that have arrived so far.
    var arrivedCount: UInt64 { queue.enqueuedCount }

    /// Whether the program has received the first messages.
    func hasPassedOn(_ count: UInt64) -> Bool { queue.dequeuedCount >= count }

    var isFinished: Bool { queue.isFinished }

    func finish() {
        queue.finish()
        for channel in openChannels { channel.finish() }
    }

    // MARK: Received messages

    /// Records that the program has received a reliable message. The channels are told of several at once: taking the session's
    /// lock for each would wait every time for the thread that reads.
    func recordDelivery(of message: Session.ReceivedMessage) -> DeliveryReaction {
        delivered.withLock { delivered in
            defer { delivered.isScheduled = true }
            delivered.messages.append(message)
            delivered.byteCount += message.message.bytes.count
            let isMuch =
                delivered.messages.count >= Self.maximumDeliveredCount
                || delivered.byteCount >= Self.maximumDeliveredByteCount
            return DeliveryReaction(isReportDue: isMuch, needsSchedule: !delivered.isScheduled)
        }
    }

    /// Removes the messages that are to be reported to their channels.
    func drainDelivered() -> [Session.ReceivedMessage] {
        delivered.withLock { delivered in
            defer { (delivered.messages, delivered.byteCount) = ([], 0) }
            return delivered.messages
        }
    }

    /// The scheduled report is made: the next message schedules another one.
    func endSchedule() { delivered.withLock { $0.isScheduled = false } }
}
