import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareDirect

/// Two ends of a channel, and the links between them with the frames in flight.
private struct ChannelPair {
    struct Link {
        let ids: [MessageChannel.LinkID]
        /// The frames in flight to ends 0 and 1.
        var queues: [[[UInt8]]] = [[], []]
    }

    var ends: [MessageChannel]
    var links: [Link] = []
    /// The messages that each end's program has taken.
    var taken: [[[UInt8]]] = [[], []]
    /// The messages that each end's program has not taken yet.
    var waiting: [[SessionMessage]] = [[], []]
    var restarts: [Int] = []
    /// The metadata that each end has received.
    var metadata: [[StructuredValue]] = [[], []]
    var readsAtOnce = true
    /// No caller waits for a message that carries an acknowledgement.
    var isImpatient = true

    init(limits: MessageChannel.Limits = MessageChannel.Limits()) {
        ends = [MessageChannel(epoch: 11, limits: limits), MessageChannel(epoch: 22, limits: limits)]
    }

    /// All messages were delivered.
    var areEmpty: Bool { ends.allSatisfy { $0.isEmpty } }

    mutating func connect() -> Int {
        links.append(Link(ids: [ends[0].attach(), ends[1].attach()]))
        return links.count - 1
    }

    mutating func cut(_ index: Int) {
        for end in 0..<2 { ends[end].detach(links[index].ids[end]) }
        links[index].queues = [[], []]
    }

    /// Sends the pending frames of an end, at most this number.
    mutating func send(from end: Int, on index: Int, upTo limit: Int = .max) {
        var count = 0
        if isImpatient { ends[end].acknowledgeNow() }
        while count < limit, let frame = ends[end].nextFrame(for: links[index].ids[end]) {
            links[index].queues[1 - end].append(frame)
            count += 1
        }
    }

    mutating func deliver(to end: Int, on index: Int, upTo limit: Int = .max) throws {
        let frames = links[index].queues[end].prefix(limit)
        links[index].queues[end].removeFirst(frames.count)
        for frame in frames {
            switch try ends[end].receive(frame, on: links[index].ids[end]) {
            case .message(let message): waiting[end].append(message)
            case .restarted(let lost): restarts.append(lost)
            case .outdated: break
            case .metadata(let value): metadata[end].append(value)
            case nil: break
            }
        }
        if readsAtOnce { take(end) }
    }

    mutating func take(_ end: Int, upTo limit: Int = .max) {
        for message in waiting[end].prefix(limit) {
            taken[end].append(message.bytes)
            ends[end].recordDelivery(of: message)
        }
        waiting[end].removeFirst(min(limit, waiting[end].count))
    }

    /// Runs until these links are idle.
    mutating func settle(_ indices: Int...) throws {
        var isBusy = true
        while isBusy {
            isBusy = false
            for index in indices {
                for end in 0..<2 {
                    send(from: end, on: index)
                    isBusy = isBusy || !links[index].queues[1 - end].isEmpty
                    try deliver(to: 1 - end, on: index)
                }
            }
        }
    }

    mutating func append(_ numbers: some Sequence<Int>, at end: Int = 0) {
        for number in numbers { ends[end].append(SessionMessage(bytes: Self.bytes(number))) }
    }

    static func bytes(_ number: Int) -> [UInt8] { [UInt8(number >> 8), UInt8(number & 255)] }
}

@Suite struct MessageChannelTests {
    private func numbers(_ range: Range<Int>) -> [[UInt8]] { range.map(ChannelPair.bytes) }

    /// A frame of an end that violates the protocol.
    private func frame(_ type: UInt8, _ fields: UInt64..., tail: [UInt8] = []) -> [UInt8] {
        [type] + fields.flatMap { field in withUnsafeBytes(of: field.bigEndian) { Array($0) } } + tail
    }

    /// An end with a link on which the other side, of incarnation 22, has begun at number 0.
    private func started(appending count: Int = 0) throws -> (MessageChannel, MessageChannel.LinkID) {
        var channel = MessageChannel(epoch: 11)
        let link = channel.attach()
        for number in 0..<count { channel.append(SessionMessage(bytes: ChannelPair.bytes(number))) }
        #expect(try channel.receive(frame(0, 22, 11, 0), on: link) == nil)
        return (channel, link)
    }

    @Test func `messages of both ends arrive in order`() throws {
        var pair = ChannelPair()
        let link = pair.connect()
        pair.append(0..<200)
        pair.append(500..<510, at: 1)
        try pair.settle(link)
        #expect(pair.taken == [numbers(500..<510), numbers(0..<200)])
        #expect(pair.areEmpty)
    }

