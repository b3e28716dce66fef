import NearshareBase
import NearshareDirect
import NearshareTesting
import Testing

@Suite struct SessionFrameTests {
    private static let id = SessionID(bytes: (0..<16).map { UInt8($0) })!

    private static func member(_ number: Int, name: String = "node") -> SessionMember {
        SessionMember(
            fingerprint: Fingerprint(bytes: [UInt8(number)] + [UInt8](repeating: 0, count: 31))!,
            name: DisplayName(truncating: name)!)
    }

    private static let fullest: SessionMember = {
        var member = Self.member(9, name: String(repeating: "x", count: 63))
        member.incarnation = .max
        member.revision = .max
        member.presence = .gone
        member.addresses = (0..<8).map {
            SessionMember.Address(host: "1::" + String(repeating: "1", count: 60), port: UInt16($0))
        }
        member.neighbours = (0..<64).map { PeerID(bytes: [UInt8($0)] + [UInt8](repeating: 0, count: PeerID.byteCount - 1))! }
        return member
    }()

    private static let founder = SessionFounder(
        fingerprint: member(1).fingerprint, nonce: [UInt8](repeating: 3, count: SessionFounder.nonceByteCount))!

    static let frames: [SessionFrame] =
        [
            .invite(id, timeout: .seconds(1), proof: [], context: []),
            .invite(
                id, timeout: .seconds(600), proof: [UInt8](repeating: 1, count: 32), context: [UInt8](repeating: 2, count: 1024)
            ),
            .accept(id), .withdraw(id), .leave(id), .leaving(id, isDone: false), .leaving(id, isDone: true), .roster(id, []),
            .roster(id, [fullest]),
            .roster(id, (0..<64).map { member($0) }),
            .datagrams(id, port: 0, tag: 0), .datagrams(id, port: .max, tag: .max), .founder(id, founder, removed: []),
            .founder(id, founder, removed: (0..<64).map { member($0).fingerprint }),
            .share(id, [UInt8](repeating: 4, count: 32)), .confirm(id, proof: [UInt8](repeating: 5, count: 32)),
        ]
        + ([.declined, .expired, .full, .unknown, .untrusted, .removed, .unremembered, .busy] as [SessionRefusal]).map {
            .refuse(id, $0)
        }

    @Test(arguments: frames) func `a frame is decoded as it was encoded`(_ frame: SessionFrame) throws {
        #expect(try SessionFrame(decoding: frame.encoded[...]) == frame)
    }

    @Test(arguments: frames) func `a truncated frame is rejected`(_ frame: SessionFrame) {
        let encoded = frame.encoded
        for length in 1..<encoded.count {
            #expect(throws: MalformedInput.self, "cut to \(length)") { try SessionFrame(decoding: encoded[..<length]) }
        }
    }

    @Test(arguments: frames) func `a frame with bytes behind it is rejected`(_ frame: SessionFrame) {
        #expect(throws: MalformedInput.self) { try SessionFrame(decoding: (frame.encoded + [0])[...]) }
    }

    @Test func `frames of other types are not session frames`() throws {
        let known = FrameType.sessionInvite...FrameType.sessionLeaving
        for type in UInt8.min...UInt8.max where !known.contains(type) {
            #expect(try SessionFrame(decoding: [type, 1, 2]) == nil, "type \(type)")
        }
        #expect(try SessionFrame(decoding: []) == nil)
    }

    @Test func `an unknown reason is a decline`() throws {
        let encoded = SessionFrame.refuse(Self.id, .full).encoded.dropLast() + [200]
        #expect(try SessionFrame(decoding: encoded) == .refuse(Self.id, .declined))
    }

