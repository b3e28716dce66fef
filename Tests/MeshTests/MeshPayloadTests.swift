import NearshareBase
import NearshareMesh
import NearshareTesting
import Testing

@Suite struct MeshAnnouncementTests {
    private static let key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
    private static let whole = wire(
        "01 03 416461  02 20 \(key)  03 20 \(key)  04 10 0101010101010101 0202020202020202  05 05 0003000001  06 05 7534707275")

    @Test func fieldByField() throws {
        let announcement = MeshSamples.announcements[1]
        #expect(try announcement.encoded() == Self.whole)
        #expect(try MeshAnnouncement(decoding: Self.whole[...]) == announcement)
    }

    @Test(arguments: MeshSamples.announcements) func comesBackAsItWas(_ announcement: MeshAnnouncement) throws {
        #expect(try MeshAnnouncement(decoding: try announcement.encoded()[...]) == announcement)
    }

    @Test func onlyACutBetweenFieldsCanBeTaken() throws {
        // Behind the third field all that is required is there; and a lone byte behind a field is ignored.
        let ends = [73, 91, 98, 105].flatMap { [$0, $0 + 1] }
        for length in Self.whole.indices {
            let announcement = try? MeshAnnouncement(decoding: Self.whole[..<length])
            #expect((announcement != nil) == ends.contains(length), "cut to \(length)")
        }
    }

    @Test("R7: a value that does not fit into its field is not sent") func bounds() throws {
        var announcement = MeshSamples.announcements[0]
        announcement.nickname = String(repeating: "n", count: 256)
        #expect(throws: MalformedInput.self) { try announcement.encoded() }
        announcement.nickname = "n"
        announcement.neighbours = [PeerID](repeating: MeshSamples.sender, count: 40)
        #expect(try MeshAnnouncement(decoding: try announcement.encoded()[...]).neighbours?.count == 10)
    }

    @Test("T1: a name is transported as claimed, and displayed safely") func claimedName() throws {
        let name = "a\u{1b}[2J\u{202e}b\n"
        let bytes = wire("01 0a") + Array(name.utf8) + Self.whole[5...]
        let announcement = try MeshAnnouncement(decoding: bytes[...])
        #expect(announcement.nickname == name)
        #expect(TerminalText.escaped(announcement.nickname) == #"a\u{1b}[2J\u{202e}b\u{a}"#)
    }

    @Test("P11: a name that is not UTF-8 is refused") func invalidUTF8() {
        #expect(throws: MalformedInput.self) {
            try MeshAnnouncement(decoding: (wire("01 02 c0af") + Self.whole[5...])[...])
        }
    }

    @Test("M1: changed announcements are refused or understood", arguments: 0..<1000 as Range<UInt64>)
    func mutation(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        guard let read = try? MeshAnnouncement(decoding: Self.whole.mutated(using: &random)[...]) else { return }
        #expect(try MeshAnnouncement(decoding: try read.encoded()[...]) == read, "seed \(seed)")
    }
}

@Suite struct MeshFileTests {
    private static let whole = wire("01 0005 612e747874  02 0004 00000003  03 000a 746578742f706c61696e  04 00000003 010203")

    @Test func fieldByField() throws {
        #expect(try MeshSamples.files[0].encoded() == Self.whole)
        #expect(try MeshFile(decoding: Self.whole[...]) == MeshSamples.files[0])
    }

    @Test(arguments: MeshSamples.files) func comesBackAsItWas(_ file: MeshFile) throws {
        #expect(try MeshFile(decoding: try file.encoded()[...]) == file)
    }

    @Test("R12: a truncated file is refused") func truncation() {
        for length in Self.whole.indices {
            #expect(throws: MalformedInput.self, "cut to \(length)") { try MeshFile(decoding: Self.whole[..<length]) }
        }
    }

