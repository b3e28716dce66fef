import NearshareBase
import NearshareMesh
import NearshareTesting
import Testing

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
    func `payloads have the bytes of their format`(_ bytes: String, _ payload: MeshNoisePayload) throws {
        #expect(try payload.encoded() == wire(bytes))
        #expect(try MeshNoisePayload(decoding: wire(bytes)[...]) == payload)
    }

    @Test(arguments: MeshSamples.payloads) func `a payload is decoded as it was encoded`(_ payload: MeshNoisePayload) throws {
        #expect(try MeshNoisePayload(decoding: try payload.encoded()[...]) == payload)
    }

    @Test("M1: a truncated payload is rejected, or decodes as a shorter one", arguments: MeshSamples.payloads)
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

    @Test func `payloads of unknown kinds are rejected`() {
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
        "R7: offers beyond every bound are rejected",
        arguments: [
            "00500001 0001", "ffffffff 0001", "00000001 0000", "00000001 2711", "00000001 ffff",
        ]) func offers(_ numbers: String)
    {
        let bytes = wire("7e 01 \(Self.key) \(numbers) 0102030405060708 01 61 00")
        #expect(throws: MalformedInput.self) { try MeshNoisePayload(decoding: bytes[...]) }
    }

    @Test("P11: text that is not UTF-8 is rejected", arguments: ["01 00 01 31 01 02 c0af", "02 c0af", "03 ff"])
    func invalidUTF8(_ bytes: String) {
        #expect(throws: MalformedInput.self) { try MeshNoisePayload(decoding: wire(bytes)[...]) }
    }

    @Test("M1: changed payloads are rejected or understood", arguments: 0..<2000 as Range<UInt64>)
    func mutation(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let bytes = try MeshSamples.payloads.randomElement(using: &random)!.encoded().mutated(using: &random)
        guard let read = try? MeshNoisePayload(decoding: bytes[...]) else { return }
        #expect(try MeshNoisePayload(decoding: try read.encoded()[...]) == read, "seed \(seed)")
    }
}
