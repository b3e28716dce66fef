import NearshareBase
import Testing

@Suite struct QuantitiesTests {
    @Test(arguments: [
        (0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (1500, "1.5 KB"), (99_949, "99.9 KB"), (99_950, "100 KB"),
        (999_499, "999 KB"), (999_500, "1.0 MB"), (3_000_000, "3.0 MB"), (1_073_741_824, "1.1 GB"),
        (UInt64.max, "18.4 EB"),
    ])
    func `bytes are told with three digits at most`(_ bytes: UInt64, _ text: String) {
        #expect(bytes.formattedByteCount == text)
    }

    @Test(
        arguments: [
            (0, 0), (-1, 0), (0.5, 1), (1.5, 2), (1e18, 1_000_000_000_000_000_000), (18_446_744_073_709_551_616, .max),
            (.infinity, .max), (-.infinity, 0), (.nan, 0),
        ] as [(Double, UInt64)])
    func `any computed number becomes the nearest integer in range, and what is no number zero`(
        _ number: Double, _ integer: UInt64
    ) {
        #expect(UInt64(saturating: number) == integer)
    }

    @Test(arguments: [(0, "0:00"), (7, "0:07"), (750, "12:30"), (11_100, "3:05:00"), (-5, "0:00")])
    func `durations are formatted as a clock does`(_ seconds: Int, _ text: String) {
        #expect(Duration.seconds(seconds).asClock == text)
    }

    @Test(arguments: [
        (-5, "0 s"), (8, "8 s"), (59, "59 s"), (60, "1 min"), (118, "2 min"), (3_569, "59 min"), (3_599, "1 h"),
        (11_100, "3 h"),
    ])
    func `durations are told in their largest unit, rounded`(_ seconds: Int, _ text: String) {
        #expect(Duration.seconds(seconds).asLargestUnit == text)
    }

    @Test func `hexadecimal text and bytes are one another's inverse`() {
        let bytes = (0...255).map { UInt8($0) }
        #expect(Hex.decode(Hex.encode(bytes)) == bytes)
        #expect(Hex.decode("0aF") == nil)
        #expect(Hex.decode("0g") == nil)
        #expect(Hex.decode("") == [])
    }

    @Test func `durations saturate rather than overflow`() {
        #expect(Duration.seconds(Int64.max).nanoseconds == .max)
        #expect(Duration.milliseconds(1500).nanoseconds == 1_500_000_000)
    }
}

@Suite struct ByteReaderTests {
    @Test func `a shortage at any place throws`() throws {
        var writer = ByteWriter()
        writer.write(UInt16(0x0102))
        writer.writeCounted([9, 8, 7], by: UInt8.self)
        for length in 0..<writer.bytes.count {
            #expect(throws: MalformedInput.self) {
                var reader = ByteReader(writer.bytes[..<length], of: "sample")
                _ = try reader.readInteger(UInt16.self)
                _ = try reader.readCounted(by: UInt8.self, upTo: 10, field: "bytes")
                try reader.finish()
            }
        }
    }

    @Test func `a field over its limit throws before it is read`() {
        #expect(throws: MalformedInput.self) {
            var reader = ByteReader([200] + [UInt8](repeating: 0, count: 200), of: "sample")
            _ = try reader.readCounted(by: UInt8.self, upTo: 100, field: "bytes")
        }
    }

    @Test func `bytes left over throw`() {
        #expect(throws: MalformedInput.self) {
            let reader = ByteReader([1], of: "sample")
            try reader.finish()
        }
    }
}