    @Test func contentInPiecesIsJoined() throws {
        let bytes = wire("04 00000001 01  7e 0002 ffff  04 00000000  04 00000002 0203")
        let file = try MeshFile(decoding: bytes[...])
        #expect(file == MeshFile(name: nil, mediaType: nil, content: [1, 2, 3]))
    }

    @Test func contentWithAnOlderLength() throws {
        #expect(try MeshFile(decoding: wire("04 0002 0102")[...]).content == [1, 2])
        // Where four bytes of a length make sense, they are one.
        #expect(try MeshFile(decoding: wire("04 00000002 0102")[...]).content == [1, 2])
    }

    @Test("R1, R7: at most 5 MiB, announced or sent") func bounds() throws {
        let largest = [UInt8](repeating: 7, count: MeshFile.maximumContentByteCount)
        let encoded = try MeshFile(name: "a", mediaType: "b", content: largest[...]).encoded()
        #expect(try MeshFile(decoding: encoded[...]).content.count == largest.count)
        let larger = MeshFile(name: "a", mediaType: "b", content: (largest + [7])[...])
        #expect(throws: MalformedInput.self) { try larger.encoded() }
        let pieces = wire("04 00500000") + largest + wire("04 00000001 07")
        #expect(throws: MalformedInput.self) { try MeshFile(decoding: pieces[...]) }
        for size in ["0004 00500001", "0004 ffffffff", "0008 0000000100000000", "0008 ffffffffffffffff"] {
            #expect(throws: MalformedInput.self) { try MeshFile(decoding: wire("02 \(size) 04 00000001 07")[...]) }
        }
    }

    @Test("a peer state has a limit on fragments, or none where the field is malformed, repeated or missing") func peerState()
        throws
    {
        let key = [UInt8](repeating: 7, count: 32)
        let plain = MeshPeerState(capabilities: [.privateMedia], signingKey: key)
        let limited = MeshPeerState(capabilities: [.privateMedia], signingKey: key, fragmentLimit: 0x1234)
        #expect(limited.encoded == plain.encoded + [0x03, 0x02, 0x12, 0x34])
        #expect(try MeshPeerState(decoding: limited.encoded[...]) == limited)
        for field in [
            [0x03, 0x02, 0, 0], [0x03, 0x01, 9], [0x03, 0x03, 0, 1, 2], [0x03, 0], [0x03, 0x02, 1, 0, 0x03, 0x02, 1, 0], [],
        ]
            as [[UInt8]]
        {
            #expect(try MeshPeerState(decoding: (plain.encoded + field)[...]) == plain, "\(field)")
        }
    }

    @Test("message ids are upper-case UUIDs, also those of further parts, which are the same each time") func messageIDs()
        throws
    {
        let id = DerivedMessageID.uuid([UInt8](repeating: 0xff, count: 16))
        #expect(id == "FFFFFFFF-FFFF-4FFF-BFFF-FFFFFFFFFFFF")
        let parts = (1...3).map { DerivedMessageID.idOfPart($0, of: id) }
        #expect(Set(parts).count == 3 && parts == (1...3).map { DerivedMessageID.idOfPart($0, of: id) })
        #expect(
            try parts.allSatisfy {
                try #/[0-9A-F]{8}-[0-9A-F]{4}-4[0-9A-F]{3}-[89AB][0-9A-F]{3}-[0-9A-F]{12}/#.wholeMatch(in: $0) != nil
            })
    }

    @Test("M1: changed files are refused or understood", arguments: 0..<1000 as Range<UInt64>)
    func mutation(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        guard var read = try? MeshFile(decoding: Self.whole.mutated(using: &random)[...]) else { return }
        // A size is always sent.
        read.declaredSize = read.declaredSize ?? UInt64(read.content.count)
        #expect(try MeshFile(decoding: try read.encoded()[...]) == read, "seed \(seed)")
    }
}

