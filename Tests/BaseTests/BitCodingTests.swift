import NearshareBase
import NearshareTesting
import Testing

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