    @Test(
        "messages in flight on a broken link are sent again, and none is delivered twice", arguments: seeds(0..<200))
    func breaks(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var pair = ChannelPair()
        pair.readsAtOnce = seed.isMultiple(of: 2)
        var sent = [0, 0]
        var open: [Int] = []
        for _ in 0..<300 {
            let end = Int.random(in: 0..<2, using: &random)
            switch Int.random(in: 0..<10, using: &random) {
            case 0 where open.count < 3: open.append(pair.connect())
            case 1: if !open.isEmpty { pair.cut(open.remove(at: Int.random(in: 0..<open.count, using: &random))) }
            case 2...4:
                guard pair.ends[end].hasRoom else { continue }
                pair.append([sent[end]], at: end)
                sent[end] += 1
            case 5: pair.take(end, upTo: 3)
            default:
                guard let index = open.randomElement(using: &random) else { continue }
                pair.send(from: end, on: index, upTo: Int.random(in: 1...5, using: &random))
                try pair.deliver(to: 1 - end, on: index, upTo: Int.random(in: 0...5, using: &random))
            }
        }
        pair.readsAtOnce = true
        for index in open { pair.cut(index) }
        try pair.settle(pair.connect())
        #expect(pair.taken[1] == numbers(0..<sent[0]), "seed \(seed)")
        #expect(pair.taken[0] == numbers(0..<sent[1]), "seed \(seed)")
        #expect(pair.areEmpty, "seed \(seed)")
    }

    @Test func `the newest ready link carries messages, and after its end the older one`() throws {
        var pair = ChannelPair()
        let old = pair.connect()
        pair.append(0..<3)
        try pair.settle(old)
        let new = pair.connect()
        pair.append(3..<5)
        // The other side has not sent its starting number for the new link yet.
        #expect(pair.ends[0].hasFrame(for: pair.links[old].ids[0]))
        pair.send(from: 1, on: new)
        try pair.deliver(to: 0, on: new)
        pair.send(from: 0, on: new, upTo: 1)
        #expect(!pair.ends[0].hasFrame(for: pair.links[old].ids[0]))
        try pair.settle(new)
        #expect(pair.taken[1] == numbers(0..<5))
        // All messages were acknowledged on the new link, beyond the position of the old one.
        pair.cut(new)
        #expect(!pair.ends[0].hasFrame(for: pair.links[old].ids[0]))
        pair.append(5..<7)
        try pair.settle(old)
        #expect(pair.taken[1] == numbers(0..<7))
    }

    @Test func `a receiver that does not read stops the sender, also on a new link`() throws {
        var limits = MessageChannel.Limits()
        limits.maximumUnacknowledgedCount = 10
        var pair = ChannelPair(limits: limits)
        pair.readsAtOnce = false
        let first = pair.connect()
        pair.append(0..<10)
        #expect(!pair.ends[0].hasRoom)
        try pair.settle(first)
        #expect(pair.waiting[1].count == 10)
        pair.cut(first)
        let second = pair.connect()
        try pair.settle(second)
        // It has arrived, but still fills the window.
        #expect(!pair.ends[0].hasRoom && !pair.ends[0].isEmpty)
        pair.take(1)
        try pair.settle(second)
        #expect(pair.ends[0].hasRoom && pair.ends[0].isEmpty)
        #expect(pair.taken[1] == numbers(0..<10))
    }

    @Test func `the window bounds bytes as well as messages`() throws {
        var pair = ChannelPair()
        pair.readsAtOnce = false
        let link = pair.connect()
        let large = SessionMessage(bytes: [UInt8](repeating: 1, count: SessionMessage.maximumByteCount))
        var count = 0
        while pair.ends[0].hasRoom {
            pair.ends[0].append(large)
            count += 1
        }
        #expect(count == 2)
        try pair.settle(link)
        // The second one would leave no room to urgent messages.
        #expect(pair.waiting[1].count == 1)
        pair.take(1, upTo: 1)
        try pair.settle(link)
        pair.take(1)
        try pair.settle(link)
        #expect(pair.ends[0].isEmpty)
    }