@Suite struct MeshFragmentTests {
    private func plan(_ count: Int, chunk: Int, version: MeshPacket.Version = .v1) throws -> MeshFragmentation {
        try MeshFragmentation(
            MeshSamples.packets[0], frame: [UInt8](repeating: 7, count: count), id: MeshSamples.fragmentID,
            chunkByteCount: chunk)
    }

    @Test func fieldByField() throws {
        let fragment = try MeshFragment(decoding: wire("0102030405060708 0002 0005 22 aabb")[...])
        #expect(fragment.id == MeshSamples.fragmentID && fragment.originalType == .fileTransfer)
        #expect(fragment.index == 2 && fragment.total == 5 && fragment.slice == [0xaa, 0xbb])
        // Three slices: the second of them.
        #expect(try plan(5, chunk: 2)[1].payload == wire("0102030405060708 0001 0003 03 0707")[...])
    }

    @Test(
        "M4: an index at or beyond the total, a total of zero, and totals above the limit are refused",
        arguments: ["0000 0000", "0001 0001", "0005 0002", "ffff 0001", "0000 2711", "0000 ffff", "fffe ffff"])
    func refused(_ numbers: String) {
        #expect(throws: MalformedInput.self) { try MeshFragment(decoding: wire("0102030405060708 \(numbers) 22 aa")[...]) }
    }

    @Test("M4: the largest total is accepted") func largestTotal() throws {
        #expect(try MeshFragment(decoding: wire("0102030405060708 270f 2710 22 aa")[...]).index == 9_999)
    }

    @Test func everyCutInTheHeaderThrows() {
        let bytes = wire("0102030405060708 0002 0005 22")
        for length in bytes.indices {
            #expect(throws: MalformedInput.self) { try MeshFragment(decoding: bytes[..<length]) }
        }
        #expect(throws: Never.self) { try MeshFragment(decoding: bytes[...]) }
    }

    @Test(arguments: [(1, 454), (454, 454), (455, 454), (10_000, 1), (5_242_880, 525)])
    func slicesJoinToTheFrame(count: Int, chunk: Int) throws {
        let plan = try plan(count, chunk: chunk)
        #expect(plan.count == (count + chunk - 1) / chunk)
        var joined = 0
        for index in 0..<plan.count {
            let fragment = try MeshFragment(decoding: plan[index].payload)
            #expect(fragment.index == index && fragment.total == plan.count)
            joined += fragment.slice.count
        }
        #expect(joined == count)
    }

    @Test("M4: no more fragments are made than a receiver reassembles") func tooMany() {
        #expect(throws: MalformedInput.self) { try plan(10_001, chunk: 1) }
    }

    @Test func fragmentsFitIntoTheWriteTheyWereCutFor() throws {
        var packet = MeshSamples.packets[3]
        for maximumFrameByteCount in [185, 250, 512, 1024] {
            for hops in 0...4 {
                for recipient in [nil, MeshSamples.recipient] {
                    packet.recipient = recipient
                    packet.route = [PeerID](repeating: MeshSamples.sender, count: hops)
                    let chunk = MeshFragmentation.chunkByteCount(forLargestWrite: maximumFrameByteCount, route: packet.route)
                    // Below, no header would fit, and phones cut no smaller.
                    guard chunk > 64 else { continue }
                    let plan = try MeshFragmentation(
                        packet, frame: [UInt8](repeating: 7, count: 5000), id: MeshSamples.fragmentID, chunkByteCount: chunk)
                    #expect(try plan[0].encoded(compression: .level(1)).count <= maximumFrameByteCount)
                    var random = SeededRandom(seed: 1)
                    let incompressible = try MeshFragmentation(
                        packet, frame: random.bytes(5000), id: MeshSamples.fragmentID, chunkByteCount: chunk)
                    #expect(try incompressible[0].encoded().count <= maximumFrameByteCount - 15 + (recipient == nil ? -8 : 0))
                }
            }
        }
        #expect(MeshFragmentation.chunkByteCount(forLargestWrite: 512) == 454)
        #expect(MeshFragmentation.chunkByteCount(forLargestWrite: 20) == 64)
    }
}

