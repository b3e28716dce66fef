internal import NearshareBase

/// The sending part of a ``MessageChannel``: numbered messages, kept until they are acknowledged.
struct SendQueue: Sendable {
    struct Entry: Sendable {
        /// nil for a message that was dropped: its number is sent without it.
        fileprivate(set) var message: SessionMessage?
        /// Whether the message is the sender's metadata, which is not delivered as a message.
        fileprivate var isMetadata = false
        /// The time at which it is dropped, unless it was sent before.
        fileprivate var expiry: MonotonicInstant?

        /// The kind in the frame that carries it.
        var wireKind: UInt8 {
            guard let message else { return ChannelFrame.droppedKind }
            return isMetadata ? ChannelFrame.metadataKind : message.kind.rawValue
        }

        fileprivate var windowByteCount: Int { message?.windowByteCount ?? SessionMessage.windowOverheadByteCount }
    }

    /// Messages from index ``start`` on are unacknowledged; the first of them has the number ``firstNumber``.
    private var messages: [Entry] = []
    /// Messages with an expiry that were not dropped.
    private var expiringCount = 0
    private var start = 0
    private var byteCount = 0
    /// The number of the first unacknowledged message.
    private(set) var firstNumber: UInt64 = 0

    /// The bytes of unacknowledged messages, as a window counts them.
    var windowByteCount: Int { byteCount }
    /// The number of unacknowledged messages.
    var count: Int { messages.count - start }
    /// The number of the next message to be appended.
    var nextNumber: UInt64 { firstNumber.addingClamped(UInt64(count)) }

    /// Whether fewer messages and bytes are unacknowledged than the limits allow.
    func hasRoom(_ limits: MessageChannel.Limits) -> Bool {
        count < limits.unacknowledgedCount && byteCount < limits.unacknowledgedByteCount
    }

    /// - Returns: The message's number.
    @discardableResult
    mutating func append(_ message: SessionMessage, expiry: MonotonicInstant? = nil, isMetadata: Bool = false) -> UInt64 {
        messages.append(Entry(message: message, isMetadata: isMetadata, expiry: expiry))
        if expiry != nil { expiringCount += 1 }
        byteCount += message.windowByteCount
        // Bounded: at least this message is counted.
        return nextNumber - 1
    }

    /// The message of a number; nil when it is acknowledged or was not appended yet.
    subscript(number: UInt64) -> Entry? {
        guard (firstNumber..<nextNumber).contains(number) else { return nil }
        // Bounded: the number is in the range of those that are kept.
        return messages[start + Int(number - firstNumber)]
    }

    // MARK: Expiry

    /// The earliest expiry among the messages from a number on.
    func firstExpiry(from number: UInt64) -> MonotonicInstant? {
        guard expiringCount > 0 else { return nil }
        return messages[index(from: number)...].compactMap(\.expiry).min()
    }

    /// Drops the messages from a number on whose time has passed. Their numbers stay.
    /// - Returns: the numbers.
    mutating func dropExpired(from number: UInt64, now: MonotonicInstant) -> [UInt64] {
        guard expiringCount > 0 else { return [] }
        var dropped: [UInt64] = []
        for index in index(from: number)..<messages.count {
            guard let expiry = messages[index].expiry, expiry <= now else { continue }
            byteCount -= messages[index].windowByteCount
            messages[index] = Entry(message: nil)
            byteCount += messages[index].windowByteCount
            expiringCount -= 1
            dropped.append(firstNumber.addingClamped(UInt64(index - start)))
        }
        return dropped
    }

    private func index(from number: UInt64) -> Int {
        min(messages.count, start + Int(clamping: number.subtractingClamped(firstNumber)))
    }

    /// Removes all messages below a number.
    mutating func acknowledge(below number: UInt64) throws(MalformedInput) {
        guard number <= nextNumber else { throw MalformedInput("message: an acknowledgement of a message that was never sent") }
        guard number > firstNumber else { return }
        removeFirst(Int(clamping: number.subtractingClamped(firstNumber)))
        firstNumber = number
    }

    /// Removes all messages. The number of the first one stays.
    mutating func discard() { removeFirst(count) }

    /// Removes all messages, and numbers the following ones from 0.
    mutating func restart() {
        removeFirst(count)
        firstNumber = 0
    }

    private mutating func removeFirst(_ removed: Int) {
        for index in start..<start + removed {
            byteCount -= messages[index].windowByteCount
            if messages[index].expiry != nil { expiringCount -= 1 }
            messages[index] = Entry(message: nil)
        }
        start += removed
        // Compacting rarely costs less than removing the messages one by one.
        if start == messages.count || start > 1024, start * 2 >= messages.count {
            messages.removeFirst(start)
            start = 0
        }
    }
}
