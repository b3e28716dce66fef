import NearshareTesting
import Testing

@testable import NearshareBluetooth

@Suite struct ServiceRecordTests {
    private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

    @Test("a record survives encoding and decoding") func roundTrip() {
        let record = ServiceRecord(psm: 0x85, txt: [bytes("v=1"), bytes("n=Ada")])
        #expect(record.bytes == [1, 0, 0x85, 3] + bytes("v=1") + [5] + bytes("n=Ada"))
        #expect(ServiceRecord(record.bytes) == record)
        #expect(ServiceRecord(ServiceRecord(psm: 0, txt: []).bytes) == ServiceRecord(psm: 0, txt: []))
    }

    @Test(
        "records that are truncated, of another version or too long are rejected",
        arguments: [
            [], [1], [1, 0], [2, 0, 0x80], [1, 0, 0x80, 5, 1, 2], [1, 0, 0x80] + [UInt8](repeating: 0, count: 17),
            [1, 0, 0x80] + [UInt8](repeating: 0, count: 510),
        ] as [[UInt8]]) func refused(_ bytes: [UInt8])
    {
        #expect(ServiceRecord(bytes) == nil)
    }

    @Test("D3: random bytes never trap, and accepted records are bounded") func madeUp() {
        let seed = UInt64.random(in: .min ... .max)
        var random = SeededRandom(seed: seed)
        for _ in 0..<5_000 {
            var bytes = random.bytes(Int(random.next() % 40))
            if !bytes.isEmpty { bytes[0] = 1 }
            guard let record = ServiceRecord(bytes) else { continue }
            #expect(record.txt.count <= ServiceRecord.maximumStringCount, "seed \(seed)")
            #expect(record.bytes == bytes, "seed \(seed)")
        }
    }

    @Test("strings that do not fit are left out") func overflow() throws {
        let long = [UInt8](repeating: 0x61, count: 255)
        let record = try #require(ServiceRecord(ServiceRecord(psm: 1, txt: [long, long]).bytes))
        #expect(record.txt == [long])
    }
}
