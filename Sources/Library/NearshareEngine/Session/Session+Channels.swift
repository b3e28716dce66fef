internal import Logging
public import NearshareBase
internal import NearshareDirect

extension Session {
    /// A channel of values of one type between the members of a session: the values that arrive, in the order of each sender,
    /// each with the member that has sent it. Made by ``Session/channel(_:named:)``.
    ///
    /// A channel has one reader. A reliable value counts as delivered when it is read; a member that leaves a channel unread makes its
    /// senders wait, as with ``Session/messages``.
    public struct Channel<Value: Codable & Sendable>: Sendable {
        /// The name that members with the same channel have in common.
        let name: String
        let session: Session
        let queue: AsyncQueue<ReceivedMessage>

        /// Sends a value, with the guarantees and limits of ``Session/send(_:to:mode:isUrgent:timeout:)``; the encoded value counts
        /// with the name of the channel. It waits until it can be sent, for as long as its receivers are members. A receiver that
        /// has not opened the channel has the value in ``Session/messages``.
        /// - Parameters:
        ///   - members: the receivers, each named once; nil, the default, for all members.
        ///   - mode: by default ``Session/DeliveryMode/reliable``.
        ///   - isUrgent: a reliable value goes before all messages that wait for the same receiver, also those of other channels.
        /// - Returns: the sent message, to wait for its delivery.
        /// - Throws: `EncodingError` for a value that cannot be encoded, and errors that its type throws; ``SessionError`` as
        ///   ``Session/send(_:to:mode:isUrgent:timeout:)``.
        @discardableResult
        public func send(
            _ value: Value, to members: [PeerID]? = nil, mode: DeliveryMode = .reliable, isUrgent: Bool = false
        ) async throws -> SentMessage {
            guard let message = try SessionMessage(channel: name, encoding: value) else { throw Session.invalidChannelName }
            return try await session.send(message, to: members, mode: mode, isUrgent: isUrgent)
        }
    }

    /// Opens a channel for the values that members send into their channels of this name. Until it is opened, its values are
    /// messages in ``messages``; those that were not read there are in the channel. Once the session is over, a channel has what
    /// arrived before, and sending throws.
    ///
    ///     let moves = try session.channel(Move.self, named: "moves")
    ///     try await moves.send(Move(from: 12, to: 28))
    ///     for await (move, sender) in moves { … }
    /// - Parameter name: 1 to 63 bytes of UTF-8. A channel that is opened again is the same one, with one reader in all; with
    ///   another type, each value goes to one of the readers, and is dropped if it is not of that reader's type.
    /// - Throws: ``SessionError/invalidParameter(_:)`` for an empty or too long name.
    public func channel<Value: Codable & Sendable>(
        _ type: Value.Type = Value.self, named name: String
    ) throws(SessionError) -> Channel<Value> {
        guard SessionMessage.isChannelName(name) else { throw Self.invalidChannelName }
        return Channel(name: name, session: self, queue: inbox.openChannel(name))
    }

    fileprivate static var invalidChannelName: SessionError {
        .invalidParameter("the name of a channel has 1 to \(SessionMessage.maximumChannelNameByteCount) bytes")
    }
}

extension Session.Channel: AsyncSequence {
    private struct Values: AsyncIteratorProtocol {
        let channel: Session.Channel<Value>

        /// Waits for the next value. Values that are not of the type are dropped.
        /// - Returns: nil when the session is over, or the task is cancelled.
        func next() async -> (value: Value, sender: PeerID)? {
            while let received = await channel.queue.dequeue() {
                channel.session.recordDelivery(of: received)
                if let value = try? received.message.decodeChannelValue(Value.self) { return (value, received.sender) }
                channel.session.node.settings.log.info("session: a value of another type in a channel was dropped")
            }
            return nil
        }
    }

    /// The values that arrive, until the session is over. Values that are not of the type are dropped.
    public func makeAsyncIterator() -> some AsyncIteratorProtocol<(value: Value, sender: PeerID), Never> {
        Values(channel: self)
    }
}
