import NearshareBase
import NearshareTesting
import Testing

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
