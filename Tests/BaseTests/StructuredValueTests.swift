import NearshareBase
import NearshareTesting
import Testing

@Suite struct StructuredValueTests {
    /// A random value that nests at most `depth` levels.
    private static func value(depth: Int, using random: inout SeededRandom) -> StructuredValue {
        switch Int.random(in: 0..<(depth > 1 ? 8 : 6), using: &random) {
        case 0: return .null
        case 1: return .bool(random.once(in: 2))
        case 2: return .integer(Int64(truncatingIfNeeded: random.next()) >> Int64.random(in: 0..<64, using: &random))
        case 3: return .number(Double.random(in: -1e9...1e9, using: &random))
        case 4: return .string(text(&random))
        case 5: return .binary(random.bytes(Int.random(in: 0...40, using: &random)))
        case 6:
            let count = Int.random(in: 0...6, using: &random)
            return .array((0..<count).map { _ in value(depth: depth - 1, using: &random) })
        default:
            var members: [String: StructuredValue] = [:]
            for _ in 0..<Int.random(in: 0...6, using: &random) {
                members[text(&random)] = value(depth: depth - 1, using: &random)
            }
            return .object(members)
        }
    }

    private static func text(_ random: inout SeededRandom) -> String {
        let pieces = ["a", "key", "é", "e\u{301}", "日本", "😀", "\0", "\u{1b}", " ", String(repeating: "x", count: 30)]
        return (0..<Int.random(in: 0...4, using: &random)).map { _ in pieces.randomElement(using: &random) ?? "" }.joined()
    }

    @Test("a value survives a round trip, and has only one encoding", arguments: seeds(1...60))
    func roundTrip(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let value = Self.value(depth: 5, using: &random)
        let bytes = try value.encoded()
        let decoded = try StructuredValue(decoding: bytes[...])
        #expect(decoded == value, "seed \(seed)")
        #expect(try decoded.encoded() == bytes, "seed \(seed)")
        #expect(try StructuredValue(encoding: value) == value, "seed \(seed)")
        #expect(try value.decode(StructuredValue.self) == value, "seed \(seed)")
    }

    @Test("R1: changed bytes are rejected or decode to a value that can be encoded", arguments: seeds(1...40))
    func mutations(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let bytes = try Self.value(depth: 5, using: &random).encoded()
        for round in 0..<50 {
            let mutated = bytes.mutated(using: &random)
            guard let value = try? StructuredValue(decoding: mutated[...]) else { continue }
            let again = try StructuredValue(decoding: value.encoded()[...])
            #expect(again == value, "seed \(seed), round \(round)")
        }
    }

    /// (value, size of its encoding): the bounds between the forms of RFC 8949, section 3.
    private static let sizes: [(Int64, Int)] = [
        (23, 1), (24, 2), (255, 2), (256, 3), (65_535, 3), (65_536, 5), (4_294_967_295, 5), (4_294_967_296, 9), (.max, 9),
        (-1, 1), (-24, 1), (-25, 2), (-256, 2), (-257, 3), (-65_536, 3), (-65_537, 5), (-4_294_967_296, 5), (-4_294_967_297, 9),
        (.min, 9),
    ]

    @Test("integers take the shortest form", arguments: sizes)
    func shortest(integer: Int64, size: Int) throws {
        let bytes = try StructuredValue.integer(integer).encoded()
        #expect(bytes.count == size)
        #expect(try StructuredValue(decoding: bytes[...]) == .integer(integer))
    }

    @Test func `members are looked up by key, elements by index`() {
        let value: StructuredValue = ["name": "attic", "values": [1, .number(2.5), true]]
        #expect(value["name"] == "attic" && value["values"]?[1] == .number(2.5))
        #expect(value["none"] == nil && value["values"]?[3] == nil && value["values"]?[-1] == nil)
        #expect(value[0] == nil && value["values"]?["name"] == nil)
    }

    @Test("R1: an array or a map that claims 2^32 - 1 elements is rejected as truncated")
    func claimedCount() {
        let bytes: [UInt8] = [0x9a, 0xff, 0xff, 0xff, 0xff, 0x00]
        #expect(throws: MalformedInput("structured message: truncated")) { try StructuredValue(decoding: bytes[...]) }
        let object: [UInt8] = [0xba, 0xff, 0xff, 0xff, 0xff, 0x61, 0x61, 0x00]
        #expect(throws: MalformedInput("structured message: truncated")) { try StructuredValue(decoding: object[...]) }
    }

    @Test func `errors for users say what to do instead`() {
        #expect(StructuredValue.Invalid.notFinite.description.contains("send a text or null instead"))
        #expect(StructuredValue.Invalid.tooDeep.description.contains("at most 16 levels"))
    }
}

/// Types that use the coding containers in their less common ways.
@Suite struct StructuredContainerTests {
    private class Base: Codable {
        var name = "base"
    }

    private final class Derived: Base {
        var count = 3

        private enum Keys: String, CodingKey { case count, nested, list }

        override init() { super.init() }

        required init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: Keys.self)
            count = try container.decode(Int.self, forKey: .count)
            let nested = try container.nestedContainer(keyedBy: Keys.self, forKey: .nested)
            #expect(try nested.decode(String.self, forKey: .count) == "inner")
            #expect(nested.allKeys == [.count] && !nested.contains(.list))
            var list = try container.nestedUnkeyedContainer(forKey: .list)
            #expect(list.count == 3 && !list.isAtEnd)
            let nils = [try list.decodeNil(), try list.decodeNil()]
            let one = try list.decode(Int.self)
            var inner = try list.nestedUnkeyedContainer()
            let truth = try inner.decode(Bool.self)
            #expect(nils == [true, false] && one == 1 && truth)
            #expect(list.isAtEnd && inner.isAtEnd)
            #expect(throws: DecodingError.self) { try inner.decode(Bool.self) }
            try super.init(from: container.superDecoder())
        }

        override func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Keys.self)
            try container.encode(count, forKey: .count)
            var nested = container.nestedContainer(keyedBy: Keys.self, forKey: .nested)
            try nested.encode("inner", forKey: .count)
            var list = container.nestedUnkeyedContainer(forKey: .list)
            try list.encodeNil()
            try list.encode(1)
            var inner = list.nestedUnkeyedContainer()
            try inner.encode(true)
            try super.encode(to: container.superEncoder())
        }
    }

    @Test func `nested containers and superclasses survive a round trip`() throws {
        let derived = Derived()
        derived.name = "changed"
        derived.count = 9
        let value = try StructuredValue(encoding: derived)
        #expect(value["nested"] == ["count": "inner"])
        #expect(value["list"] == [.null, 1, [true]])
        #expect(value["super"] == ["name": "changed"])
        let decoded = try StructuredValue(decoding: value.encoded()[...]).decode(Derived.self)
        #expect(decoded.name == "changed" && decoded.count == 9)
    }

    @Test func `an error names the path to the value`() {
        struct Inner: Decodable { var count: Int }
        struct Outer: Decodable { var inner: [Inner] }
        let value: StructuredValue = ["inner": [["count": 1], ["count": "two"]]]
        do {
            _ = try value.decode(Outer.self)
            Issue.record("a text was decoded as an integer")
        } catch DecodingError.typeMismatch(_, let context) {
            #expect(context.codingPath.map(\.stringValue) == ["inner", "1", "count"])
            #expect(context.debugDescription == "the message holds a text there")
        } catch {
            Issue.record(error)
        }
    }
}