    @Test("urgent messages and metadata arrive while a window of others is unread", arguments: [1, 1000, 100_000, 1 << 20])
    func reserve(byteCount: Int) throws {
        var pair = ChannelPair()
        pair.readsAtOnce = false
        let link = pair.connect()
        let message = SessionMessage(bytes: [UInt8](repeating: 1, count: byteCount))
        while pair.ends[0].hasRoom { pair.ends[0].append(message) }
        let sentCount = pair.ends[0].unacknowledgedCount
        try pair.settle(link)
        #expect(pair.waiting[1].count < sentCount)
        let unread = pair.waiting[1].count
        // Changed thousands of times, it takes no room from messages.
        func changeMetadata() throws {
            let (start, unacknowledged) = (pair.metadata[1].count, pair.ends[0].unacknowledgedByteCount)
            for number in 0..<5000 as Range<Int64> {
                pair.ends[0].setMetadata(try StructuredValue.integer(number).encoded())
                try pair.settle(link)
            }
            let expected = (0..<5000 as Range<Int64>).map { StructuredValue.integer($0) }
            #expect(Array(pair.metadata[1].dropFirst(start)) == expected)
            #expect(pair.ends[0].unacknowledgedByteCount == unacknowledged)
        }
        try changeMetadata()
        let urgent = SessionMessage(bytes: [7])
        #expect(pair.ends[0].hasRoomForUrgent)
        let ticket = pair.ends[0].append(urgent, isUrgent: true)
        try pair.settle(link)
        #expect(pair.waiting[1].count == unread + 1 && pair.waiting[1].last == urgent)
        // The reserve is bounded, and the receiver's window is kept.
        while pair.ends[0].hasRoomForUrgent {
            pair.ends[0].append(urgent, isUrgent: true)
            try pair.settle(link)
        }
        #expect(pair.waiting[1].count <= 4096)
        try changeMetadata()
        while !pair.waiting[1].isEmpty {
            pair.take(1)
            try pair.settle(link)
        }
        #expect(pair.areEmpty && pair.ends[0].isAcknowledged(ticket, of: 0) == true)
    }

    @Test func `limits above the default have no effect`() {
        var limits = MessageChannel.Limits()
        limits.maximumUnacknowledgedCount = .max
        limits.maximumUnacknowledgedByteCount = .max
        var channel = MessageChannel(epoch: 1, limits: limits)
        var count = 0
        while channel.hasRoom {
            channel.append(SessionMessage(bytes: []))
            count += 1
        }
        #expect(count == 4096)
    }

