import NearshareBase
import NearshareCrypto
import Testing

@testable import NearshareDirect

@Suite struct RecordTests {
    private func cipher(_ kind: RecordCipher.Kind) -> RecordCipher { RecordCipher(kind, key: [UInt8](repeating: 8, count: 32)) }

    private func open(_ record: [UInt8], with opener: inout RecordOpener) throws -> [UInt8] {
        var record = record
        let frame = try record.withUnsafeMutableBytes { try opener.openInPlace($0) }
        return Array(record[frame])
    }

    @Test(arguments: RecordCipher.Kind.allCases) func `a record is opened as it was sealed`(_ kind: RecordCipher.Kind) throws {
        var (sealer, opener) = (RecordSealer(cipher(kind)), RecordOpener(cipher(kind)))
        for count in [1, 2, 100, RecordFormat.maximumFrameByteCount] {
            let frame = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
            let record = sealer.seal(frame)
            #expect(try record.withUnsafeBytes { try RecordOpener.recordByteCount($0) } == record.count)
            #expect(try open(record, with: &opener) == frame)
        }
    }

    @Test(
        "K13: a changed, repeated, omitted, reordered or truncated record does not open", arguments: RecordCipher.Kind.allCases)
    func damaged(_ kind: RecordCipher.Kind) throws {
        var sealer = RecordSealer(cipher(kind))
        let records = (0..<4 as Range<UInt8>).map { sealer.seal([$0, 1, 2, 3]) }
        for position in records.indices {
            var before = RecordOpener(cipher(kind))
            for record in records[..<position] { _ = try open(record, with: &before) }
            for (other, record) in records.enumerated() where other != position {
                var opener = before
                #expect(throws: MalformedInput.self, "\(other) in place of \(position)") { try open(record, with: &opener) }
            }
            for index in records[position].indices {
                var changed = records[position]
                changed[index] ^= 1
                var opener = before
                #expect(throws: MalformedInput.self, "byte \(index) of \(position)") { try open(changed, with: &opener) }
            }
            for length in RecordFormat.headerByteCount..<records[position].count {
                var opener = before
                #expect(throws: MalformedInput.self) { try open(Array(records[position][..<length]), with: &opener) }
            }
            var opener = before
            #expect(try open(records[position], with: &opener) == [UInt8(position), 1, 2, 3])
        }
    }

    @Test("R1, R7: invalid record lengths are rejected by the header") func lengths() throws {
        func length(_ sealed: UInt32) throws -> Int? {
            try withUnsafeBytes(of: sealed.bigEndian) { try RecordOpener.recordByteCount($0) }
        }
        for bad in [0, 1, 16, UInt32(RecordFormat.maximumSealedByteCount) + 1, 1 << 31, .max] {
            #expect(throws: MalformedInput.self, "\(bad)") { try length(bad) }
        }
        #expect(try length(17) == 21)
        #expect(try length(UInt32(RecordFormat.maximumSealedByteCount)) == RecordFormat.maximumRecordByteCount)
        #expect(
            try [0, 0, 0].withUnsafeBytes { try RecordOpener.recordByteCount(UnsafeRawBufferPointer(rebasing: $0[..<3])) }
                == nil)
    }

    @Test(arguments: RecordCipher.Kind.allCases) func `the key changes after its number of records`(_ kind: RecordCipher.Kind)
        throws
    {
        let last = RecordFormat.recordsPerKey - 1
        var sealer = RecordSealer(cipher(kind), counter: last)
        var opener = RecordOpener(cipher(kind), counter: last)
        let (before, after) = (sealer.seal([1]), sealer.seal([2]))
        // The number is correct, but the key is the old one.
        var stale = RecordOpener(cipher(kind), counter: last + 1)
        #expect(throws: MalformedInput.self) { try open(after, with: &stale) }
        #expect(try open(before, with: &opener) == [1])
        #expect(try open(after, with: &opener) == [2])
        var fresh = cipher(kind)
        fresh.ratchet()
        var ratcheted = RecordOpener(fresh, counter: last + 1)
        #expect(try open(after, with: &ratcheted) == [2])
    }
}
