import NearshareBase
import NearshareCrypto
import NearshareDirect

extension DecoderProperty {
    /// Two ends of a link with byte streams, or one whose peer sends any frame.
    static let byteStreams = Self(
        name: "byte-streams",
        seeds: [
            // Opens, writes more than a window, reads, finishes, reads the end.
            [0, 0, 0, 1, 0, 0, 255, 255, 7, 255] + [4, 1, 0, 255, 255, 7, 255, 1, 0, 0, 255, 255, 7, 255]
                + [2, 0, 0, 7, 255, 4, 1, 0, 255, 255, 4, 1, 0, 255, 255],
            // A reset, an abandoned stream, more streams than are allowed.
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 255, 3, 0, 1, 5, 1, 0, 7, 255],
            [1, 6, 0, 2, 0, 6, 1, 2, 30, 6, 2, 2, 9],
        ]
    ) { bytes throws(Violation) in
        var script = EventScript(bytes, maximumEventCount: 256)
        var pair = StreamPair(isUntrusted: script.flag())
        while let event = script.nextEvent(below: 8) { try pair.perform(event, &script) }
        try pair.deliver(.max)
        return pair.hasOpened
    }

    /// Two channels of messages over up to three links that come and go, with restarts, or one whose peer sends any frame.
    static let messageChannels = Self(
        name: "message-channels",
        seeds: [
            [0, 4, 0, 0, 0, 1, 1, 0, 0, 2, 255, 3, 1, 9, 2, 255], [0, 4, 0, 0, 9, 2, 3, 5, 0, 0, 0, 4, 4, 2, 255, 3, 1, 255],
            [0, 4, 0, 0, 9, 2, 255, 6, 1, 4, 2, 255, 6, 0, 4, 2, 255], [1, 4, 7, 0, 0, 7, 1, 0, 7, 1, 0],
            // The last messages are read before the first ones, over two links.
            [0, 4, 0, 0, 9, 0, 0, 9, 0, 0, 9, 2, 255, 3, 1, 2, 3, 7, 1, 2, 255, 5, 0, 4, 2, 255, 3, 1, 9, 0, 7, 1, 2, 255],
        ]
    ) { bytes throws(Violation) in
        var script = EventScript(bytes, maximumEventCount: 256)
        var pair = ChannelPair(isUntrusted: script.flag())
        while let event = script.nextEvent(below: 8) { try pair.perform(event, &script) }
        try pair.settle()
        return true
    }
}

private struct StreamPair {
    private(set) var hasOpened = false
    private let isUntrusted: Bool
    private let limits: ByteStreams.Limits
    /// The streams that one machine may have open: each end's of each purpose.
    private var maximumCount: Int { StreamPurpose.allCases.count * (limits.maximumIncomingCount + limits.maximumOutgoingCount) }
    private var machines: [ByteStreams]
    private var openIDs: [StreamID] = []
    /// Bytes written and read, by stream and direction.
    private var written: [[StreamID: Int]] = [[:], [:]]
    private var read: [[StreamID: Int]] = [[:], [:]]

    init(isUntrusted: Bool) {
        self.isUntrusted = isUntrusted
        var limits = ByteStreams.Limits()
        (limits.maximumIncomingCount, limits.maximumOutgoingCount, limits.sendBufferByteCount) = (4, 6, 64 << 10)
        self.limits = limits
        machines = [ByteStreams(role: .initiator, limits: limits), ByteStreams(role: .responder, limits: limits)]
    }

    /// The byte at a position of a stream's direction.
    private static func byte(_ id: StreamID, _ side: Int, _ position: Int) -> UInt8 {
        UInt8(truncatingIfNeeded: Int(id.rawValue) &* 7 &+ side &* 3 &+ position &* 31 &+ position >> 8)
    }

    mutating func perform(_ event: Int, _ script: inout EventScript) throws(DecoderProperty.Violation) {
        let side = event == 7 ? 0 : script.number(below: 2)
        switch event {
        case 0:
            let purpose = [StreamPurpose.bytes, .messages, .relay][script.number(below: 3)]
            if let id = try? machines[side].open(purpose, StreamName("s")!) {
                hasOpened = true
                openIDs.append(id)
            }
        case 1:
            guard let id = script.element(of: openIDs) else { break }
            let start = written[side][id, default: 0]
            let bytes = (0..<script.number(below: 1 << 16)).map { Self.byte(id, side, start + $0) }
            let count = (try? machines[side].write(bytes[...], on: id)) ?? 0
            written[side][id] = start + count
        case 2: if let id = script.element(of: openIDs) { try? machines[side].finish(id) }
        case 3: if let id = script.element(of: openIDs) { machines[side].reset(id, reason: .cancelled) }
        case 4:
            guard let id = script.element(of: openIDs) else { break }
            try readBytes(id, side, upTo: script.number(below: 1 << 16))
        case 5: if let id = script.element(of: openIDs) { machines[side].abandon(id) }
        case 6 where isUntrusted: inject(&script)
        case 7: try deliver(script.number(below: 256))
        default: break
        }
        for machine in machines {
            try DecoderProperty.require(machine.count <= maximumCount, "\(machine.count) streams")
        }
    }