@Suite struct MeshNoisePayloadTests {
    private static let key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

    @Test(
        arguments: [
            ("01 00 01 31 01 07 4772c3bcc39f65", MeshSamples.payloads[0]),
            ("02 31", .readReceipt(messageID: "1")),
            ("03", .delivered(messageID: "")),
            ("20 010203", .file([1, 2, 3])),
            ("21 01 01 05 0003000001 02 20 \(key)", MeshSamples.payloads[6]),
            (
                "7e 01 \(key) 00500000 2710 0102030405060708 09 70686f746f2e6a7067 0a 696d6167652f6a706567",
                MeshSamples.payloads[7]
            ),
            ("7e 03 \(key) 03", MeshSamples.payloads[9]),
            ("08 0102030405060708 0000 01 01", MeshSamples.payloads[12]),
            ("08 0102030405060708 0001 00 0001 01 0002 0203", MeshSamples.payloads[13]),
            ("08 0102030405060708 0002 02 0002 00000028", MeshSamples.payloads[14]),
            ("08 0102030405060708 0003 04", MeshSamples.payloads[15]),
            ("7e 05 \(key) 01", MeshSamples.payloads[16]),
        ] as [(String, MeshNoisePayload)])
    func fieldByField(_ bytes: String, _ payload: MeshNoisePayload) throws {
        #expect(try payload.encoded() == wire(bytes))
        #expect(try MeshNoisePayload(decoding: wire(bytes)[...]) == payload)
    }

    @Test(arguments: MeshSamples.payloads) func comesBackAsItWas(_ payload: MeshNoisePayload) throws {
        #expect(try MeshNoisePayload(decoding: try payload.encoded()[...]) == payload)
    }

    @Test("M1: a truncated payload is refused, or decodes as a shorter one", arguments: MeshSamples.payloads)
    func truncation(_ payload: MeshNoisePayload) throws {
        let bytes = try payload.encoded()
        for length in bytes.indices {
            guard let read = try? MeshNoisePayload(decoding: bytes[..<length]) else { continue }
            #expect(try MeshNoisePayload(decoding: try read.encoded()[...]) == read, "cut to \(length)")
            switch read {
            // Texts and files have no length of their own; of speech any number of frames may come.
            case .readReceipt, .delivered, .file, .voiceFrame: break
            // Its reason may be missing.
            case .fileControl(.cancel): break
            // A lone byte at the end of a list of fields is ignored.
            default: Issue.record("\(payload) cut to \(length) is \(read)")
            }
        }
    }

    @Test func unknownKindsAreNotUnderstood() {
        let known: Set<UInt8> = [0x01, 0x02, 0x03, 0x08, 0x09, 0x10, 0x11, 0x20, 0x21, 0x7e]
        for kind in UInt8.min...UInt8.max where !known.contains(kind) {
            #expect(throws: MalformedInput.self) { try MeshNoisePayload(decoding: [kind, 0, 1, 2]) }
        }
        #expect(throws: MalformedInput.self) { try MeshNoisePayload(decoding: []) }
    }

    @Test("R7: a text has at most 255 bytes") func longTexts() throws {
        func message(_ count: Int) -> MeshNoisePayload {
            .privateMessage(MeshPrivateMessage(id: "1", text: String(repeating: "x", count: count)))
        }
        #expect(try MeshNoisePayload(decoding: try message(255).encoded()[...]) == message(255))
        #expect(throws: MalformedInput.self) { try message(256).encoded() }
        let id = [0x02] + [UInt8](repeating: 0x31, count: 256)
        #expect(throws: MalformedInput.self) { try MeshNoisePayload(decoding: id[...]) }
    }