    @Test("large messages are acknowledged after a quarter of the window, regardless of their number") func largeOnes() throws {
        var pair = ChannelPair()
        pair.isImpatient = false
        pair.readsAtOnce = false
        let link = pair.connect()
        try pair.settle(link)
        let large = SessionMessage(bytes: [UInt8](repeating: 1, count: (256 << 10) - 64))
        for _ in 0..<8 { pair.ends[0].append(large) }
        #expect(!pair.ends[0].hasRoom)
        try pair.settle(link)
        pair.take(1, upTo: 1)
        #expect(!pair.ends[1].hasFrame(for: pair.links[link].ids[1]))
        pair.take(1, upTo: 1)
        try pair.settle(link)
        #expect(
            pair.ends[0].isAcknowledged(MessageChannel.Ticket(isUrgent: false, number: 1), of: 0) == true
                && pair.ends[0].isAcknowledged(MessageChannel.Ticket(isUrgent: false, number: 2), of: 0) == false
                && pair.ends[0].hasRoom)
        // The count restarts from there.
        pair.take(1, upTo: 1)
        #expect(!pair.ends[1].hasFrame(for: pair.links[link].ids[1]) && pair.ends[1].owesAcknowledgement)
    }

    @Test func `acknowledgements come in portions, with messages, and when they are late`() throws {
        var pair = ChannelPair()
        pair.readsAtOnce = false
        pair.isImpatient = false
        let link = pair.connect()
        pair.append(0..<100)
        try pair.settle(link)
        pair.take(1, upTo: 63)
        #expect(!pair.ends[1].hasFrame(for: pair.links[link].ids[1]) && pair.ends[1].owesAcknowledgement)
        pair.take(1, upTo: 1)
        try pair.settle(link)
        #expect(
            pair.ends[0].isAcknowledged(MessageChannel.Ticket(isUrgent: false, number: 63), of: 0) == true
                && pair.ends[0].isAcknowledged(MessageChannel.Ticket(isUrgent: false, number: 64), of: 0) == false)
        // A message in the other direction carries it.
        pair.take(1, upTo: 1)
        pair.append([7], at: 1)
        try pair.settle(link)
        #expect(
            pair.ends[0].isAcknowledged(MessageChannel.Ticket(isUrgent: false, number: 64), of: 0) == true
                && pair.ends[0].isAcknowledged(MessageChannel.Ticket(isUrgent: false, number: 65), of: 0) == false
                && !pair.ends[1].owesAcknowledgement)
        pair.take(1)
        #expect(!pair.ends[1].hasFrame(for: pair.links[link].ids[1]))
        pair.ends[1].acknowledgeNow()
        try pair.settle(link)
        #expect(pair.ends[0].isEmpty)
    }

    @Test("S9: a message acknowledged before an earlier one is not sent again, on any link, and the earlier one is")
    func selectiveOnNewLink() throws {
        var (channel, link) = try started(appending: 6)
        for _ in 0..<7 { _ = channel.nextFrame(for: link) }
        #expect(try channel.receive(frame(4, 1, 2, 4), on: link) == nil)
        #expect(channel.unacknowledgedCount == 3 && !channel.hasFrame(for: link))
        func sentNumbers(on link: MessageChannel.LinkID) -> [[UInt8]] {
            var numbers: [[UInt8]] = []
            while let frame = channel.nextFrame(for: link) { if frame[0] == 1 { numbers.append(Array(frame[1..<9])) } }
            return numbers
        }
        // The peer's frame was sent before it knew this end.
        let other = channel.attach()
        _ = try channel.receive(frame(0, 22, 0, 0), on: other)
        #expect(sentNumbers(on: other) == [1, 4, 5].map { (number: UInt64) in number.bigEndianBytes })
        // Repeated, and of messages that are acknowledged all together by now.
        _ = try channel.receive(frame(4, 0, 2, 4), on: other)
        _ = try channel.receive(frame(2, 2), on: other)
        _ = try channel.receive(frame(4, 0, 1, 3), on: other)
        #expect(channel.unacknowledgedCount == 2)
        // A peer that contradicts itself: the first message of the window.
        _ = try channel.receive(frame(4, 0, 4, 6), on: other)
        #expect(channel.isEmpty)
    }

    @Test("what is read before an earlier message is acknowledged on each link anew, in frames of 64 ranges")
    func selectiveRepetition() throws {
        var (channel, link) = try started()
        _ = channel.nextFrame(for: link)
        var positions: [MessageChannel.Position] = []
        for number in 0..<200 as Range<UInt64> {
            _ = try channel.receive(frame(1, number, 0, tail: [0]), on: link)
            positions.append(channel.lastPosition)
        }
        for number in stride(from: 1, to: 200, by: 2) {
            channel.recordDelivery(of: SessionMessage(bytes: []), at: positions[number])
        }
        func ranges(on link: MessageChannel.LinkID) -> [Int] {
            var counts: [Int] = []
            while let frame = channel.nextFrame(for: link) { if frame[0] == 4 { counts.append((frame.count - 9) / 16) } }
            return counts
        }
        // More than 64 messages: at once.
        #expect(ranges(on: link) == [64, 36])
        #expect(!channel.owesAcknowledgement)
        channel.recordDelivery(of: SessionMessage(bytes: []), at: positions[2])
        #expect(ranges(on: link) == [])
        #expect(channel.owesAcknowledgement)
        channel.acknowledgeNow()
        #expect(ranges(on: link) == [1])
        #expect(!channel.owesAcknowledgement)
        let other = channel.attach()
        _ = try channel.receive(frame(0, 22, 11, 0), on: other)
        #expect(ranges(on: other) == [64, 35])
        channel.detach(other)
        #expect(channel.owesAcknowledgement)
        #expect(ranges(on: link) == [64, 35])
        // The first message makes one number of the first ranges; a restart of the peer ends all.
        channel.recordDelivery(of: SessionMessage(bytes: []), at: positions[0])
        channel.acknowledgeNow()
        #expect(channel.nextFrame(for: link) == frame(2, 4))
        let restarted = channel.attach()
        _ = try channel.receive(frame(0, 33, 11, 0), on: restarted)
        #expect(channel.nextFrame(for: restarted) == frame(0, 11, 33, 0))
        #expect(!channel.hasFrame(for: restarted))
    }

    @Test("messages read in any order over links that break are acknowledged, each once", arguments: seeds(1...20))
    func anyOrder(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var pair = ChannelPair()
        pair.readsAtOnce = false
        var link = pair.connect()
        var tickets: [MessageChannel.Ticket] = []
        var unread: [(number: Int, position: MessageChannel.Position)] = []
        var arrived: [Int] = []
        func receive() throws {
            pair.send(from: 0, on: link, upTo: Int.random(in: 0..<20, using: &random))
            for frame in pair.links[link].queues[1] {
                guard case .message(let message)? = try pair.ends[1].receive(frame, on: pair.links[link].ids[1]) else {
                    continue
                }
                let number = Int(message.bytes[0]) << 8 + Int(message.bytes[1])
                arrived.append(number)
                unread.append((number, pair.ends[1].lastPosition))
            }
            pair.links[link].queues[1] = []
        }
        func readAny(_ count: Int) {
            for _ in 0..<min(count, unread.count) {
                let (number, position) = unread.remove(at: Int.random(in: 0..<unread.count, using: &random))
                pair.ends[1].recordDelivery(of: SessionMessage(bytes: ChannelPair.bytes(number)), at: position)
            }
        }
        for step in 0..<300 {
            tickets.append(pair.ends[0].append(SessionMessage(bytes: ChannelPair.bytes(step))))
            try receive()
            readAny(Int.random(in: 0..<3, using: &random))
            pair.send(from: 1, on: link)
            try pair.deliver(to: 0, on: link, upTo: Int.random(in: 0..<20, using: &random))
            if random.once(in: 30) {
                pair.cut(link)
                link = pair.connect()
            }
            let acknowledged = tickets.filter { pair.ends[0].isAcknowledged($0, of: 0) == true }
            #expect(acknowledged.count == tickets.count - pair.ends[0].unacknowledgedCount, "seed \(seed)")
            #expect(acknowledged.count <= arrived.count - unread.count, "seed \(seed)")
        }
        for _ in 0..<100 {
            try receive()
            readAny(.max)
            pair.send(from: 1, on: link)
            try pair.deliver(to: 0, on: link)
        }
        #expect(arrived == Array(0..<300) && pair.ends[0].isEmpty, "seed \(seed)")
    }

    @Test func `a peer that starts again loses undelivered messages and begins with number 0`() throws {
        var pair = ChannelPair()
        let first = pair.connect()
        pair.append(0..<5)
        pair.append(0..<7, at: 1)
        try pair.settle(first)
        pair.append(5..<8)
        pair.cut(first)
        pair.ends[1] = MessageChannel(epoch: 33)
        pair.taken = [[], []]
        let second = pair.connect()
        // Our frame is sent before theirs arrives.
        pair.send(from: 0, on: second)
        try pair.settle(second)
        #expect(pair.restarts == [3])
        pair.append(10..<12)
        pair.append(20..<22, at: 1)
        try pair.settle(second)
        #expect(pair.taken == [numbers(20..<22), numbers(10..<12)])
        #expect(pair.areEmpty)
    }

    @Test("of metadata that waits only the latest is sent, before messages, and it is no message") func metadata() throws {
        var pair = ChannelPair()
        pair.readsAtOnce = false
        let link = pair.connect()
        pair.append(0..<1)
        for name in ["first", "second", "third"] { pair.ends[0].setMetadata(try StructuredValue.string(name).encoded()) }
        try pair.settle(link)
        #expect(pair.metadata == [[], [.string("third")]])
        #expect(pair.waiting[1].map(\.bytes) == numbers(0..<1) && pair.ends[0].unacknowledgedCount == 1)
        pair.ends[0].setMetadata(try StructuredValue.string("fourth").encoded())
        pair.append(1..<2)
        pair.send(from: 0, on: link, upTo: 1)
        try pair.deliver(to: 1, on: link)
        #expect(pair.metadata[1].last == .string("fourth") && pair.waiting[1].count == 1)
        try pair.settle(link)
        pair.take(1)
        try pair.settle(link)
        #expect(pair.areEmpty && !pair.ends[0].hasFrame(for: pair.links[link].ids[0]))
    }

    @Test("metadata is sent again on each new link, and an older value that arrives later has no effect")
    func metadataOnLinks() throws {
        var pair = ChannelPair()
        let first = pair.connect()
        try pair.settle(first)
        pair.ends[0].setMetadata(try StructuredValue.string("old").encoded())
        // In flight on the first link.
        pair.send(from: 0, on: first)
        pair.ends[0].setMetadata(try StructuredValue.string("new").encoded())
        let second = pair.connect()
        try pair.settle(second)
        try pair.deliver(to: 1, on: first)
        #expect(pair.metadata[1] == [.string("new")])
        // Lost with the newer link, it goes over the older one.
        pair.ends[0].setMetadata(try StructuredValue.string("lost").encoded())
        pair.send(from: 0, on: second)
        pair.cut(second)
        try pair.settle(first)
        #expect(pair.metadata[1] == [.string("new"), .string("lost")])
        for name in ["one", "two"] {
            pair.ends[1].setMetadata(try StructuredValue.string(name).encoded())
            try pair.settle(first)
        }
        // A peer without its state gets it as well.
        pair.cut(first)
        pair.ends[1] = MessageChannel(epoch: 33)
        try pair.settle(pair.connect())
        #expect(pair.metadata[1] == [.string("new"), .string("lost"), .string("lost")])
        // The metadata of the restarted end counts, though its number is lower than that of the earlier one.
        pair.ends[1].setMetadata(try StructuredValue.string("again").encoded())
        try pair.settle(pair.links.count - 1)
        #expect(pair.metadata[0] == [.string("one"), .string("two"), .string("again")])
    }

    @Test(
        "S18: metadata that is too long or malformed is a violation, also before the resume frame, and an old value is dropped")
    func hostileMetadata() throws {
        func receive(_ bytes: [UInt8], count: UInt64 = 1) throws {
            var (channel, link) = try started()
            for number in 0..<count {
                let event = try channel.receive(frame(3, number + 1, tail: bytes), on: link)
                #expect(event == .metadata(try StructuredValue(decoding: bytes[...])))
            }
        }
        let longest = try StructuredValue.string(String(repeating: "a", count: 1021)).encoded()
        #expect(longest.count == 1024)
        try receive(longest)
        try receive([0xf6], count: 10_000)
        let tooLong = try StructuredValue.string(String(repeating: "a", count: 1022)).encoded()
        for bytes in [tooLong, [], [0xff], [0xf6, 0xf6], [UInt8](repeating: 0x81, count: 17) + [0xf6]] {
            #expect(throws: MalformedInput.self) { try receive(bytes) }
        }
        var (channel, link) = try started()
        for (number, isNew) in [(0, false), (.max, true), (.max, false), (5, false)] as [(UInt64, Bool)] {
            let event = try channel.receive(frame(3, number, tail: [0xf6]), on: link)
            #expect(event == (isNew ? .metadata(.null) : nil))
        }
        #expect(throws: MalformedInput.self) { try channel.receive(frame(3, 5, tail: [0xff]), on: link) }
        let early = channel.attach()
        #expect(throws: MalformedInput.self) { try channel.receive(frame(3, 1, tail: [0xf6]), on: early) }
    }

    @Test func `links from before a restart carry nothing more`() throws {
        var (channel, old) = try started(appending: 3)
        let new = channel.attach()
        #expect(try channel.receive(frame(0, 33, 0, 0), on: new) == .restarted(lost: 3))
        channel.append(SessionMessage(bytes: [1]))
        let events = [try channel.receive(frame(2, 1), on: old), try channel.receive(frame(1, 0, 0, tail: [0, 9]), on: old)]
        #expect(events == [nil, nil] && channel.isAttached(new) && !channel.isAttached(old))
        #expect(channel.nextFrame(for: old) == nil)
        #expect(!channel.isEmpty)
        // The program before, which still runs, connects again; and one that expects too much ends no other link.
        let (late, wrong) = (channel.attach(), channel.attach())
        #expect(try channel.receive(frame(0, 22, 11, 0), on: late) == .outdated)
        #expect(throws: MalformedInput.self) { try channel.receive(frame(0, 44, 11, 9), on: wrong) }
        #expect(channel.isAttached(new) && !channel.isAttached(late))
    }

    @Test("R7: a peer that restarts has a whole window, and unread messages of repeated restarts delay the next link")
    func restarts() throws {
        var channel = MessageChannel(epoch: 11)
        func receiveWindow(_ life: UInt64, on link: MessageChannel.LinkID) throws {
            _ = try channel.receive(frame(0, life, 11, 0), on: link)
            for number in 0..<4096 as Range<UInt64> { _ = try channel.receive(frame(1, number, 0, tail: [0, 1]), on: link) }
        }
        for life in 1...2 as ClosedRange<UInt64> {
            let link = channel.attach()
            #expect(channel.nextFrame(for: link) != nil)
            try receiveWindow(life, on: link)
        }
        // A peer that does not wait for the resume frame.
        let third = channel.attach()
        #expect(channel.nextFrame(for: third) == nil)
        try receiveWindow(3, on: third)
        let fourth = channel.attach()
        #expect(throws: MalformedInput("message: more than the window allows")) { try receiveWindow(4, on: fourth) }
        channel.append(SessionMessage(bytes: [1]))
        for _ in 0..<2 * 4096 { channel.recordDelivery(of: SessionMessage(bytes: [1])) }
        #expect(channel.nextFrame(for: fourth) == nil)
        channel.recordDelivery(of: SessionMessage(bytes: [1]))
        #expect(channel.nextFrame(for: fourth) == frame(0, 11, 4, 0))
        // Messages received before are not acknowledged as received since.
        #expect(channel.nextFrame(for: fourth) == frame(1, 0, 0, tail: [0, 1]))
    }

    @Test func `unread messages of an earlier channel take no room in the window`() throws {
        let stale = (0..<4000).map { SessionMessage(bytes: ChannelPair.bytes($0)) }
        var channel = MessageChannel(epoch: 11, stale: stale)
        let link = channel.attach()
        #expect(channel.nextFrame(for: link) == frame(0, 11, 0, 0))
        _ = try channel.receive(frame(0, 22, 11, 0), on: link)
        for number in 0..<4096 as Range<UInt64> { _ = try channel.receive(frame(1, number, 0, tail: [0, 1]), on: link) }
        #expect(throws: MalformedInput.self) { try channel.receive(frame(1, 4096, 0, tail: [0, 1]), on: link) }
        for message in stale { channel.recordDelivery(of: message) }
        #expect(throws: MalformedInput.self) { try channel.receive(frame(1, 4096, 0, tail: [0, 1]), on: link) }
    }

    @Test func `an older link is used while the next one is delayed`() throws {
        var (channel, old) = try started()
        _ = channel.nextFrame(for: old)
        for number in 0..<4096 as Range<UInt64> { _ = try channel.receive(frame(1, number, 0, tail: [0, 1]), on: old) }
        let current = channel.attach()
        _ = channel.nextFrame(for: current)
        _ = try channel.receive(frame(0, 33, 11, 0), on: current)
        let delayed = channel.attach()
        _ = try channel.receive(frame(0, 33, 11, 0), on: delayed)
        channel.append(SessionMessage(bytes: [1]))
        #expect(!channel.hasFrame(for: delayed) && channel.hasFrame(for: current))
    }

    @Test func `messages and frames of unknown kinds are acknowledged and dropped`() throws {
        var (channel, link) = try started()
        _ = channel.nextFrame(for: link)
        #expect(try channel.receive(frame(1, 0, 0, tail: [200, 1, 2]), on: link) == nil)
        #expect(channel.nextFrame(for: link) == frame(2, 1))
        #expect(
            try channel.receive(frame(1, 1, 0, tail: [1, 7]), on: link)
                == .message(SessionMessage(kind: .structured, bytes: [7])))
        #expect(try channel.receive([77, 1, 2, 3], on: link) == nil)
    }

    @Test("A2, R7: messages beyond the window are a violation, by number and by bytes") func beyondTheWindow() throws {
        var (channel, link) = try started()
        for number in 0..<4096 as Range<UInt64> { _ = try channel.receive(frame(1, number, 0, tail: [0]), on: link) }
        #expect(throws: MalformedInput("message: more than the window allows")) {
            try channel.receive(frame(1, 4096, 0, tail: [0]), on: link)
        }
        (channel, link) = try started()
        let large = [UInt8](repeating: 0, count: SessionMessage.maximumByteCount)
        for number in 0..<2 as Range<UInt64> { _ = try channel.receive(frame(1, number, 0, tail: [0] + large), on: link) }
        #expect(throws: MalformedInput("message: more than the window allows")) {
            try channel.receive(frame(1, 2, 0, tail: [0]), on: link)
        }
    }

    @Test(
        "R7: an invalid frame is a violation, and changes nothing",
        arguments: [
            // Cut short, and too long.
            [0, 1, 2], [1, 0, 0], [2], [], [2, 0, 0, 0, 0, 0, 0, 0, 0, 9], [4, 0, 0, 0, 0, 0, 0, 0, 0],
        ] as [[UInt8]]) func malformed(_ bytes: [UInt8]) throws
    {
        var (channel, link) = try started(appending: 2)
        #expect(throws: MalformedInput.self) { try channel.receive(bytes, on: link) }
        #expect(!channel.isEmpty)
        #expect(try channel.receive(frame(1, 0, 0, tail: [0, 5]), on: link) == .message(SessionMessage(bytes: [5])))
    }

    @Test("R7: implausible numbers are violations") func senselessNumbers() throws {
        func refuses(_ bytes: [UInt8]) throws {
            var (channel, link) = try started(appending: 2)
            #expect(throws: MalformedInput.self, "\(Hex.encode(bytes))") { try channel.receive(bytes, on: link) }
        }
        try refuses(frame(0, 22, 11, 0))  // Said twice where to begin.
        for number in [1, 1 << 32, .max] as [UInt64] { try refuses(frame(1, number, 0, tail: [0])) }
        for number in [3, 1 << 63, .max] as [UInt64] { try refuses(frame(2, number)) }
        for end in [3, .max] as [UInt64] { try refuses(frame(4, 0, 1, end)) }
        try refuses(frame(4, 1, 1, 2))
        try refuses(frame(1, 0, 0, tail: [0] + [UInt8](repeating: 1, count: SessionMessage.maximumByteCount + 1)))

        var channel = MessageChannel(epoch: 11)
        let link = channel.attach()
        #expect(throws: MalformedInput.self) { try channel.receive(frame(1, 0, 0, tail: [0, 1]), on: link) }
        #expect(throws: MalformedInput.self) { try channel.receive(frame(2, 0), on: link) }
        #expect(throws: MalformedInput.self) { try channel.receive(frame(4, 0, 1, 2), on: link) }
        #expect(throws: MalformedInput.self) { try channel.receive(frame(0, 22, 11, 1), on: link) }
    }

    @Test("R7: acknowledging a message not sent yet is a violation, and revoking an acknowledgement has no effect")
    func earlyAcknowledgements() throws {
        var (channel, link) = try started(appending: 3)
        _ = channel.nextFrame(for: link)
        #expect(throws: MalformedInput.self) { try channel.receive(frame(2, 3), on: link) }
        for _ in 0..<3 { _ = channel.nextFrame(for: link) }
        #expect(try channel.receive(frame(2, 3), on: link) == nil)
        #expect(channel.isEmpty && channel.nextFrame(for: link) == nil)
        #expect(try channel.receive(frame(2, 1), on: link) == nil)
        channel.append(SessionMessage(bytes: [9]))
        #expect(channel.nextFrame(for: link) == frame(1, 3, 0, tail: [0, 9]))
        // A new link on which the peer requests messages already discarded.
        let other = channel.attach()
        _ = try channel.receive(frame(0, 22, 11, 0), on: other)
        _ = channel.nextFrame(for: other)
        #expect(channel.nextFrame(for: other) == frame(1, 3, 0, tail: [0, 9]))
    }

    @Test("arbitrary frames never trap", arguments: 0..<300 as Range<UInt64>) func madeUp(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var channel = MessageChannel(epoch: 11)
        var links = [channel.attach()]
        let fields: [UInt64] = [0, 1, 2, 3, 4, 11, 22, 33, .max]
        for _ in 0..<200 {
            let link = links.randomElement(using: &random)!
            func field() -> UInt64 { fields.randomElement(using: &random)! }
            switch Int.random(in: 0..<12, using: &random) {
            case 11: _ = try? channel.receive(frame(4, field(), field(), field()), on: link)
            case 8: channel.setMetadata([0xf6])
            case 9: _ = try? channel.receive(frame(3, field(), tail: [0xf6]), on: link)
            case 0: _ = try? channel.receive(frame(0, field(), field(), field()), on: link)
            case 1...2: _ = try? channel.receive(frame(1, field(), field(), tail: random.bytes(3)), on: link)
            case 3: _ = try? channel.receive(frame(2, field()), on: link)
            case 4: channel.append(SessionMessage(bytes: [1]))
            case 5: links.append(channel.attach())
            case 6: channel.detach(link)
            case 7: channel.recordDelivery(of: SessionMessage(bytes: [1, 2]))
            default: for link in links { _ = channel.nextFrame(for: link) }
            }
        }
        #expect(links.count > 1, "seed \(seed)")
    }
}