    private mutating func readBytes(_ id: StreamID, _ side: Int, upTo limit: Int) throws(DecoderProperty.Violation) {
        guard case .bytes(let bytes)? = try? machines[side].read(id, upTo: limit) else { return }
        try DecoderProperty.require(bytes.count <= limit, "\(bytes.count) bytes read, of at most \(limit)")
        guard !isUntrusted else { return }
        let start = read[side][id, default: 0]
        for (offset, byte) in bytes.enumerated() {
            try DecoderProperty.require(
                byte == Self.byte(id, 1 - side, start + offset), "another byte than was written, at \(start + offset)")
        }
        read[side][id] = start + bytes.count
        try DecoderProperty.require(
            start + bytes.count <= written[1 - side][id, default: 0], "more bytes than were written")
    }

    mutating func deliver(_ count: Int) throws(DecoderProperty.Violation) {
        for from in 0..<2 {
            var remaining = min(count, 4096)
            while remaining > 0, let frame = machines[from].nextFrame() {
                remaining -= 1
                guard !isUntrusted else { continue }
                do {
                    guard let decoded = try StreamFrame(decoding: frame.encoded[...]) else {
                        throw MalformedInput("a frame of its own is not understood")
                    }
                    try machines[1 - from].receive(decoded)
                } catch {
                    throw DecoderProperty.Violation(description: "a violation by a peer that keeps to the protocol: \(error)")
                }
            }
            _ = machines[from].drainEvents()
        }
    }

    private mutating func inject(_ script: inout EventScript) {
        let id = StreamID(rawValue: UInt32(script.number(below: 32) + 1))
        let number = UInt64(script.number(below: 256)) << UInt64(script.number(below: 57))
        let frames: [StreamFrame] = [
            .open(id, .bytes, StreamName("s")!),
            .data(id, [UInt8](repeating: 1, count: script.number(below: 1 << 15) + 1)[...]),
            .credit(id, upTo: number), .finish(id), .reset(id, .refused),
        ]
        guard let frame = script.element(of: frames) else { return }
        openIDs.append(id)
        if openIDs.count > 64 { openIDs.removeFirst() }
        hasOpened = true
        try? machines[0].receive(frame)
    }
}

private struct ChannelPair {
    private struct Link {
        var ids: [MessageChannel.LinkID]
        var sent: [[[UInt8]]] = [[], []]
    }

    private let isUntrusted: Bool
    private var channels = [MessageChannel(epoch: 1), MessageChannel(epoch: 2)]
    private var links: [Link] = []
    /// Messages that the program has not taken.
    private var waiting: [[(message: SessionMessage, position: MessageChannel.Position)]] = [[], []]
    /// The number of the last message sent, and of the last one received from the peer.
    private var lastSent = [0, 0]
    private var lastReceived = [0, 0]
    private var epochs: UInt64 = 2
    private var hasRestarted = false

    init(isUntrusted: Bool) { self.isUntrusted = isUntrusted }

    mutating func perform(_ event: Int, _ script: inout EventScript) throws(DecoderProperty.Violation) {
        switch event {
        case 0, 1: append(side: event, size: 8 + script.number(below: 1 << 16) * (script.number(below: 16) == 15 ? 8 : 1))
        case 2: try deliver(upTo: script.number(below: 256))
        case 3: take(side: script.number(below: 2), count: script.number(below: 256), fromEnd: script.number(below: 4) == 3)
        case 4:
            if links.count < 3 { links.append(Link(ids: [channels[0].attach(), channels[1].attach()])) }
        case 5: if !links.isEmpty { detach(script.number(below: links.count)) }
        case 6: restart(side: script.number(below: 2))
        default:
            if isUntrusted {
                try inject(&script)
            } else {
                channels[script.number(below: 2)].acknowledgeNow()
            }
        }
        guard !isUntrusted, !hasRestarted else { return }
        for side in 0..<2 {
            try DecoderProperty.require(
                channels[side].unacknowledgedCount >= waiting[1 - side].count, "unread messages are acknowledged")
        }
    }

