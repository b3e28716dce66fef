import NearshareBase
import Testing

@Suite struct StructuredCodingTests {
    struct Reading: Codable, Equatable {
        enum Quality: String, Codable { case good, poor }
        struct Place: Codable, Equatable {
            var latitude: Double
            var names: [String]
        }

        var sensor: String
        var celsius: Double
        var count: UInt32
        var quality: Quality
        var note: String?
        var place: Place
        var raw: [UInt8]
        var history: [Int]
        var by: [String: Bool]
        var extra: StructuredValue
    }

    static let reading = Reading(
        sensor: "attic", celsius: 21.5, count: 7, quality: .good, note: nil,
        place: Reading.Place(latitude: -3.25, names: ["loft", "été"]), raw: [0, 255, 7], history: [1, -2, .max],
        by: ["anna": true], extra: ["deep": [1, .null, "x"]])

    @Test func `a value of a Codable type survives a round trip`() throws {
        let value = try StructuredValue(encoding: Self.reading)
        #expect(value["raw"] == .binary([0, 255, 7]))
        #expect(value["note"] == nil)
        #expect(value["history"] == [1, -2, 9_223_372_036_854_775_807])
        let decoded = try StructuredValue(decoding: value.encoded()[...])
        #expect(decoded == value)
        #expect(try decoded.decode(Reading.self) == Self.reading)
    }

    @Test func `values that are not objects survive a round trip`() throws {
        #expect(try StructuredValue(encoding: [1, 2]).decode([Int].self) == [1, 2])
        #expect(try StructuredValue(encoding: "x").decode(String.self) == "x")
        #expect(try StructuredValue(encoding: [String?.none, "a"]).decode([String?].self) == [nil, "a"])
        #expect(try StructuredValue(encoding: [UInt8]()).decode([UInt8].self) == [])
        // Other collections of bytes are encoded element by element, and still become a byte string.
        #expect(try StructuredValue(encoding: ContiguousArray<UInt8>([1, 2])) == .binary([1, 2]))
        #expect(try StructuredValue.binary([1, 2]).decode(Set<UInt8>.self) == [1, 2])
    }

    @Test func `a whole number decodes as an integer and as a floating-point number`() throws {
        #expect(try StructuredValue.integer(3).decode(Double.self) == 3)
        #expect(try StructuredValue.number(3).decode(UInt8.self) == 3)
    }

    @Test func `values that do not fit the type throw`() {
        #expect(throws: EncodingError.self) { try StructuredValue(encoding: UInt64.max) }
        #expect(throws: EncodingError.self) { try StructuredValue.encoding(of: [Double.nan]) }
        #expect(throws: DecodingError.self) { try StructuredValue.integer(256).decode(UInt8.self) }
        #expect(throws: DecodingError.self) { try StructuredValue.integer(-1).decode(UInt.self) }
        #expect(throws: DecodingError.self) { try StructuredValue.number(1.5).decode(Int.self) }
        #expect(throws: DecodingError.self) { try StructuredValue.string("1").decode(Int.self) }
        #expect(throws: DecodingError.self) { try StructuredValue.null.decode(String.self) }
        #expect(throws: DecodingError.self) { try StructuredValue.array([]).decode(Reading.self) }
        let incomplete: StructuredValue = ["sensor": "attic"]
        #expect(throws: DecodingError.self) { try incomplete.decode(Reading.self) }
    }

    private final class SelfEncoding: Codable {
        init() {}

