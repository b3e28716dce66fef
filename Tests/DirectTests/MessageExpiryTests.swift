import NearshareBase
import NearshareDirect
import NearshareTesting
import Testing

/// Messages of a channel that are dropped when no link has carried them in their time.
@Suite struct MessageExpiryTests {
    private let start = MonotonicInstant(nanoseconds: 1_000_000_000)

    private func later(_ seconds: Int) -> MonotonicInstant { start + .seconds(seconds) }

    /// Two channels with a link, on which both have resumed.
    private struct Pair {
        var channels = [MessageChannel(epoch: 11), MessageChannel(epoch: 22)]
        var ids: [MessageChannel.LinkID] = []

        mutating func connect() throws {
            ids = [channels[0].attach(), channels[1].attach()]
            for (from, to) in [(0, 1), (1, 0)] {
                if let frame = channels[from].nextFrame(for: ids[from]) { _ = try channels[to].receive(frame, on: ids[to]) }
            }
        }

        mutating func disconnect() { for end in 0..<2 { channels[end].detach(ids[end]) } }

        /// Sends all frames of channel 0.
        /// - Returns: the messages that arrive.
        mutating func exchange() throws -> [SessionMessage] {
            var messages: [SessionMessage] = []
            while let frame = channels[0].nextFrame(for: ids[0]) {
                if case .message(let message)? = try channels[1].receive(frame, on: ids[1]) {
                    messages.append(message)
                    channels[1].recordDelivery(of: message, at: channels[1].lastPosition)
                }
            }
            channels[1].acknowledgeNow()
            while let frame = channels[1].nextFrame(for: ids[1]) { _ = try channels[0].receive(frame, on: ids[0]) }
            return messages
        }
    }

    private func message(_ byte: UInt8) -> SessionMessage { SessionMessage(bytes: [byte]) }

    @Test("a message that waits for longer than its time is dropped, the others arrive in order") func drops() throws {
        var pair = Pair()
        pair.channels[0].append(message(1))
        let short = pair.channels[0].append(message(2), expiry: later(1))
        let long = pair.channels[0].append(message(3), expiry: later(5))
        #expect(pair.channels[0].nextExpiry == later(1))
        let isEarly = pair.channels[0].dropExpired(now: start)
        let isDue = pair.channels[0].dropExpired(now: later(2))
        #expect(!isEarly && isDue && pair.channels[0].nextExpiry == later(5))
        try pair.connect()
        let arrived = try pair.exchange()
        #expect(arrived == [message(1), message(3)])
        #expect(pair.channels[0].isEmpty && pair.channels[0].nextExpiry == nil)
        #expect(pair.channels[0].isDropped(short, of: 0) && !pair.channels[0].isDropped(long, of: 0))
        #expect(pair.channels[0].isAcknowledged(long, of: 0) == true)
    }

    @Test("a message that a link has carried is not dropped, also when the link is lost") func keeps() throws {
        var pair = Pair()
        try pair.connect()
        let number = pair.channels[0].append(message(1), expiry: later(1))
        _ = pair.channels[0].nextFrame(for: pair.ids[0])
        pair.disconnect()
        #expect(pair.channels[0].nextExpiry == nil)
        let isDropped = pair.channels[0].dropExpired(now: later(9))
        #expect(!isDropped)
        try pair.connect()
        let arrived = try pair.exchange()
        #expect(arrived == [message(1)])
        #expect(!pair.channels[0].isDropped(number, of: 0))
    }

    @Test("dropped messages free their room in the window") func window() throws {
        var limits = MessageChannel.Limits()
        limits.maximumUnacknowledgedByteCount = 1000
        var channel = MessageChannel(epoch: 1, limits: limits)
        channel.append(SessionMessage(bytes: [UInt8](repeating: 1, count: 1000)), expiry: later(1))
        #expect(!channel.hasRoom && channel.unacknowledgedByteCount > 1000)
        let isDropped = channel.dropExpired(now: later(1))
        #expect(isDropped && channel.hasRoom && channel.isEmpty && channel.unacknowledgedByteCount == 0)
        channel.discardMessages()
        #expect(channel.unacknowledgedByteCount == 0 && channel.nextExpiry == nil)
    }

