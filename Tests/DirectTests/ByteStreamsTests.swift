import NearshareBase
import NearshareDirect
import NearshareTesting
import Testing

@Suite struct ByteStreamsTests {
    private let name = StreamName("log")!

    /// Delivers all pending frames of one end to the other, as encoded bytes.
    private func exchange(_ a: inout ByteStreams, _ b: inout ByteStreams) throws {
        var isBusy = true
        while isBusy {
            isBusy = false
            while let frame = a.nextFrame() {
                try b.receive(try #require(try StreamFrame(decoding: frame.encoded[...])))
                isBusy = true
            }
            while let frame = b.nextFrame() {
                try a.receive(try #require(try StreamFrame(decoding: frame.encoded[...])))
                isBusy = true
            }
        }
    }

    private func pair() -> (ByteStreams, ByteStreams) { (ByteStreams(role: .initiator), ByteStreams(role: .responder)) }

    private func readAll(_ streams: inout ByteStreams, _ id: StreamID) throws -> [UInt8] {
        var all: [UInt8] = []
        while case .bytes(let bytes) = try streams.read(id, upTo: 1000) { all += bytes }
        return all
    }

    @Test func `bytes go both ways, and each direction ends by itself`() throws {
        var (a, b) = pair()
        let id = try a.open(.bytes, name)
        #expect(try a.write([1, 2, 3], on: id) == 3)
        try a.finish(id)
        try exchange(&a, &b)
        let told = b.drainEvents()
        #expect(told == [.opened(id, .bytes, name), .readable(id)])
        #expect(try b.read(id, upTo: 2) == .bytes([1, 2]))
        #expect(try b.read(id, upTo: 2) == .bytes([3]))
        #expect(try b.read(id, upTo: 2) == .end)
        #expect(throws: StreamError.notOpen) { try a.write([4], on: id) }
        #expect(try b.write([5], on: id) == 1)
        try b.finish(id)
        try exchange(&a, &b)
        #expect(try a.read(id, upTo: 9) == .bytes([5]))
        #expect(try a.read(id, upTo: 9) == .end)
        // The end is read each time, until the program has released the stream.
        #expect(a.canRead(id))
        #expect(try a.read(id, upTo: 9) == .end)
        a.abandon(id)
        #expect(throws: StreamError.notOpen) { try a.read(id, upTo: 9) }
        #expect(throws: StreamError.notOpen) { try b.write([1], on: id) }
    }

    @Test("a finished stream of a program is unsent until its end is sent, and one of a relayed link is none of a program's")
    func unsent() throws {
        var (a, b) = pair()
        let ids = [try a.open(.bytes, name), try a.open(.relay, name)]
        for id in ids {
            // More than the window, without credit.
            for _ in 0..<2 {
                let count = try a.write([UInt8](repeating: 1, count: 200_000)[...], on: id)
                #expect(count == 200_000)
                try exchange(&a, &b)
            }
            try a.finish(id)
            a.abandon(id)
            try exchange(&a, &b)
        }
        #expect(a.unsentFinished == [ids[0]] && a.undeliveredCount == 1)
        while !a.unsentFinished.isEmpty {
            let bytes = try readAll(&b, ids[0])
            #expect(!bytes.isEmpty)
            try exchange(&a, &b)
        }
        #expect(a.undeliveredCount == 1 && a.count == 2, "it may not have arrived")
        let token = a.nextConfirmation()
        let isConfirmed = a.receiveConfirmation(try #require(token))
        #expect(isConfirmed && a.undeliveredCount == 0)
    }

    @Test("bytes have arrived when a ping behind them is answered, also of streams that have ended since")
    func confirmation() throws {
        var (a, b) = pair()
        let ids = [try a.open(.bytes, name), try a.open(.bytes, name)]
        for id in ids {
            let count = try a.write([1], on: id)
            #expect(count == 1)
        }
        try exchange(&a, &b)
        #expect(a.undeliveredCount == 2 && !a.isConfirmationDue)
        try a.finish(ids[0])
        #expect(!a.isConfirmationDue, "the end is not sent")
        try exchange(&a, &b)
        #expect(a.isConfirmationDue && b.undeliveredCount == 0)
        let token = a.nextConfirmation()
        let first = try #require(token)
        #expect(!a.isConfirmed(first) && !a.isConfirmationDue)
        // One stream ends while the answer is awaited, and more is sent on the other.
        try b.finish(ids[0])
        let count = try a.write([2], on: ids[1])
        try exchange(&a, &b)
        let end = try a.read(ids[0], upTo: 9)
        #expect(count == 1 && end == .end && a.undeliveredCount == 2)
        for (answer, isAwaited) in [(first + 1, false), (first, true), (first, false)] {
            let isConfirmation = a.receiveConfirmation(answer)
            #expect(isConfirmation == isAwaited)
        }
        #expect(a.undeliveredCount == 1 && a.isConfirmed(first))
        let requested = a.requestConfirmation()
        let nextToken = a.nextConfirmation()
        let second = try #require(nextToken)
        #expect(requested == second)
        a.reset(ids[1], reason: .cancelled)
        #expect(a.undeliveredCount == 0 && !a.isConfirmed(second))
        let isConfirmed = a.receiveConfirmation(second)
        #expect(isConfirmed && a.isConfirmed(second))
        let further = a.requestConfirmation()
        #expect(further == nil, "nothing was sent since")
    }

    @Test("bytes that are sent while an answer is awaited need a further one; earlier ones do not wait for it")
    func laterBytes() throws {
        var (a, b) = pair()
        let id = try a.open(.bytes, name)
        var tokens: [UInt64] = []
        for number in 1...3 {
            let count = try a.write([1], on: id)
            try exchange(&a, &b)
            let token = a.requestConfirmation()
            tokens.append(try #require(token))
            #expect(count == 1)
            guard number == 1 else { continue }
            let sent = a.nextConfirmation()
            #expect(sent == token)
        }
        #expect(tokens[1] == tokens[2] && tokens[1] == tokens[0] + 1)
        let isFirst = a.receiveConfirmation(tokens[0])
        #expect(isFirst && a.isConfirmed(tokens[0]) && !a.isConfirmed(tokens[1]))
        let sent = a.nextConfirmation()
        let isSecond = a.receiveConfirmation(tokens[1])
        #expect(sent == tokens[1] && isSecond && a.isConfirmed(tokens[1]) && a.undeliveredCount == 0)
    }

    @Test("a reader that finishes its own direction without a byte has nothing undelivered, before and after the end is sent")
    func unsentEnd() throws {
        var (a, b) = pair()
        let id = try a.open(.bytes, name)
        #expect(try a.write([1], on: id) == 1)
        #expect(a.undeliveredCount == 1 && a.unsentFinished.isEmpty)
        try a.finish(id)
        try exchange(&a, &b)
        try b.finish(id)
        #expect(b.undeliveredCount == 0 && b.unsentFinished == [id])
        try exchange(&a, &b)
        #expect(a.undeliveredCount == 1 && b.undeliveredCount == 0 && b.unsentFinished.isEmpty)
    }

    @Test("R1: a peer that opens streams without reading the answers is stopped") func floodOfOpens() throws {
        var streams = ByteStreams(role: .responder)
        var count: UInt32 = 0
        #expect(throws: MalformedInput("stream: opened without reading the replies")) {
            while count < 100_000 {
                try streams.receive(.open(StreamID(rawValue: 2 * count + 1), .bytes, name))
                count += 1
            }
        }
        #expect(count == 64 + 4096 && streams.count == 64)
    }

    @Test("R1: a peer that sends without reading gets one credit frame for each stream, which has the newest limit")
    func floodOfData() throws {
        var streams = ByteStreams(role: .responder)
        let ids = [1, 3].map { StreamID(rawValue: $0) }
        for id in ids { try streams.receive(.open(id, .bytes, name)) }
        let chunk = [UInt8](repeating: 0, count: Int(StreamFrame.initialWindow) / 4)[...]
        for _ in 0..<40 {
            for id in ids {
                try streams.receive(.data(id, chunk))
                #expect(try streams.read(id, upTo: .max) == .bytes(Array(chunk)))
            }
        }
        var frames: [StreamFrame] = []
        while let frame = streams.nextFrame() { frames.append(frame) }
        let limit = 40 * UInt64(chunk.count) + StreamFrame.initialWindow
        #expect(frames == ids.map { .credit($0, upTo: limit) })
    }

    @Test("R1: a program opens no streams on a link that carries none of its frames") func manyOwnStreams() throws {
        var streams = ByteStreams(role: .initiator)
        var count = 0
        #expect(throws: StreamError.tooMany) {
            while count < 100_000 {
                streams.reset(try streams.open(.bytes, name), reason: .cancelled)
                count += 1
            }
        }
        #expect(count == 2048)
        for _ in 0..<2 { _ = streams.nextFrame() }
        #expect(throws: Never.self) { _ = try streams.open(.bytes, name) }
    }

    @Test func `a slow reader stops its own writer and no other`() throws {
        var (a, b) = pair()
        let slow = try a.open(.bytes, name)
        let fast = try a.open(.bytes, name)
        let chunk = [UInt8](repeating: 7, count: 100_000)[...]
        var written = 0
        for _ in 0..<20 {
            written += try a.write(chunk, on: slow)
            try exchange(&a, &b)
        }
        // The window and the sender's buffer are full.
        #expect(written == Int(StreamFrame.initialWindow) + ByteStreams.Limits().sendBufferByteCount)
        var total = 0
        for _ in 0..<20 {
            total += try a.write(chunk, on: fast)
            try exchange(&a, &b)
            _ = try readAll(&b, fast)
            try exchange(&a, &b)
        }
        #expect(total == 2_000_000)
        #expect(a.availableByteCount(on: slow) == 0)
        _ = a.drainEvents()
        _ = try readAll(&b, slow)
        try exchange(&a, &b)
        let told = a.drainEvents()
        #expect(told.contains(.writable(slow)))
    }

    @Test func `streams share the link in turn`() throws {
        var (a, _) = pair()
        let ids = [try a.open(.bytes, name), try a.open(.bytes, name)]
        for id in ids { _ = try a.write([UInt8](repeating: 1, count: 200_000)[...], on: id) }
        var order: [StreamID] = []
        while let frame = a.nextFrame() { if case .data(let id, _) = frame { order.append(id) } }
        #expect(order.prefix(4) == [ids[0], ids[1], ids[0], ids[1]])
    }

    @Test("A8: a reset ends both ends, and data in flight is ignored") func resets() throws {
        var (a, b) = pair()
        let id = try a.open(.bytes, name)
        try exchange(&a, &b)
        _ = b.drainEvents()
        _ = try a.write([1], on: id)
        let next = a.nextFrame()
        let late = try #require(next)
        b.reset(id, reason: .refused)
        try b.receive(late)
        try exchange(&a, &b)
        let (eventsOfA, eventsOfB) = (a.drainEvents(), b.drainEvents())
        #expect(eventsOfA == [.reset(id, .refused)])
        #expect(eventsOfB.isEmpty)
        #expect(throws: StreamError.refused) { try a.write([2], on: id) }
    }

    @Test func `a finished stream arrives also when its writer has abandoned it`() throws {
        var (a, b) = pair()
        let id = try a.open(.bytes, name)
        _ = try a.write([1, 2], on: id)
        try a.finish(id)
        a.abandon(id)
        try exchange(&a, &b)
        // More than a window that the other side does not read.
        let chunk = [UInt8](repeating: 0, count: 100_000)[...]
        for _ in 0..<10 {
            #expect(try b.write(chunk, on: id) == chunk.count)
            try exchange(&a, &b)
        }
        #expect(try readAll(&b, id) == [1, 2])
        let other = try a.open(.bytes, name)
        a.abandon(other)
        try exchange(&a, &b)
        let told = b.drainEvents()
        #expect(told.last == .reset(other, .cancelled))
    }

    @Test("R3: streams beyond the limit of a link are rejected") func tooMany() throws {
        var limits = ByteStreams.Limits()
        (limits.maximumIncomingCount, limits.maximumOutgoingCount) = (2, 3)
        var (a, b) = (ByteStreams(role: .initiator), ByteStreams(role: .responder, limits: limits))
        let ids = try (0..<3).map { _ in try a.open(.bytes, name) }
        try exchange(&a, &b)
        let (eventsOfA, eventsOfB) = (a.drainEvents(), b.drainEvents())
        #expect(eventsOfA == [.reset(ids[2], .streamLimit)])
        #expect(eventsOfB == [.opened(ids[0], .bytes, name), .opened(ids[1], .bytes, name)])
        #expect(!a.isOpen(ids[2]) && a.count == 2 && b.count == 2)
        // An ended stream makes room for another one.
        a.reset(ids[0], reason: .cancelled)
        let next = try a.open(.bytes, name)
        try exchange(&a, &b)
        #expect(a.isOpen(next) && b.isOpen(next))
        // The peer's streams do not count among the local ones.
        let own = try (0..<3).map { _ in try b.open(.bytes, name) }
        #expect(throws: StreamError.tooMany) { _ = try b.open(.bytes, name) }
        b.reset(own[1], reason: .cancelled)
        #expect(throws: Never.self) { _ = try b.open(.bytes, name) }
    }

    @Test("each end opens 64 streams of programs, beside that for messages and those of relays")
    func purposes() throws {
        var (a, b) = pair()
        let others = [try a.open(.messages, StreamName("")!), try a.open(.relay, name)]
        let ids = try (0..<64).map { _ in try a.open(.bytes, name) } + (0..<64).map { _ in try b.open(.bytes, name) }
        #expect(throws: StreamError.tooMany) { _ = try a.open(.bytes, name) }
        #expect(throws: StreamError.tooMany) { _ = try b.open(.bytes, name) }
        try exchange(&a, &b)
        for id in others + ids { #expect(a.isOpen(id) && b.isOpen(id)) }
    }

    @Test(
        "R7: a protocol violation ends the link",
        arguments: [
            ([.data(StreamID(rawValue: 1), [1])], "it was never opened"),
            // The numbers of this end, which has opened none.
            ([.reset(StreamID(rawValue: 2), .cancelled)], "it was never opened"),
            ([open(2)], "its number does not ascend, or belongs to the other end"),
            ([open(3), open(1)], "its number does not ascend, or belongs to the other end"),
            ([open(1), open(1)], "its number does not ascend, or belongs to the other end"),
            ([open(1), .credit(StreamID(rawValue: 1), upTo: 5)], "credit was reduced"),
            ([open(1), .finish(StreamID(rawValue: 1)), .data(StreamID(rawValue: 1), [1])], "data after its end"),
            ([open(1), .finish(StreamID(rawValue: 1)), .finish(StreamID(rawValue: 1))], "it ended twice"),
        ] as [([StreamFrame], String)]) func violations(_ frames: [StreamFrame], _ reason: String) throws
    {
        var streams = ByteStreams(role: .responder)
        for frame in frames.dropLast() { try streams.receive(frame) }
        #expect(throws: MalformedInput("stream: \(reason)")) { try streams.receive(frames.last!) }
    }

    private static func open(_ number: UInt32) -> StreamFrame {
        .open(StreamID(rawValue: number), .bytes, StreamName("")!)
    }

    @Test("R7: data beyond the window is a violation") func beyondTheWindow() throws {
        var streams = ByteStreams(role: .responder)
        let id = StreamID(rawValue: 1)
        try streams.receive(.open(id, .bytes, name))
        let chunk = [UInt8](repeating: 0, count: 65_536)[...]
        for _ in 0..<4 { try streams.receive(.data(id, chunk)) }
        var violating = streams
        #expect(throws: MalformedInput("stream: more data than was granted")) { try violating.receive(.data(id, [1])) }
        // Bytes that were read are granted again, and no more.
        let bytes = try streams.read(id, upTo: .max)
        #expect(bytes == .bytes([UInt8](repeating: 0, count: 4 * chunk.count)))
        for _ in 0..<4 { try streams.receive(.data(id, chunk)) }
        #expect(throws: MalformedInput("stream: more data than was granted")) { try streams.receive(.data(id, [1])) }
    }

    @Test("all data written is read, in portions of any size", arguments: seeds(0..<8)) func random(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var (a, b) = pair()
        let ids = [try a.open(.bytes, name), try a.open(.bytes, name), try b.open(.bytes, name)]
        try exchange(&a, &b)
        var written: [StreamID: [UInt8]] = [:]
        var read: [StreamID: [UInt8]] = [:]
        for _ in 0..<300 {
            let id = ids.randomElement(using: &random)!
            if random.once(in: 2) {
                let bytes = random.bytes(Int.random(in: 0...40_000, using: &random))
                let count = try a.write(bytes[...], on: id)
                written[id, default: []] += bytes.prefix(count)
            } else if case .bytes(let bytes) = try b.read(id, upTo: Int.random(in: 1...60_000, using: &random)) {
                read[id, default: []] += bytes
            }
            if random.once(in: 3) { try exchange(&a, &b) }
        }
        for id in ids { try a.finish(id) }
        for id in ids {
            var hasEnded = false
            // More rounds than all bytes need: one that is lost fails the comparison.
            for _ in 0..<1_000 where !hasEnded {
                try exchange(&a, &b)
                let result = try b.read(id, upTo: 50_000)
                if case .bytes(let bytes) = result { read[id, default: []] += bytes }
                hasEnded = result == .end
            }
            #expect(hasEnded, "seed \(seed), stream \(id.rawValue)")
            let isEqual = read[id] == written[id]
            #expect(isEqual, "seed \(seed), stream \(id.rawValue)")
            // The streams are longer than a window, so they depend on credit.
            #expect(written[id]?.count ?? 0 > StreamFrame.initialWindow, "seed \(seed), stream \(id.rawValue)")
        }
    }

    @Test func `messages are found again in a stream, and longer ones than the limit are rejected`() throws {
        var framing = MessageFraming()
        let messages: [[UInt8]] = [[1, 2, 3], [], [UInt8](repeating: 9, count: 70_000)]
        var bytes: [UInt8] = []
        for message in messages { MessageFraming.append(message, to: &bytes) }
        // In pieces, each of which ends at another place of a message, and at once.
        for size in [1, 17, bytes.count] {
            var found: [[UInt8]] = []
            for start in stride(from: 0, to: bytes.count, by: size) {
                found += try framing.receive(bytes[start..<min(bytes.count, start + size)])
                #expect(framing.isBetweenMessages == [0, 7, 11, bytes.count].contains(min(bytes.count, start + size)))
            }
            let isEqual = found == messages
            #expect(isEqual)
        }
        let largest = UInt32(MessageFraming.maximumByteCount)
        #expect(try framing.receive(largest.bigEndianBytes).isEmpty)
        #expect(!framing.isBetweenMessages)
        var other = MessageFraming()
        #expect(throws: MalformedInput("message: it is longer than \(largest) bytes")) {
            _ = try other.receive((largest + 1).bigEndianBytes)
        }
    }
}