        init(from decoder: any Decoder) throws { _ = try decoder.singleValueContainer().decode(SelfEncoding.self) }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(self)
        }
    }

    @Test func `a type that encodes or decodes itself in a single-value container throws`() {
        #expect(throws: EncodingError.self) { try StructuredValue(encoding: SelfEncoding()) }
        #expect(throws: EncodingError.self) { try StructuredValue(encoding: ["a": [SelfEncoding()]]) }
        #expect(throws: DecodingError.self) { try StructuredValue.integer(1).decode(SelfEncoding.self) }
    }

    @Test func `optionals of optionals are encoded at any level that a message may have`() throws {
        var value = StructuredValue.null
        for _ in 2..<StructuredValue.maximumDepth { value = [value] }
        let wrapped: [StructuredValue????] = [value]
        #expect(try StructuredValue(encoding: wrapped) == [value])
        #expect(try StructuredValue.array([value]).decode([StructuredValue?].self) == [value])
    }

    @Test func `keys are written in the order of their bytes, whatever their length`() throws {
        let value: StructuredValue = ["aa": 1, "b": 2, "": 0]
        #expect(try value.encoded() == [0xa3, 0x60, 0x00, 0x62, 0x61, 0x61, 0x01, 0x61, 0x62, 0x02])
    }

    @Test func `canonically equivalent keys are duplicates`() {
        let bytes: [UInt8] = [0xa2, 0x62, 0xc3, 0xa9, 0x00, 0x63, 0x65, 0xcc, 0x81, 0x01]
        #expect(throws: MalformedInput("structured message: a duplicate key")) { try StructuredValue(decoding: bytes[...]) }
    }

    /// (a value, its bytes), written by hand from RFC 8949.
    static let written: [(StructuredValue, [UInt8])] = [
        (.null, [0xf6]), (true, [0xf5]), (false, [0xf4]), (0, [0x00]), (23, [0x17]), (24, [0x18, 24]), (-1, [0x20]),
        (-500, [0x39, 0x01, 0xf3]), (.number(1.5), [0xfb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0]), ("a", [0x61, 0x61]),
        (.binary([1, 2]), [0x42, 1, 2]), ([1, "b"], [0x82, 0x01, 0x61, 0x62]),
        (["b": 1, "a": .null], [0xa2, 0x61, 0x61, 0xf6, 0x61, 0x62, 0x01]),
    ]

    @Test("the encoding is that of the protocol", arguments: written) func encoding(_ value: StructuredValue, _ bytes: [UInt8])
        throws
    {
        #expect(try value.encoded() == bytes)
        #expect(try StructuredValue(decoding: bytes[...]) == value)
        for length in bytes.indices {
            #expect(throws: MalformedInput.self) { try StructuredValue(decoding: bytes[..<length]) }
        }
        #expect(throws: MalformedInput.self) { try StructuredValue(decoding: (bytes + [0])[...]) }
    }

    @Test(
        "R1, R7: what is valid CBOR but not in the protocol is rejected: non-preferred integers, indefinite lengths, tags, half floats, undefined, non-finite numbers, duplicate and non-text keys, invalid UTF-8, claimed lengths, depth",
        arguments: [
            [0x18, 23], [0x9f, 0xff], [0xc0, 0x00], [0xf9, 0x3c, 0x00], [0xf7], [0xfb, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0],
            [0xa2, 0x61, 0x61, 0x00, 0x61, 0x61, 0x00], [0xa1, 0x00, 0x00], [0x61, 0xff],
            [0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], [0x5b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            [UInt8](repeating: 0x81, count: 16) + [0x00], [0x1b, 0x80, 0, 0, 0, 0, 0, 0, 0],
        ] as [[UInt8]])
    func rejected(_ bytes: [UInt8]) {
        #expect(throws: MalformedInput.self) { try StructuredValue(decoding: bytes[...]) }
    }

    @Test func `depth and numbers are bounded when encoding`() throws {
        var value = StructuredValue.null
        for _ in 1..<StructuredValue.maximumDepth { value = [value] }
        #expect(try StructuredValue(decoding: value.encoded()[...]) == value)
        #expect(throws: StructuredValue.Invalid.tooDeep) { try StructuredValue.array([value]).encoded() }
        #expect(throws: StructuredValue.Invalid.notFinite) { try StructuredValue.number(.infinity).encoded() }
    }
}