    private mutating func append(side: Int, size: Int) {
        guard channels[side].hasRoom else { return }
        lastSent[side] += 1
        let number = UInt64(lastSent[side]).bigEndianBytes
        channels[side].append(
            SessionMessage(bytes: number + [UInt8](repeating: 1, count: min(size, SessionMessage.maximumByteCount) - 8)))
    }

    private mutating func detach(_ index: Int) {
        let link = links.remove(at: index)
        for side in 0..<2 { channels[side].detach(link.ids[side]) }
    }

    /// A process ends: its links with it, and what it had not delivered to its program.
    private mutating func restart(side: Int) {
        guard !isUntrusted else { return }
        while !links.isEmpty { detach(0) }
        epochs += 1
        channels[side] = MessageChannel(epoch: epochs)
        waiting[side] = []
        lastReceived[side] = 0
        hasRestarted = true
    }

    /// The program reads messages, of which those of a channel of values may be read before others.
    private mutating func take(side: Int, count: Int, fromEnd: Bool = false) {
        let taken = fromEnd ? waiting[side].suffix(count) : waiting[side].prefix(count)
        for (message, position) in taken { channels[side].recordDelivery(of: message, at: position) }
        waiting[side].removeSubrange(taken.indices)
    }

    private mutating func deliver(upTo limit: Int) throws(DecoderProperty.Violation) {
        for index in links.indices {
            for side in 0..<2 {
                var remaining = limit
                while remaining > 0, let frame = channels[side].nextFrame(for: links[index].ids[side]) {
                    remaining -= 1
                    if !isUntrusted { links[index].sent[side].append(frame) }
                }
                for _ in 0..<min(limit, links[index].sent[side].count) {
                    let frame = links[index].sent[side].removeFirst()
                    do {
                        try receive(frame, side: 1 - side, on: links[index].ids[1 - side])
                    } catch let error as MalformedInput {
                        throw DecoderProperty.Violation(
                            description: "a violation by a peer that keeps to the protocol: \(error)")
                    } catch let error as DecoderProperty.Violation {
                        throw error
                    } catch {}
                }
            }
        }
    }

    private mutating func receive(_ frame: [UInt8], side: Int, on link: MessageChannel.LinkID) throws {
        guard case .message(let message)? = try channels[side].receive(frame, on: link) else { return }
        waiting[side].append((message, channels[side].lastPosition))
        let byteCount = waiting[side].reduce(0) { $0 + $1.message.bytes.count }
        let limits = MessageChannel.Limits()
        try DecoderProperty.require(
            waiting[side].count <= 4 * limits.maximumUnacknowledgedCount
                && byteCount <= 4 * limits.maximumUnacknowledgedByteCount + SessionMessage.maximumByteCount,
            "\(waiting[side].count) messages of \(byteCount) bytes wait")
        guard !isUntrusted, let number = UInt64(bigEndianBytes: message.bytes.prefix(8)) else { return }
        try DecoderProperty.require(Int(number) > lastReceived[side], "message \(number) after \(lastReceived[side])")
        try DecoderProperty.require(
            hasRestarted || Int(number) == lastReceived[side] + 1, "message \(number) after \(lastReceived[side])")
        lastReceived[side] = Int(number)
    }

    private mutating func inject(_ script: inout EventScript) throws(DecoderProperty.Violation) {
        guard let link = links.first else { return }
        let numbers = (0..<3).map { _ in UInt64(script.number(below: 256)) }
        let fields = numbers.flatMap(\.bigEndianBytes)
        let frame: [UInt8] =
            switch script.number(below: 5) {
            case 0: [0] + fields
            case 3: [4] + fields
            case 1: [1] + fields.prefix(16) + [0] + [UInt8](repeating: 1, count: script.number(below: 1 << 16) * 16)
            case 2: [2] + fields.prefix(8)
            default: script.bytes(upTo: 40)
            }
        do {
            try receive(frame, side: 0, on: link.ids[0])
        } catch let error as DecoderProperty.Violation {
            throw error
        } catch {}
    }

    /// A last link on which everything is delivered and acknowledged.
    mutating func settle() throws(DecoderProperty.Violation) {
        guard !isUntrusted else { return }
        while !links.isEmpty { detach(0) }
        links = [Link(ids: [channels[0].attach(), channels[1].attach()])]
        for _ in 0..<64 {
            for side in 0..<2 {
                take(side: side, count: .max)
                channels[side].acknowledgeNow()
            }
            try deliver(upTo: 4096)
        }
        for side in 0..<2 {
            try DecoderProperty.require(channels[side].isEmpty, "messages that are never acknowledged")
            try DecoderProperty.require(
                hasRestarted || lastReceived[1 - side] == lastSent[side],
                "\(lastReceived[1 - side]) of \(lastSent[side]) messages arrived")
        }
    }
}
