import NearshareBase
import NearshareCrypto
import NearshareDirect
import NearshareDiscovery

extension DecoderProperty {
    static let direct = [
        controlFrame, sessionFrame, streamFrame, messageChannel, entryHeader, preamble, handshakeParameters, txtRecord, record,
        dnsMessage,
    ]

    /// Offers come in frames.
    private static let controlFrame = Self(name: "control-frame", seeds: sampleFrames.map(\.encoded)) {
        bytes throws(Violation) in
        guard let read = try? ControlFrame.decode(bytes) else { return false }
        try requireRoundTrip(read, encode: { $0.encoded }, decode: { try ControlFrame.decode(Array($0)) ?? .close(.done) })
        return true
    }

    private static let sampleFrames: [ControlFrame] = {
        let id = TransferID(rawValue: 1)
        let items = [
            OfferedItem(kind: .file, name: ClaimedFileName("a")!, size: 5, entryCount: 1, mediaType: .unknown),
            OfferedItem(kind: .folder, name: ClaimedFileName("d")!, size: 7, entryCount: 2, mediaType: .folder),
        ]
        let offer = Offer(items: items, itemCount: 2, entryCount: 3, totalSize: 12)
        let digest = [UInt8](repeating: 1, count: 32)
        let files = [true, false, true].reduce(into: FileSet()) { $0.append($1) }
        return [
            .offer(TransferOffer(id: id, timeout: .seconds(60), resumeKey: digest, context: [1], offer: offer)),
            .resume(id, ResumePoint(completeEntries: 1, entriesDigest: digest, partialSize: 0, partialDigest: [])),
            .features(.listsFiles), .listFiles(id), .select(id, EntrySelection(ranges: [0...1, 4...9])!),
            .candidates(id, files),
            .present(id, identical: FileSet(), newer: FileSet()),
            .close(.done), .compared(isSame: true), .cancel(id, .cancelled), .decline(id, .busy),
            .hotspot(.request(id, [.accessPoint, .station])), .hotspot(.agree(accessPoint: .requester, port: 4000)),
            .hotspot(.end(.declined)),
            .hotspot(
                .network(
                    HotspotNetwork(
                        ssid: "nearshare-0a1b", passphrase: "abcd-efgh", band: .ghz5, accessPointAddress: .v4(0x0a01_0201),
                        stationAddress: .v4(0x0a01_0202))!)),
        ]
    }()

    private static let sessionFrame = Self(name: "session-frame", seeds: sampleSessionFrames.map(\.encoded)) {
        bytes throws(Violation) in
        guard let read = try? SessionFrame(decoding: bytes[...]) else { return false }
        try requireRoundTrip(read, encode: { $0.encoded }, decode: { try SessionFrame(decoding: $0)! })
        return true
    }

    private static let sampleSessionFrames: [SessionFrame] = {
        let id = SessionID(bytes: [UInt8](repeating: 7, count: SessionID.byteCount))!
        let members = (1...3).map { number in
            SessionMember(
                fingerprint: Fingerprint(bytes: [UInt8](repeating: number, count: Fingerprint.byteCount))!,
                name: DisplayName(truncating: "node")!, incarnation: UInt32(number), presence: number == 2 ? .gone : .present,
                addresses: [.init(host: "10.0.0.1", port: 9), .init(host: "fe80::1", port: 9)],
                neighbours: [PeerID(bytes: [UInt8](repeating: number, count: PeerID.byteCount))!], revision: 5)
        }
        return [
            .invite(
                id, timeout: .seconds(30), proof: [UInt8](repeating: 1, count: SessionFrame.proofByteCount), context: [1, 2]),
            .invite(id, timeout: .seconds(600), proof: [], context: []), .accept(id), .refuse(id, .full), .withdraw(id),
            .roster(id, members), .roster(id, []), .leave(id), .datagrams(id, port: 4000, tag: .max),
            .founder(
                id,
                SessionFounder(
                    fingerprint: members[0].fingerprint, nonce: [UInt8](repeating: 4, count: SessionFounder.nonceByteCount))!,
                removed: members.map(\.fingerprint)),
            .share(id, [UInt8](repeating: 2, count: SessionFrame.proofByteCount)),
            .confirm(id, proof: [UInt8](repeating: 3, count: SessionFrame.proofByteCount)), .leaving(id, isDone: false),
            .leaving(id, isDone: true),
        ]
    }()

    private static let streamFrame = Self(name: "stream-frame", seeds: sampleStreamFrames.map(\.encoded)) {
        bytes throws(Violation) in
        guard let read = try? StreamFrame(decoding: bytes[...]) else { return false }
        try requireRoundTrip(read, encode: { $0.encoded }, decode: { try StreamFrame(decoding: $0)! })
        return true
    }

    private static let sampleStreamFrames: [StreamFrame] = {
        let id = StreamID(rawValue: 3)
        return [
            .open(id, .bytes, StreamName("log")!), .open(id, .relay, StreamName("to 0011223344556677")!), .data(id, [1, 2, 3]),
            .credit(id, upTo: 1 << 20), .finish(id), .reset(id, .refused),
        ]
    }()

