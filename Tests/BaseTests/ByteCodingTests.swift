import NearshareBase
import NearshareTesting
import Testing

@Suite struct ByteCodingTests {
    private enum Field: Equatable {
        case byte(UInt8)
        case short(UInt16)
        case word(UInt32)
        case long(UInt64)
        case counted([UInt8])
        case plain([UInt8])
    }

    private func fields(_ random: inout SeededRandom) -> [Field] {
        (0..<Int.random(in: 0...12, using: &random)).map { _ in
            switch Int.random(in: 0..<6, using: &random) {
            case 0: .byte(UInt8(truncatingIfNeeded: random.next()))
            case 1: .short(UInt16(truncatingIfNeeded: random.next()))
            case 2: .word(UInt32(truncatingIfNeeded: random.next()))
            case 3: .long(random.next())
            case 4: .counted(random.bytes(Int.random(in: 0...300, using: &random)))
            default: .plain(random.bytes(Int.random(in: 0...5, using: &random)))
            }
        }
    }

    private func read(_ shape: [Field], from bytes: ArraySlice<UInt8>) throws(MalformedInput) -> [Field] {
        var reader = ByteReader(bytes, of: "sample")
        var fields: [Field] = []
        for field in shape {
            switch field {
            case .byte: fields.append(.byte(try reader.readInteger()))
            case .short: fields.append(.short(try reader.readInteger()))
            case .word: fields.append(.word(try reader.readInteger()))
            case .long: fields.append(.long(try reader.readInteger()))
            case .counted:
                fields.append(.counted(Array(try reader.readCounted(by: UInt16.self, upTo: 300, field: "field"))))
            case .plain(let content): fields.append(.plain(Array(try reader.readBytes(content.count))))
            }
        }
        try reader.finish()
        return fields
    }

    @Test("fields return in the order in which they were written", arguments: seeds(1...50))
    func roundTrip(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let fields = fields(&random)
        var writer = ByteWriter(reserving: 8)
        for field in fields {
            switch field {
            case .byte(let value): writer.write(value)
            case .short(let value): writer.write(value)
            case .word(let value): writer.write(value)
            case .long(let value): writer.write(value)
            case .counted(let bytes): writer.writeCounted(bytes, by: UInt16.self)
            // Without contiguous storage: the path that appends byte by byte.
            case .plain(let bytes): writer.write(AnySequence(bytes))
            }
        }
        // In the middle of a larger array: offsets of the slice must not count as positions.
        let surrounded = random.bytes(7) + writer.bytes + random.bytes(3)
        let slice = surrounded[7..<7 + writer.bytes.count]
        #expect(try read(fields, from: slice) == fields, "seed \(seed)")
        if !slice.isEmpty {
            let cut = Int.random(in: 0..<slice.count, using: &random)
            #expect(throws: MalformedInput.self, "seed \(seed), cut at \(cut)") { try read(fields, from: slice.prefix(cut)) }
        }
        #expect(throws: MalformedInput.self, "seed \(seed)") { try read(fields, from: surrounded[7...]) }
    }

    @Test func `integers are written most significant byte first`() {
        var writer = ByteWriter()
        writer.write(UInt32(0x0102_0304))
        writer.write(UInt8(5))
        #expect(writer.bytes == [1, 2, 3, 4, 5])
        #expect(UInt16(bigEndianBytes: [1, 2]) == 0x0102 && UInt16(0x0102).bigEndianBytes == [1, 2])
        #expect(Int32(bigEndianBytes: [0xff, 0xff, 0xff, 0xfe]) == -2)
        #expect(UInt16(bigEndianBytes: [1]) == nil && UInt16(bigEndianBytes: [1, 2, 3]) == nil)
    }

    @Test("R7: a length of 2^64 - 1 is compared, not added")
    func hugeLength() {
        let bytes = [UInt8](repeating: 0xff, count: 8) + [1, 2, 3]
        #expect(throws: MalformedInput("sample: field is longer than 100 bytes")) {
            try readField(bytes, limit: 100)
        }
        #expect(throws: MalformedInput("sample: truncated")) { try readField(bytes, limit: .max) }
    }

    @Test func `a negative count is a shortage`() {
        #expect(throws: MalformedInput.self) {
            var reader = ByteReader([1, 2, 3], of: "sample")
            _ = try reader.readBytes(-1)
        }
    }

    @Test func `a shortage consumes nothing`() throws {
        var reader = ByteReader([1, 2, 3], of: "sample")
        do {
            _ = try reader.readInteger(UInt32.self)
            Issue.record("three bytes are no 32-bit integer")
        } catch {
            #expect(reader.remaining == 3)
        }
        let rest = Array(reader.readRemaining())
        #expect(rest == [1, 2, 3] && reader.remaining == 0)
    }

    @Test func `errors name the input and the field, never the content`() {
        #expect(throws: MalformedInput("sample: 2 bytes too many")) {
            let reader = ByteReader([0x41, 0x42], of: "sample")
            try reader.finish()
        }
    }

    private func readField(_ bytes: [UInt8], limit: Int) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "sample")
        _ = try reader.readCounted(by: UInt64.self, upTo: limit, field: "field")
    }
}
