import NearshareBase
import NearshareMesh

extension DecoderProperty {
    static let mesh = [
        packet, inflation, stream, announcement, file, fragment, noisePayload, syncRequest, verificationCode, ping,
    ]

    private static let packet = Self(
        name: "packet",
        seeds: bytes(
            "01 02 07 0000000000000001 03 0005 0011223344556677 8899aabbccddeeff 68656c6c6f \(signature)",
            "02 22 03 0000000000000001 09 00000003 0011223344556677 8899aabbccddeeff 02 0101010101010101 0202020202020202 010203",
            "01 02 07 0000000000000001 04 0009 0011223344556677 0005 cb48cdc9c90700",
            "01 11 07 0000000000000001 01 0001 0011223344556677 8899aabbccddeeff 07" + String(repeating: "e1", count: 225))
    ) { bytes throws(Violation) in
        guard let frame = try? MeshFrame(decoding: bytes[...]) else { return false }
        try checkFrame(frame, from: bytes)
        return true
    }

    private static func checkFrame(_ frame: MeshFrame, from bytes: [UInt8]) throws(Violation) {
        let packet = frame.packet
        try require(frame.bytes.count <= bytes.count, "a frame longer than what came")
        try require(packet.payload.count <= MeshPacket.maximumPayloadByteCount, "a payload beyond its limit")
        try requireRoundTrip(packet, encode: { try $0.encoded() }, decode: { try MeshFrame(decoding: $0).packet })
        try requireRoundTrip(packet, encode: { try $0.encoded(isPadded: true) }, decode: { try MeshFrame(decoding: $0).packet })
        try requireRoundTrip(frame, encode: { Array($0.bytes) }, decode: { try MeshFrame(decoding: $0) })
        var relayed = packet
        relayed.ttl = 3
        try requireRoundTrip(
            relayed, encode: { _ in frame.bytes(withTTL: 3) }, decode: { try MeshFrame(decoding: $0).packet })
        try require(!frame.signingPreimages.isEmpty, "nothing that could have been signed")
    }

    /// The bytes as the compressed payload of a packet, so that the fuzzer need not construct headers.
    private static let inflation = Self(
        name: "inflation", seeds: bytes("00000005 010500faff68656c6c6f", "00000005 cb48cdc9c90700")
    ) { bytes throws(Violation) in
        guard bytes.count <= 0xffff else { return false }
        let header: [UInt8] = [2, 2, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0x04, 0, 0, UInt8(bytes.count >> 8), UInt8(bytes.count & 0xff)]
        let whole = header + [1, 2, 3, 4, 5, 6, 7, 8] + bytes
        guard let frame = try? MeshFrame(decoding: whole[...]) else { return false }
        let size = bytes.prefix(4).reduce(0) { $0 << 8 | Int($1) }
        try require(frame.packet.payload.count == size, "\(frame.packet.payload.count) bytes instead of \(size)")
        try checkFrame(frame, from: whole)
        return true
    }

    /// The first byte determines the division of the rest.
    private static let stream = Self(
        name: "stream",
        seeds: bytes(
            "07 aabb 01 02 07 0000000000000001 00 0005 0011223344556677 0102030405 01 03 07 0000000000000001 00 0000 0011223344556677",
            "20 01 11 07 0000000000000001 01 0001 0011223344556677 8899aabbccddeeff 07" + String(repeating: "e1", count: 225)
                + "01 03 07 0000000000000001 00 0000 0011223344556677")
    ) { bytes throws(Violation) in
        guard let step = bytes.first, step > 0 else { return false }
        let limit = 4096
        let (pieces, largestHeld) = frames(in: bytes.dropFirst(), step: Int(step), limit: limit)
        let (whole, _) = frames(in: bytes.dropFirst(), step: bytes.count, limit: limit)
        // A reset drops the buffered bytes, which depend on the division.
        try require(pieces == whole || pieces.contains(.reset), "other frames when cut every \(step) bytes")
        // Header, sender, recipient, number of hops, 255 hops, payload, signature, and one read.
        try require(largestHeld < 16 + 8 + 8 + 1 + 255 * 8 + limit + 64 + Int(step), "\(largestHeld) bytes were held")
        for case .frame(let frame) in pieces where frame[frame.startIndex + 11] & 0x04 == 0 {
            try require((try? MeshFrame(decoding: frame))?.bytes == frame, "a frame of the stream is none by itself")
        }
        return pieces.contains { $0 != .reset }
    }

    private static func frames(
        in bytes: ArraySlice<UInt8>, step: Int, limit: Int
    ) -> (found: [MeshFrameAccumulator.Found], largestHeld: Int) {
        var accumulator = MeshFrameAccumulator(payloadLimit: limit)
        var found: [MeshFrameAccumulator.Found] = []
        var largestHeld = 0
        for start in stride(from: bytes.startIndex, to: bytes.endIndex, by: step) {
            accumulator.append(bytes[start..<min(bytes.endIndex, start + step)])
            while let next = accumulator.next() { found.append(next) }
            largestHeld = max(largestHeld, accumulator.heldByteCount)
        }
        return (found, largestHeld)
    }