    @Test(
        "R7: offers beyond every bound are refused",
        arguments: [
            "00500001 0001", "ffffffff 0001", "00000001 0000", "00000001 2711", "00000001 ffff",
        ]) func offers(_ numbers: String)
    {
        let bytes = wire("7e 01 \(Self.key) \(numbers) 0102030405060708 01 61 00")
        #expect(throws: MalformedInput.self) { try MeshNoisePayload(decoding: bytes[...]) }
    }

    @Test("P11: text that is not UTF-8 is refused", arguments: ["01 00 01 31 01 02 c0af", "02 c0af", "03 ff"])
    func invalidUTF8(_ bytes: String) {
        #expect(throws: MalformedInput.self) { try MeshNoisePayload(decoding: wire(bytes)[...]) }
    }

    @Test("M1: changed payloads are refused or understood", arguments: 0..<2000 as Range<UInt64>)
    func mutation(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let bytes = try MeshSamples.payloads.randomElement(using: &random)!.encoded().mutated(using: &random)
        guard let read = try? MeshNoisePayload(decoding: bytes[...]) else { return }
        #expect(try MeshNoisePayload(decoding: try read.encoded()[...]) == read, "seed \(seed)")
    }
}

@Suite struct MeshVerificationCodeTests {
    private static let address = MeshSamples.code.address(signature: MeshSamples.signature)

    @Test func comesBackAsItWas() throws {
        let read = try MeshVerificationCode.decode(address: Self.address)
        #expect(read.code == MeshSamples.code && read.signature == MeshSamples.signature)
    }

    @Test func theLongestNameFits() throws {
        var code = MeshSamples.code
        code.nickname = String(repeating: "ß", count: 127)
        #expect(try MeshVerificationCode.decode(address: code.address(signature: MeshSamples.signature)).code == code)
    }

    @Test(
        "R7, D4: parts that no encoder writes are refused",
        arguments: [
            ("v=1", "v=2"), ("v=1&", ""), ("noise=00", "noise=0"), ("sign=00", "sign=zz"), ("ts=1700000000", "ts=1e9"),
            ("nonce=AAEC", "nonce=AAE%26"), ("nonce=AAEC", "nonce="), ("sig=5a", "sig="), ("nick=Ada", "nick=%f"),
            ("nick=", "nick=%ff"),
            ("bitchat:", "https:"), ("nick=", "nick=" + String(repeating: "x", count: 255)),
            ("npub=", "npub=" + String(repeating: "x", count: 4096)),
        ]) func refused(_ part: String, _ other: String)
    {
        let address = Self.address.replacing(part, with: other, maxReplacements: 1)
        #expect(address != Self.address)
        #expect(throws: MalformedInput.self) { try MeshVerificationCode.decode(address: address) }
    }

    @Test("M1: changed addresses are refused or understood", arguments: 0..<1000 as Range<UInt64>)
    func mutation(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let address = String(decoding: Array(Self.address.utf8).mutated(using: &random), as: UTF8.self)
        guard let read = try? MeshVerificationCode.decode(address: address) else { return }
        let again = try MeshVerificationCode.decode(address: read.code.address(signature: read.signature))
        #expect(again.code == read.code && again.signature == read.signature, "seed \(seed)")
    }
}

@Suite struct MeshSyncTests {
    private static let whole = wire(
        "01 0001 07  02 0004 00000080  03 0001 17  04 0001 a0  05 0008 0000000000000005  06 0010 30313032303330343035303630373038"
    )

    @Test func fieldByField() throws {
        let request = MeshSyncRequest(
            filter: try GolombFilter(parameter: 7, range: 128, bytes: [0x17]), wanted: [.fragments, .files], since: 5,
            fragmentIDs: [MeshSamples.fragmentID])
        #expect(request.encoded == Self.whole)
        #expect(try MeshSyncRequest(decoding: Self.whole[...]) == request)
        // q = 0 and seven bits: 0 0010111 is 23, and so the first difference 24.
        #expect(request.filter.values == [24])
    }

