import NearshareBase
import NearshareMesh
import NearshareTesting
import Testing

/// Spaces separate the fields.
func wire(_ text: String) -> [UInt8] { Hex.decode(text.filter { !$0.isWhitespace })! }

@Suite struct MeshPacketTests {
    // Field by field from the table of section 2.1: a text for one peer, signed, sent again on request.
    private static let first = wire(
        "01 02 07 0000018bcfe56800 13 0005 0011223344556677 8899aabbccddeeff 68656c6c6f"
            + String(repeating: "5a", count: 64))
    // Version 2: a four-byte length and a route of two hops, which the length does not count.
    private static let second = wire(
        "02 22 03 0000018bcfe56800 0b 00000003 0011223344556677 8899aabbccddeeff 02 0101010101010101 0202020202020202 010203"
            + String(repeating: "5a", count: 64))
    // Raw DEFLATE in one stored block: its size is in the length, the original size stands in front of it.
    private static let compressedFirst = wire(
        "01 02 07 0000000000000001 04 000c 0011223344556677 0005 01 0500 faff 68656c6c6f")
    private static let compressedSecond = wire(
        "02 02 07 0000000000000001 04 0000000e 0011223344556677 00000005 01 0500 faff 68656c6c6f")

    @Test func `a packet of version 1 has the bytes of its format`() throws {
        let packet = MeshPacket(
            type: .message, timestamp: 1_700_000_000_000, sender: MeshSamples.sender, recipient: MeshSamples.recipient,
            payload: Array("hello".utf8)[...], signature: MeshSamples.signature, isSyncResponse: true)
        #expect(try packet.encoded() == Self.first)
        #expect(try MeshFrame(decoding: Self.first[...]).packet == packet)
        #expect(packet.isDirected)
    }

    @Test func `a packet of version 2 has the bytes of its format`() throws {
        let packet = MeshPacket(
            version: .v2, type: .fileTransfer, ttl: 3, timestamp: 1_700_000_000_000, sender: MeshSamples.sender,
            recipient: MeshSamples.recipient, route: MeshSamples.hops, payload: [1, 2, 3], signature: MeshSamples.signature)
        #expect(try packet.encoded() == Self.second)
        #expect(try MeshFrame(decoding: Self.second[...]).packet == packet)
    }

    @Test(arguments: [compressedFirst, compressedSecond])
    func `a compressed packet is decoded, and the signed bytes are those that were received`(_ bytes: [UInt8]) throws {
        let frame = try MeshFrame(decoding: bytes[...])
        #expect(Array(frame.packet.payload) == Array("hello".utf8))
        #expect(frame.bytes == bytes[...])
        // The received bytes are the signed ones, even if our compressor would give others.
        var expected = bytes
        expected[2] = 0
        #expect(frame.signingPreimages.first == MeshPadding.padded(expected))
    }

    @Test(arguments: MeshSamples.packets) func `a packet is decoded as it was encoded, with padding or without`(
        _ packet: MeshPacket
    ) throws {
        for isPadded in [false, true] {
            let bytes = try packet.encoded(isPadded: isPadded)
            let frame = try MeshFrame(decoding: bytes[...])
            #expect(frame.packet == packet)
            #expect(frame.bytes == (try packet.encoded())[...])
        }
    }

    @Test("M1: a truncated frame is rejected", arguments: [first, second, compressedFirst, compressedSecond])
    func truncation(_ bytes: [UInt8]) {
        for length in bytes.indices {
            #expect(throws: MalformedInput.self, "cut to \(length)") { try MeshFrame(decoding: bytes[..<length]) }
        }
    }

    @Test func `bytes behind the last field are left out`() throws {
        let frame = try MeshFrame(decoding: (Self.first + [1, 2, 3])[...])
        #expect(frame.bytes == Self.first[...])
    }

    @Test func `a payload that ends like padding is kept whole`() throws {
        let packet = MeshPacket(type: .message, timestamp: 1, sender: MeshSamples.sender, payload: [9, 2, 2])
        #expect(try MeshFrame(decoding: try packet.encoded()[...]).packet == packet)
    }

    @Test("R2: a frame is plain that is neither compressed nor a fragment")
    func plain() throws {
        let fragment = try UntrustedPeer.fragment(1, of: 2, [1], from: MeshSamples.sender, at: 1)
        let frames = [Self.first, Self.compressedFirst, fragment, Array(Self.first.prefix(11))]
        #expect(frames.map { MeshFrame.isPlain($0[...]) } == [true, false, false, false])
    }

    @Test("R2: an original size that the stream does not have is rejected", arguments: [0, 4, 6, 0xffff])
    func wrongOriginalSize(_ size: Int) {
        var bytes = Self.compressedFirst
        bytes[22] = UInt8(size >> 8)
        bytes[23] = UInt8(size & 0xff)
        #expect(throws: MalformedInput.self) { try MeshFrame(decoding: bytes[...]) }
    }