@Suite struct MessageFramingTests {
    @Test("messages are reassembled for any division", arguments: seeds(0..<20)) func roundTrip(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let messages = (0..<10).map { _ in random.bytes(Int.random(in: 0...300, using: &random)) }
        var bytes: [UInt8] = []
        for message in messages { MessageFraming.append(message, to: &bytes) }
        var framing = MessageFraming()
        var read: [[UInt8]] = []
        while !bytes.isEmpty {
            let count = min(bytes.count, Int.random(in: 1...100, using: &random))
            read += try framing.receive(bytes.prefix(count))
            bytes.removeFirst(count)
        }
        #expect(read == messages, "seed \(seed)")
        #expect(framing.isBetweenMessages)
    }

    @Test("R1: a message with an announced length above the limit is rejected before it is received") func tooLong() throws {
        func length(_ count: Int) -> [UInt8] { withUnsafeBytes(of: UInt32(count).bigEndian) { Array($0) } }
        var framing = MessageFraming()
        #expect(try framing.receive(length(MessageFraming.maximumByteCount)) == [])
        #expect(!framing.isBetweenMessages)
        framing = MessageFraming()
        #expect(throws: MalformedInput.self) { try framing.receive(length(MessageFraming.maximumByteCount + 1)) }
        framing = MessageFraming()
        #expect(throws: MalformedInput.self) { try framing.receive([255, 255, 255, 255]) }
    }
}