    @Test(arguments: MeshSamples.requests) func comesBackAsItWas(_ request: MeshSyncRequest) throws {
        #expect(try MeshSyncRequest(decoding: request.encoded[...]) == request)
    }

    @Test("each member is found, and the filter is never too long", arguments: seeds(0..<100))
    func members(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let hashes = (0..<Int.random(in: 0...600, using: &random)).map { _ in random.next() }
        let parameter = Int.random(in: 1...23, using: &random)
        let byteCount = Int.random(in: 1...1024, using: &random)
        let filter = GolombFilter(hashes: hashes, parameter: parameter, byteCount: byteCount)
        #expect(filter.bytes.count <= byteCount, "seed \(seed)")
        let members = filter.values
        #expect(members.allSatisfy { $0 > 0 && $0 < filter.range }, "seed \(seed)")
        // The newest are in it, in number at least what is left when a tenth was dropped twice.
        let capacity = min(hashes.count, GolombFilter.capacity(parameter: parameter, byteCount: byteCount))
        for hash in hashes.prefix(capacity * 8 / 10) {
            #expect(members.contains(GolombFilter.value(of: hash, range: filter.range)), "seed \(seed)")
        }
    }

    @Test(
        "R7: numbers out of bounds are refused",
        arguments: [
            "01 0001 00  02 0004 00000080  03 0000", "01 0001 21  02 0004 00000080  03 0000",
            "01 0001 07  02 0004 00000000  03 0000",
            "01 0001 07  02 0004 00000080  03 ffff", "01 0001 07  02 0004 00000080", "01 0001 07  03 0000",
        ]) func refused(_ bytes: String)
    {
        #expect(throws: MalformedInput.self) { try MeshSyncRequest(decoding: wire(bytes)[...]) }
    }

    @Test("R7: decoding a filter of any bits ends, with no more members than bits", arguments: [UInt8(0), 0xff, 0x55, 0xfe])
    func anyBits(_ byte: UInt8) throws {
        for parameter in 1...32 {
            for range in [1, 2, 1 << 20, UInt32.max] {
                let filter = try GolombFilter(
                    parameter: parameter, range: range, bytes: [UInt8](repeating: byte, count: GolombFilter.maximumByteCount))
                #expect(filter.values.count <= 8 * GolombFilter.maximumByteCount / (parameter + 1))
            }
        }
    }

    @Test("M2: at most 60 sets of fragments can be requested") func fragmentIDs() throws {
        let list = [String](repeating: "0102030405060708", count: 3000).joined(separator: ",")
        var bytes =
            wire("01 0001 07  02 0004 00000080  03 0000  06") + [UInt8(list.utf8.count >> 8), UInt8(list.utf8.count & 0xff)]
        bytes += Array(list.utf8)
        #expect(try MeshSyncRequest(decoding: bytes[...]).fragmentIDs?.count == MeshSyncRequest.maximumFragmentIDCount)
    }

    @Test("M1: changed requests are refused or understood", arguments: 0..<1000 as Range<UInt64>)
    func mutation(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        guard let read = try? MeshSyncRequest(decoding: Self.whole.mutated(using: &random)[...]) else { return }
        #expect(try MeshSyncRequest(decoding: read.encoded[...]) == read, "seed \(seed)")
        _ = read.filter.values
    }
}

@Suite struct MeshPingTests {
    @Test func fieldByField() throws {
        let ping = MeshPing(nonce: MeshSamples.fragmentID.bytes, originTTL: 7)
        #expect(ping.encoded == wire("0102030405060708 07"))
        #expect(try MeshPing(decoding: ping.encoded[...]) == ping)
        for length in 0..<9 {
            #expect(throws: MalformedInput.self) { try MeshPing(decoding: ping.encoded[..<length]) }
        }
    }
}
