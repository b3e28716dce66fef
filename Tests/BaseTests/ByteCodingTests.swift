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

@Suite struct BitCodingTests {
    @Test("bits return in the order in which they were written", arguments: seeds(1...20))
    func roundTrip(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var writer = BitWriter()
        var written: [(value: UInt64, count: Int)] = []
        for _ in 0..<Int.random(in: 1...40, using: &random) {
            let count = Int.random(in: 1...64, using: &random)
            let value = random.next()
            writer.write(value, count: count)
            written.append((count == 64 ? value : value & (1 << UInt64(count) - 1), count))
        }
        let bitCount = written.reduce(0) { $0 + $1.count }
        #expect(writer.bytes.count == (bitCount + 7) / 8, "seed \(seed)")
        var reader = BitReader(bytes: writer.bytes)
        for (value, count) in written {
            let found = reader.read(count)
            #expect(found == value, "seed \(seed)")
        }
        // The rest is padding: zeros that do not fill a byte.
        let padding = reader.read(writer.bytes.count * 8 - bitCount)
        let beyond = reader.read(1)
        #expect(padding == 0 && beyond == nil, "seed \(seed)")
    }

    @Test func `a unary code counts the ones before a zero`() {
        var reader = BitReader(bytes: [0b1110_0111])
        let counts = (0..<4).map { _ in reader.readUnary() }
        #expect(counts == [3, 0, nil, nil])
    }

    @Test func `padding with ones never ends a unary code`() {
        var writer = BitWriter()
        writer.write(0b10, count: 2)
        writer.fill()
        #expect(writer.bytes == [0b1011_1111])
        var reader = BitReader(bytes: writer.bytes)
        let counts = (0..<2).map { _ in reader.readUnary() }
        #expect(counts == [1, nil])
        writer.fill()
        #expect(writer.bytes.count == 1)
    }
}

@Suite struct GolombFilterTests {
    @Test("a filter never denies a member that fits", arguments: seeds(1...10))
    func members(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let parameter = Int.random(in: 5...20, using: &random)
        let count = Int.random(in: 0...100, using: &random)
        let hashes = (0..<count).map { _ in random.next() }
        let filter = GolombFilter(hashes: hashes, parameter: parameter, byteCount: GolombFilter.maximumByteCount)
        for hash in hashes { #expect(filter.contains(hash), "seed \(seed), P \(parameter)") }
        let values = filter.ascendingValues
        #expect(zip(values, values.dropFirst()).allSatisfy { $0 < $1 }, "seed \(seed)")
        #expect(Set(values) == filter.values && values.allSatisfy { $0 > 0 && $0 < max(filter.range, 1) }, "seed \(seed)")
    }

    @Test("false positives stay near 2^-P", arguments: [5, 7, 10])
    func falsePositives(parameter: Int) {
        var random = SeededRandom(seed: 77)
        let filter = GolombFilter(hashes: (0..<100).map { _ in random.next() }, parameter: parameter)
        let values = filter.values
        let found = (0..<20_000).count { _ in values.contains(GolombFilter.value(of: random.next(), range: filter.range)) }
        let expected = 20_000.0 / Double(1 << parameter)
        #expect(Double(found) > expected / 3 && Double(found) < expected * 2, "\(found) of 20,000, seed 77")
    }

    @Test("R3: a filter keeps its size limit and drops the oldest", arguments: [0, 1, 10, 50, GolombFilter.requestByteCount])
    func limit(byteCount: Int) {
        var random = SeededRandom(seed: 9)
        let hashes = (0..<2_000).map { _ in random.next() }
        let filter = GolombFilter(hashes: hashes, byteCount: byteCount)
        #expect(filter.bytes.count <= byteCount)
        if let newest = hashes.first, byteCount >= 10 { #expect(filter.contains(newest)) }
        #expect(filter.values.count <= GolombFilter.capacity(parameter: filter.parameter, byteCount: byteCount))
    }

    @Test func `a filter without hashes contains nothing`() {
        let filter = GolombFilter(hashes: [])
        #expect(filter.bytes.isEmpty && filter.values.isEmpty && !filter.contains(0) && !filter.contains(.max))
    }

    @Test("M1: parameters of a peer outside their bounds are rejected")
    func bounds() {
        for parameter in [-1, 0, 33, .max] {
            #expect(throws: MalformedInput.self) { try GolombFilter(parameter: parameter, range: 10, bytes: []) }
        }
        #expect(throws: MalformedInput.self) { try GolombFilter(parameter: 7, range: 0, bytes: []) }
        let tooLong = [UInt8](repeating: 0, count: GolombFilter.maximumByteCount + 1)
        #expect(throws: MalformedInput.self) { try GolombFilter(parameter: 7, range: 10, bytes: tooLong) }
    }

    @Test("M1: no bytes of a peer give a value outside the range", arguments: seeds(1...30))
    func hostile(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let parameter = Int.random(in: 1...32, using: &random)
        let range = random.once(in: 4) ? UInt32.max : UInt32.random(in: 1...10_000, using: &random)
        var bytes = random.bytes(Int.random(in: 0...GolombFilter.maximumByteCount, using: &random))
        // Long runs of ones make the largest quotients.
        if random.once(in: 2) { bytes = [UInt8](repeating: 0xff, count: bytes.count) + [0, 0xff, 0xff, 0xff, 0xff] }
        let filter = try GolombFilter(parameter: parameter, range: range, bytes: Array(bytes.prefix(1024)))
        #expect(filter.values.allSatisfy { $0 < range }, "seed \(seed)")
    }

    @Test func `the parameter follows the false positive rate within 2 and 20`() {
        #expect(GolombFilter.parameter(forFalsePositiveRate: 0.01) == 7)
        #expect(GolombFilter.parameter(forFalsePositiveRate: 0.25) == 2)
        #expect(GolombFilter.parameter(forFalsePositiveRate: 0.9) == 2)
        #expect(GolombFilter.parameter(forFalsePositiveRate: 0) == 20)
    }
}