    private static let announcement = Self(
        name: "announcement",
        seeds: bytes("01 03 416461 02 02 0102 03 02 0304 04 08 0101010101010101 05 02 0001 06 05 7534707275 7f 00")
    ) { bytes throws(Violation) in
        guard var read = try? MeshAnnouncement(decoding: bytes[...]) else { return false }
        // More are read than are reported.
        read.neighbours = read.neighbours.map { Array($0.prefix(MeshAnnouncement.maximumNeighbourCount)) }
        try requireRoundTrip(read, encode: { try $0.encoded() }, decode: { try MeshAnnouncement(decoding: $0) })
        return true
    }

    private static let file = Self(
        name: "file",
        seeds: bytes(
            "01 0005 612e747874 02 0004 00000003 03 0001 61 04 00000001 01 04 00000002 0203", "04 0002 0102")
    ) { bytes throws(Violation) in
        guard var read = try? MeshFile(decoding: bytes[...]) else { return false }
        try require(read.content.count <= bytes.count, "more content than came")
        // A size is always sent.
        read.declaredSize = read.declaredSize ?? UInt64(read.content.count)
        try requireRoundTrip(read, encode: { try $0.encoded() }, decode: { try MeshFile(decoding: $0) })
        return true
    }

    private static let fragment = Self(
        name: "fragment", seeds: bytes("0102030405060708 0002 0005 22 aabb")
    ) { bytes throws(Violation) in
        guard let read = try? MeshFragment(decoding: bytes[...]) else { return false }
        try require((0..<read.total).contains(read.index) && read.total <= MeshFragment.maximumCount, "fragment \(read.index)")
        var writer = ByteWriter()
        writer.write(read.id.bytes)
        writer.write(UInt16(read.index))
        writer.write(UInt16(read.total))
        writer.write(read.originalType.rawValue)
        writer.write(read.slice)
        try require(writer.bytes == bytes, "a fragment says something else than its bytes")
        return true
    }

    private static let noisePayload = Self(
        name: "noise-payload",
        seeds: bytes(
            "01 00 01 31 01 02 c3bc", "02 31", "03 31", "20 01", "21 01 01 02 0001 02 20 \(key)",
            "08 0102030405060708 0001 00 0001 01 0002 0203", "08 0102030405060708 0000 01 01",
            "08 0102030405060708 0002 02 0002 00000028", "08 0102030405060708 0003 04", "10 01 40 \(keyDigits) 02 10 \(nonce)",
            "11 01 40 \(keyDigits) 02 10 \(nonce) 03 40 \(signature)",
            "7e 01 \(key) 00000001 0001 0102030405060708 01 61 01 62",
            "7e 02 \(key)", "7e 03 \(key) 03")
    ) { bytes throws(Violation) in
        guard let read = try? MeshNoisePayload(decoding: bytes[...]) else { return false }
        try requireRoundTrip(read, encode: { try $0.encoded() }, decode: { try MeshNoisePayload(decoding: $0) })
        return true
    }

    private static let syncRequest = Self(
        name: "sync-request",
        seeds: bytes(
            "01 0001 07 02 0004 00000080 03 0001 17 04 0001 a0 05 0008 0000000000000005 06 0010 30313032303330343035303630373038"
        )
    ) { bytes throws(Violation) in
        guard let read = try? MeshSyncRequest(decoding: bytes[...]) else { return false }
        try requireRoundTrip(read, encode: { $0.encoded }, decode: { try MeshSyncRequest(decoding: $0) })
        let members = read.filter.values
        try require(members.count <= 8 * read.filter.bytes.count, "more members than bits")
        try require(members.allSatisfy { 0 < $0 && $0 < read.filter.range }, "a member out of its range")
        return true
    }

    private static let verificationCode = Self(
        name: "verification-code",
        seeds: [
            Array(
                "bitchat://verify?v=1&noise=\(key)&sign=\(key)&nick=A%20b&ts=1700000000&nonce=AAECAwQFBgcICQoLDA0ODw&sig=\(signature)&npub=x"
                    .utf8)
        ]
    ) { bytes throws(Violation) in
        let uri = String(decoding: bytes, as: UTF8.self)
        guard let (code, signature) = try? MeshVerificationCode.decode(address: uri) else { return false }
        try require(signature.count == MeshPacket.signatureByteCount, "a signature of another length")
        try requireRoundTrip(
            code, encode: { Array($0.address(signature: signature).utf8) },
            decode: { try MeshVerificationCode.decode(address: String(decoding: $0, as: UTF8.self)).code })
        return true
    }

    private static let ping = Self(name: "ping", seeds: bytes("0102030405060708 07")) { bytes throws(Violation) in
        guard let read = try? MeshPing(decoding: bytes[...]) else { return false }
        try requireRoundTrip(read, encode: { $0.encoded }, decode: { try MeshPing(decoding: $0) })
        return true
    }

    private static let key = String(repeating: "07", count: 32)
    /// The bytes of the text of the key's hexadecimal digits, themselves in hexadecimal digits.
    private static let keyDigits = String(repeating: "3037", count: 32)
    private static let nonce = String(repeating: "01", count: 16)
    private static let signature = String(repeating: "5a", count: 64)
}