    /// Data on a member's stream for messages, to a channel with two messages in flight.
    private static let messageChannel = Self(
        name: "message-channel",
        seeds: bytes(
            "00000019 00 0000000000000002 0000000000000001 0000000000000000  00000012 01 0000000000000000 0000000000000001 00 77",
            "00000019 00 0000000000000002 0000000000000001 0000000000000001  00000009 02 0000000000000002",
            "00000019 00 0000000000000002 0000000000000001 0000000000000000  00000019 04 0000000000000000 0000000000000001 0000000000000002"
        )
    ) { bytes throws(Violation) in
        var channel = MessageChannel(epoch: 1)
        let link = channel.attach()
        channel.append(SessionMessage(bytes: [1]))
        channel.append(SessionMessage(bytes: [2]))
        var framing = MessageFraming()
        guard let frames = try? framing.receive(bytes), !frames.isEmpty else { return false }
        for frame in frames {
            guard let event = try? channel.receive(frame, on: link) else { continue }
            if case .message(let message) = event {
                try require(message.bytes.count <= SessionMessage.maximumByteCount, "\(message.bytes.count) bytes")
                channel.recordDelivery(of: message)
            }
        }
        var count = 0
        while let frame = channel.nextFrame(for: link), count < 9 {
            try require(frame.count <= MessageFraming.maximumByteCount, "a frame of \(frame.count) bytes")
            count += 1
        }
        try require(count <= 4, "\(count) frames for two messages")
        return true
    }

    private static let entryHeader = Self(
        name: "entry-header",
        seeds: [
            EntryHeader(item: 0, kind: .file, path: [ClaimedFileName("a")!], size: 5, modified: 7, permissions: 0o644),
            EntryHeader(
                item: 1, kind: .link(target: [0x78]), path: [ClaimedFileName("d")!, ClaimedFileName("l")!], size: 0,
                modified: nil, permissions: nil),
        ].map(\.encoded)
    ) { bytes throws(Violation) in
        guard let read = try? EntryHeader(decoding: bytes[...]) else { return false }
        try require(bytes.count <= EntryHeader.maximumEncodedByteCount, "a header of \(bytes.count) bytes")
        try requireRoundTrip(read, encode: { $0.encoded }, decode: { try EntryHeader(decoding: $0) })
        return true
    }

    private static let preamble = Self(name: "preamble", seeds: [Preamble.supported.encoded]) { bytes throws(Violation) in
        guard let read = try? Preamble(decoding: bytes[...]) else { return false }
        try requireRoundTrip(read, encode: { $0.encoded }, decode: { try Preamble(decoding: $0) })
        return true
    }

    private static let handshakeParameters = Self(
        name: "handshake-parameters",
        seeds: [[1, 3], [2, 6, 1] + [UInt8](repeating: 9, count: 1184), [2] + [UInt8](repeating: 9, count: 1088)]
    ) { bytes throws(Violation) in
        var initiator: InitiatorParameters?
        for version: UInt8 in 1...2 {
            guard let read = try? InitiatorParameters(decoding: bytes, version: version) else { continue }
            initiator = read
            try requireRoundTrip(
                read, encode: { $0.encoded }, decode: { try InitiatorParameters(decoding: Array($0), version: version) })
        }
        let responder = try? ResponderParameters(decoding: bytes)
        if let responder {
            try requireRoundTrip(responder, encode: { $0.encoded }, decode: { try ResponderParameters(decoding: Array($0)) })
        }
        return initiator != nil || responder != nil
    }

    /// Strings with a length byte in front, as in the record.
    private static let txtRecord = Self(
        name: "txt-record",
        seeds: [["v=1", "id=0011223344556677", "n=Ada"].flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }]
    ) { bytes throws(Violation) in
        var strings: [[UInt8]] = []
        var rest = bytes[...]
        while let count = rest.popFirst() {
            strings.append(Array(rest.prefix(Int(count))))
            rest = rest.dropFirst(Int(count))
        }
        guard let read = PeerTXTRecord(strings: strings) else { return false }
        let again = PeerTXTRecord(strings: read.strings)
        try require(again == read, "\(read) comes back as \(String(describing: again))")
        try require(read.strings.allSatisfy { $0.count <= 255 }, "a string that fits into no record")
        return true
    }

    /// Only records sealed with the key open.
    private static let record = Self(name: "record", seeds: [sealed]) { bytes throws(Violation) in
        guard let count = try? bytes.withUnsafeBytes({ try RecordOpener.recordByteCount($0) }), count <= bytes.count else {
            return false
        }
        var opener = RecordOpener(RecordCipher(.chaCha20Poly1305, key: recordKey))
        var record = Array(bytes.prefix(count))
        guard let frame = try? record.withUnsafeMutableBytes({ try opener.openInPlace($0) }) else { return false }
        try require(bytes.prefix(count) == sealed[...], "a record opened that was never sealed")
        try require(record[frame] == [1, 2, 3], "a record opened to something else than was sealed")
        return true
    }

    private static let recordKey = [UInt8](repeating: 7, count: RecordCipher.keyByteCount)
    private static let sealed: [UInt8] = {
        var sealer = RecordSealer(RecordCipher(.chaCha20Poly1305, key: recordKey))
        return sealer.seal([1, 2, 3])
    }()

    private static let dnsMessage = Self(
        name: "dns-message",
        seeds: bytes(
            // PTR, SRV, TXT and A of one service, compressed.
            """
            0000 8400 0001 0004 0000 0000 04 5f6e7368 04 5f746370 05 6c6f63616c 00 000c 0001
            c00c 000c 8001 0000000a 0004 01 61 c00c  c028 0021 8001 0000000a 000b 0000 0000 1092 02 686f c016
            c028 0010 8001 0000000a 0004 03 763d31  c03e 0001 8001 0000000a 0004 0a000001
            """)
    ) { bytes throws(Violation) in
        let id = bytes.prefix(2).reduce(UInt16(0)) { $0 << 8 | UInt16($1) }
        guard let records = try? DNSMessage.records(of: bytes, answering: id) else { return false }
        try require(records.count <= DNSMessage.maximumRecords, "\(records.count) records")
        for record in records {
            let length = record.name.labels.reduce(1) { $0 + $1.count + 1 }
            try require(length <= DNSName.maximumByteCount, "a name of \(length) bytes")
        }
        return true
    }
}