    @Test("after a restart of the peer, new messages have expiries of their own") func restart() throws {
        var pair = Pair()
        try pair.connect()
        pair.channels[0].append(message(1))
        _ = try pair.exchange()
        pair.disconnect()
        pair.channels[1] = MessageChannel(epoch: 33)
        let old = pair.channels[0].append(message(2), expiry: later(1))
        try pair.connect()
        let number = pair.channels[0].append(message(3), expiry: later(2))
        #expect(number != old && pair.channels[0].generation == 1)
        #expect(pair.channels[0].isAcknowledged(old, of: 0) == nil)
        _ = pair.channels[0].dropExpired(now: later(3))
        #expect(pair.channels[0].isDropped(number, of: 1) && !pair.channels[0].isDropped(number, of: 0))
    }

    @Test("a dropped message never counts as delivered, however many are dropped after it") func neverDelivered() throws {
        var pair = Pair()
        let first = pair.channels[0].append(message(1), expiry: later(1))
        _ = pair.channels[0].dropExpired(now: later(1))
        for second in 2...5_000 {
            pair.channels[0].append(message(2), expiry: later(second))
            _ = pair.channels[0].dropExpired(now: later(second))
        }
        let last = pair.channels[0].append(message(3))
        try pair.connect()
        let arrived = try pair.exchange()
        #expect(arrived == [message(3)])
        #expect(pair.channels[0].isAcknowledged(last, of: 0) == true && !pair.channels[0].isDropped(last, of: 0))
        #expect(pair.channels[0].isDropped(first, of: 0) && pair.channels[0].isAcknowledged(first, of: 0) == nil)
    }

    @Test("dropped messages between delivered ones stay dropped, and no message on its way counts as dropped")
    func droppedBetweenDelivered() throws {
        var pair = Pair()
        try pair.connect()
        var dropped: [MessageChannel.Ticket] = []
        for second in 1...4_200 {
            dropped.append(pair.channels[0].append(message(1), expiry: later(second)))
            _ = pair.channels[0].dropExpired(now: later(second))
            let ticket = pair.channels[0].append(message(2))
            #expect(!pair.channels[0].isDropped(ticket, of: 0) && pair.channels[0].isAcknowledged(ticket, of: 0) == false)
            _ = try pair.exchange()
            #expect(pair.channels[0].isAcknowledged(ticket, of: 0) == true)
        }
        let areDropped = dropped.allSatisfy {
            pair.channels[0].isDropped($0, of: 0) && pair.channels[0].isAcknowledged($0, of: 0) == nil
        }
        #expect(areDropped)
    }

    @Test(
        "messages dropped in another order than they were appended are told from those between them", arguments: seeds(1...20))
    func droppedOutOfOrder(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var pair = Pair()
        let expiries = (0..<64).map { _ in random.once(in: 3) ? nil : Int.random(in: 1...20, using: &random) }
        let tickets = expiries.map { second in
            pair.channels[0].append(message(1), isUrgent: random.once(in: 2), expiry: second.map(later))
        }
        for second in 1...20 {
            _ = pair.channels[0].dropExpired(now: later(second))
            for (ticket, expiry) in zip(tickets, expiries) {
                #expect(pair.channels[0].isDropped(ticket, of: 0) == (expiry.map { $0 <= second } ?? false), "seed \(seed)")
            }
        }
        try pair.connect()
        _ = try pair.exchange()
        for (ticket, expiry) in zip(tickets, expiries) {
            #expect(pair.channels[0].isAcknowledged(ticket, of: 0) == (expiry == nil ? true : nil), "seed \(seed)")
        }
    }

    @Test("messages read out of order are acknowledged one by one, each once") func outOfOrder() throws {
        var pair = Pair()
        try pair.connect()
        var positions: [MessageChannel.Position] = []
        for byte in 0..<5 as Range<UInt8> { pair.channels[0].append(message(byte)) }
        while let frame = pair.channels[0].nextFrame(for: pair.ids[0]) {
            _ = try pair.channels[1].receive(frame, on: pair.ids[1])
            positions.append(pair.channels[1].lastPosition)
        }
        func read(_ number: Int) throws -> Int {
            pair.channels[1].recordDelivery(of: message(UInt8(number)), at: positions[number])
            pair.channels[1].acknowledgeNow()
            while let frame = pair.channels[1].nextFrame(for: pair.ids[1]) {
                _ = try pair.channels[0].receive(frame, on: pair.ids[0])
            }
            return pair.channels[0].unacknowledgedCount
        }
        let counts = try [2, 1, 2, 4, 0, 3].map { try read($0) }
        #expect(counts == [4, 3, 3, 2, 1, 0])
    }
}