    @Test(
        "R2: a payload that would grow more than 50,000 times is rejected",
        arguments: ["004c4b40 0300", "ffffffff 01", "00000001", "00000000 0300"])
    func inflation(_ body: String) {
        let body = wire(body)
        let bytes = wire("02 02 07 0000000000000001 04 000000") + [UInt8(body.count)] + MeshSamples.sender.bytes + body
        #expect(throws: MalformedInput.self) { try MeshFrame(decoding: bytes[...]) }
    }

    @Test(
        "R2: a wrapped stream, or one followed by more bytes, is rejected",
        arguments: [
            // RFC 1950 around it.
            "0005 789c 01 0500 faff 68656c6c6f 062c0215", "0005 01 0500 faff 68656c6c6f 00",
        ]) func notJustAStream(_ body: String)
    {
        let body = wire(body)
        let bytes = wire("01 02 07 0000000000000001 04 00") + [UInt8(body.count)] + MeshSamples.sender.bytes + body
        #expect(throws: MalformedInput.self) { try MeshFrame(decoding: bytes[...]) }
    }

    @Test("R7: a length above the limit is rejected before it is used") func payloadLimit() throws {
        let longest = MeshPacket(
            version: .v2, type: .message, timestamp: 1, sender: MeshSamples.sender, payload: MeshSamples.text[...])
        let bytes = try longest.encoded()
        #expect(try MeshFrame(decoding: bytes[...], payloadLimit: 300).packet == longest)
        #expect(throws: MalformedInput.self) { try MeshFrame(decoding: bytes[...], payloadLimit: 299) }
        for length in ["0000012d", "7fffffff", "80000000", "ffffffff"] {
            let header = wire("02 02 07 0000000000000001 00 \(length)") + MeshSamples.sender.bytes
            #expect(throws: MalformedInput.self) { try MeshFrame(decoding: (header + MeshSamples.text)[...]) }
        }
    }

    @Test("M5: every ttl is read, and a relay changes no other byte", arguments: UInt8.min...UInt8.max)
    func timeToLive(_ ttl: UInt8) throws {
        for packet in MeshSamples.packets {
            let frame = try MeshFrame(packet)
            let relayed = frame.bytes(withTTL: ttl)
            #expect(
                relayed.indices.filter { relayed[$0] != frame.bytes[frame.bytes.startIndex + $0] }
                    == (ttl == packet.ttl ? [] : [2]))
            let decoded = try MeshFrame(decoding: relayed[...])
            #expect(decoded.packet.ttl == ttl)
            #expect(decoded.signingPreimages.contains(try packet.signingPreimage()))
        }
    }

    @Test("M5: a frame between others is relayed completely") func relayedSlice() throws {
        let bytes = [9, 9] + Self.first + [9]
        let frame = try MeshFrame(decoding: bytes[2...])
        var expected = Self.first
        expected[2] = 6
        #expect(frame.bytes(withTTL: 6) == expected)
    }

    @Test func `signing preimages leave out the fields that relays change`() throws {
        let packet = MeshSamples.packets[1]
        let preimage = try packet.signingPreimage()
        let read = try MeshFrame(decoding: preimage[...]).packet
        #expect(read.ttl == 0 && read.signature == nil && !read.isSyncResponse)
        #expect(read.payload == packet.payload && read.recipient == packet.recipient)
        #expect([256, 512, 1024, 2048].contains(preimage.count))
    }

    @Test func `each compression level in use has a signing preimage`() throws {
        // Not uniform enough for all compression levels to agree.
        var random = SeededRandom(seed: 11)
        let text = (0..<4000).map { _ in UInt8(ascii: "a") + UInt8.random(in: 0..<4, using: &random) }
        let packet = MeshPacket(version: .v2, type: .message, timestamp: 1, sender: MeshSamples.sender, payload: text[...])
        for level in 1...9 {
            let compression = MeshPacket.Compression.level(level)
            let frame = try MeshFrame(decoding: try packet.encoded(compression: compression)[...])
            #expect(frame.signingPreimages.contains(try packet.signingPreimage(compression: compression)), "level \(level)")
            #expect(frame.signingPreimages.contains(try packet.signingPreimage(compression: .level(5))), "level \(level)")
            #expect(frame.signingPreimages.contains(try packet.signingPreimage(compression: .level(6))), "level \(level)")
        }
    }

    @Test func `a packet that its version cannot hold is not encoded`() {
        var packet = MeshSamples.packets[0]
        var random = SeededRandom(seed: 1)
        packet.payload = random.bytes(65_536)[...]
        #expect(throws: MalformedInput.self) { try packet.encoded() }
        #expect(throws: MalformedInput.self) { try packet.encoded(compression: .deflated([3, 0])) }
        packet.version = .v2
        #expect(throws: Never.self) { try packet.encoded() }
        packet.route = [PeerID](repeating: MeshSamples.sender, count: 256)
        #expect(throws: MalformedInput.self) { try packet.encoded() }
    }

    @Test func `padding is added only where its length fits into one byte`() {
        for (count, target) in [(0, 256), (1, 256), (240, 256), (241, 512), (256, 512), (257, 512), (2032, 2048), (2033, 2033)]
        {
            #expect(MeshPadding.target(for: count) == target)
            let padded = MeshPadding.padded([UInt8](repeating: 0, count: count))
            #expect(padded.count == (target - count <= 255 ? target : count))
            #expect(MeshPadding.unpadded(padded[...]).count == count)
        }
    }

    @Test(
        "M1: changed frames are refused or decoded, and never terminate the process", arguments: 0..<2000 as Range<UInt64>)
    func mutation(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let handmade = [Self.first, Self.second, Self.compressedFirst, Self.compressedSecond]
        let whole = try handmade + MeshSamples.packets.map { try $0.encoded(isPadded: true) }
        let bytes = whole.randomElement(using: &random)!.mutated(using: &random)
        guard let frame = try? MeshFrame(decoding: bytes[...]) else { return }
        #expect(try MeshFrame(decoding: frame.bytes).packet == frame.packet, "seed \(seed)")
        #expect(try MeshFrame(decoding: try frame.packet.encoded()[...]).packet == frame.packet, "seed \(seed)")
        #expect(!frame.signingPreimages.isEmpty, "seed \(seed)")
    }
}