    @Test(
        "R7: timeout is clamped to 1 to 600 seconds",
        arguments: [(0, 1), (600, 600), (601, 600), (65_535, 600)] as [(Int, Int)])
    func timeout(_ said: Int, _ taken: Int) throws {
        let frame = SessionFrame.invite(Self.id, timeout: .seconds(said), proof: [], context: [])
        #expect(
            try SessionFrame(decoding: frame.encoded[...]) == .invite(Self.id, timeout: .seconds(taken), proof: [], context: [])
        )
    }

    @Test("R1: a context or proof beyond its limit is rejected") func invitationBounds() {
        for (proof, context) in [(33, 0), (0, 1025)] {
            let frame = SessionFrame.invite(
                Self.id, timeout: .seconds(1), proof: [UInt8](repeating: 0, count: proof),
                context: [UInt8](repeating: 0, count: context)
            )
            #expect(throws: MalformedInput.self) { try SessionFrame(decoding: frame.encoded[...]) }
        }
    }

    @Test("R1, R6: more members, addresses, neighbours or longer texts than their bounds are rejected") func rosterBounds() {
        func refuses(_ change: (inout SessionMember) -> Void) {
            var member = Self.fullest
            change(&member)
            #expect(throws: MalformedInput.self) {
                try SessionFrame(decoding: SessionFrame.roster(Self.id, [member]).encoded[...])
            }
        }
        refuses { $0.addresses.append(.init(host: "::1", port: 1)) }
        refuses { $0.addresses[0].host = "::" + String(repeating: "1", count: 62) }
        refuses { $0.neighbours.append($0.neighbours[0]) }
        let many = SessionFrame.roster(Self.id, (0..<65).map { Self.member($0) })
        #expect(throws: MalformedInput.self) { try SessionFrame(decoding: many.encoded[...]) }
        let removals = SessionFrame.founder(
            Self.id, Self.founder, removed: (0..<65).map { Self.member($0).fingerprint })
        #expect(throws: MalformedInput.self) { try SessionFrame(decoding: removals.encoded[...]) }
        let twice = SessionFrame.roster(Self.id, [Self.member(1), Self.member(1)])
        #expect(throws: MalformedInput.self) { try SessionFrame(decoding: twice.encoded[...]) }
    }

    @Test("R1, T1: empty, too long and malformed names are rejected") func names() throws {
        // The fields before the name have a fixed length: type, session, count, fingerprint, incarnation, revision, presence.
        let front = Array(SessionFrame.roster(Self.id, [Self.member(1)]).encoded.prefix(1 + 16 + 1 + 32 + 4 + 4 + 1))
        func decode(_ name: [UInt8]) throws -> SessionFrame? {
            try SessionFrame(decoding: (front + [UInt8(name.count)] + name + [0, 0])[...])
        }
        #expect(try decode([0x61]) == .roster(Self.id, [Self.member(1, name: "a")]))
        #expect(try decode([UInt8](repeating: 0x61, count: 63)) != nil)
        for bad in [[], [UInt8](repeating: 0x61, count: 64), [0xff], [0xc3]] as [[UInt8]] {
            #expect(throws: MalformedInput.self) { try decode(bad) }
        }
    }

    @Test(
        "N1: an address that needs a name lookup is rejected",
        arguments: [
            "", "example.com", "localhost", "dead.beef", "a", "10.0.0.1 ", "0x7f000001",
        ]) func hostNames(_ host: String)
    {
        var member = Self.member(1)
        member.addresses = [.init(host: host, port: 80)]
        #expect(throws: MalformedInput.self) { try SessionFrame(decoding: SessionFrame.roster(Self.id, [member]).encoded[...]) }
    }

    @Test func `an unknown step of leaving is rejected`() {
        let encoded = SessionFrame.leaving(Self.id, isDone: true).encoded.dropLast() + [2]
        #expect(throws: MalformedInput.self) { try SessionFrame(decoding: encoded) }
    }

    @Test func `an unknown presence is rejected`() {
        var encoded = SessionFrame.roster(Self.id, [Self.member(1)]).encoded
        encoded[1 + 16 + 1 + 32 + 4 + 4] = 2
        #expect(throws: MalformedInput.self) { try SessionFrame(decoding: encoded[...]) }
    }
}

@Suite struct StreamFrameTests {
    private static let id = StreamID(rawValue: .max)

    static let frames: [StreamFrame] = [
        .open(id, .bytes, StreamName("")!), .open(id, .messages, StreamName("log")!),
        .open(id, .relay, StreamName(String(repeating: "x", count: 255))!), .data(id, [1]),
        .data(id, [UInt8](repeating: 5, count: StreamFrame.maximumDataByteCount)[...]), .credit(id, upTo: .max), .finish(id),
        .reset(id, .cancelled), .reset(id, .refused), .reset(id, .streamLimit),
    ]

    @Test(arguments: frames) func `a frame is decoded as it was encoded`(_ frame: StreamFrame) throws {
        #expect(try StreamFrame(decoding: frame.encoded[...]) == frame)
    }

    @Test(arguments: frames) func `a frame that is truncated or has bytes behind it is rejected`(_ frame: StreamFrame) {
        let encoded = frame.encoded
        // Data has no length of its own.
        let cuts = if case .data = frame { 1..<6 } else { 1..<encoded.count }
        for length in cuts {
            #expect(throws: MalformedInput.self, "cut to \(length)") { try StreamFrame(decoding: encoded[..<length]) }
        }
        #expect(frame.id == Self.id)
        if case .data(_, let bytes) = frame, bytes.count == 1 { return }
        #expect(throws: MalformedInput.self) { try StreamFrame(decoding: (encoded + [0])[...]) }
    }

    @Test(
        "R7: invalid frames are rejected",
        arguments: [
            [FrameType.streamFinish, 0, 0, 0, 0], [FrameType.streamOpen, 0, 0, 0, 1, 3, 0],
            [FrameType.streamOpen, 0, 0, 0, 1, 0, 1, 0xff],
        ] as [[UInt8]]) func refused(_ bytes: [UInt8])
    {
        #expect(throws: MalformedInput.self) { try StreamFrame(decoding: bytes[...]) }
    }

    @Test("T1: a name is displayed without control characters of a terminal") func shownNames() throws {
        #expect(!StreamName("\u{1b}[2J\u{7}")!.shown.unicodeScalars.contains { $0.value < 0x20 })
        #expect(StreamName(String(repeating: "x", count: 256)) == nil)
    }
}