@Suite struct MeshFrameAccumulatorTests {
    private func frames(_ chunks: [ArraySlice<UInt8>], limit: Int = MeshPacket.maximumPayloadByteCount) -> [ArraySlice<UInt8>] {
        var accumulator = MeshFrameAccumulator(payloadLimit: limit)
        var found: [ArraySlice<UInt8>] = []
        for chunk in chunks {
            accumulator.append(chunk)
            while let next = accumulator.next() {
                if case .frame(let frame) = next { found.append(frame) }
            }
        }
        return found
    }

    @Test("R1: a small frame after a large one keeps no memory for a large one") func smallFrameAfterLarge() throws {
        let sender = MeshSamples.packets[0].sender
        func frame(of byteCount: Int) throws -> [UInt8] {
            let payload = [UInt8](repeating: 0x5a, count: byteCount)
            return try MeshPacket(version: .v2, type: .fileTransfer, timestamp: 1, sender: sender, payload: payload[...])
                .encoded()
        }
        let chunks = [try frame(of: 1_000_000), try frame(of: 100)].map { $0[...] }
        let found = frames(chunks)
        #expect(found.count == 2)
        #expect(found.allSatisfy { $0.capacity < $0.count + 4_096 })
    }

    @Test("a stream gives the same frames for any division", arguments: seeds(0..<200))
    func anyCut(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var stream: [UInt8] = []
        var expected: [ArraySlice<UInt8>] = []
        for _ in 0..<20 {
            let packet = MeshSamples.packets.randomElement(using: &random)!
            let isPadded = packet.isPaddedOnWire && Bool.random(using: &random)
            stream += try packet.encoded(isPadded: isPadded)
            expected.append(try packet.encoded()[...])
            if random.once(in: 4) { stream += [0, 0xff, 3].prefix(Int.random(in: 0...3, using: &random)) }
        }
        var chunks: [ArraySlice<UInt8>] = []
        var rest = stream[...]
        while !rest.isEmpty {
            chunks.append(rest.prefix(Int.random(in: 1...700, using: &random)))
            rest = rest.dropFirst(chunks.last!.count)
        }
        #expect(frames(chunks) == expected, "seed \(seed)")
    }

    @Test("R1: a header with an excessive length drops all buffered bytes, and later frames are read") func reset() throws {
        var accumulator = MeshFrameAccumulator(payloadLimit: 1000)
        accumulator.append(wire("02 02 07 0000000000000001 00 000003e9") + [UInt8](repeating: 2, count: 500))
        #expect(accumulator.next() == .reset)
        #expect(accumulator.heldByteCount == 0)
        #expect(accumulator.next() == nil)
        let frame = try MeshSamples.packets[0].encoded()
        accumulator.append(frame)
        #expect(accumulator.next() == .frame(frame[...]))
        #expect(accumulator.next() == nil)
    }

    @Test("R1: the buffer holds at most one frame of the largest size and the read that completed it") func bounded() throws {
        let largest = 16 + 8 + 8 + 1 + 255 * 8 + 1000 + 64
        var accumulator = MeshFrameAccumulator(payloadLimit: 1000)
        var random = SeededRandom(seed: 3)
        for _ in 0..<2000 {
            // Much of it looks like the beginning of a frame.
            accumulator.append(random.bytes(50).map { $0 % 5 })
            while accumulator.next() != nil {}
            #expect(accumulator.heldByteCount < largest)
            #expect(accumulator.skippedBytes.count <= 64)
        }
    }

    @Test("M1: each decoding step terminates on arbitrary input", arguments: 0..<300 as Range<UInt64>)
    func mutation(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let stream = try MeshSamples.packets.flatMap { try $0.encoded(isPadded: $0.isPaddedOnWire) }.mutated(using: &random)
        for frame in frames([stream[...]]) { #expect(frame.count >= 22, "seed \(seed)") }
    }
}
