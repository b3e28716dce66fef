/// A value of JSON's data model extended by byte strings. Values nest at most 16 levels, the outermost one counted.
///
/// The wire format is the corresponding subset of CBOR (RFC 8949). It is deterministic, but differs from the RFC's deterministic
/// encoding (section 4.2.1): keys are ordered by the bytes of their text alone, not by length first, and numbers that are not integers
/// always take 8 bytes. Lengths and integers have the shortest form. Keys are equal where Swift's strings are: `é` in one scalar or
/// in two is the same key.
public indirect enum StructuredValue: Sendable, Hashable {
    /// JSON's null.
    case null
    /// JSON's true and false.
    case bool(Bool)
    /// An integer of 64 bits with a sign.
    case integer(Int64)
    /// A finite number, since JSON has no infinity and no NaN.
    case number(Double)
    /// A text.
    case string(String)
    /// A byte string, which JSON lacks.
    case binary([UInt8])
    /// An ordered list of values.
    case array([StructuredValue])
    /// An object with its members by key.
    case object([String: StructuredValue])

    /// Limit on the nesting of values, the outermost one counted.
    package static let maximumDepth = 16

    /// The reason why a value cannot be encoded.
    package enum Invalid: Error, Sendable, Hashable, CustomStringConvertible {
        /// A number is infinite or NaN.
        case notFinite
        /// Values nest deeper than ``StructuredValue/maximumDepth``.
        case tooDeep

        package var description: String {
            switch self {
            case .notFinite: "a structured message cannot hold infinite numbers or NaN; send a text or null instead"
            case .tooDeep: "a structured message nests at most \(maximumDepth) levels; make it flatter"
            }
        }
    }

    /// Encodes the value as CBOR.
    /// - Throws: ``Invalid`` for numbers that are not finite and for values that nest too deeply.
    package func encoded() throws(Invalid) -> [UInt8] {
        var writer = ByteWriter()
        try encode(to: &writer, depth: 1)
        return writer.bytes
    }

    private func encode(to writer: inout ByteWriter, depth: Int) throws(Invalid) {
        guard depth <= Self.maximumDepth else { throw .tooDeep }
        switch self {
        case .null: writer.write(Simple.null)
        case .bool(let value): writer.write(value ? Simple.true : Simple.false)
        case .integer(let value) where value >= 0: Self.writeHead(Major.unsigned, UInt64(value), to: &writer)
        case .integer(let value): Self.writeHead(Major.negative, UInt64(-1 - value), to: &writer)
        case .number(let value):
            guard value.isFinite else { throw .notFinite }
            writer.write(Simple.double)
            writer.write(value.bitPattern)
        case .string(let text):
            Self.writeHead(Major.text, UInt64(text.utf8.count), to: &writer)
            writer.write(text.utf8)
        case .binary(let bytes):
            Self.writeHead(Major.bytes, UInt64(bytes.count), to: &writer)
            writer.write(bytes)
        case .array(let elements):
            Self.writeHead(Major.array, UInt64(elements.count), to: &writer)
            for element in elements { try element.encode(to: &writer, depth: depth + 1) }
        case .object(let members):
            Self.writeHead(Major.map, UInt64(members.count), to: &writer)
            for (key, value) in members.sorted(by: { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }) {
                Self.writeHead(Major.text, UInt64(key.utf8.count), to: &writer)
                writer.write(key.utf8)
                try value.encode(to: &writer, depth: depth + 1)
            }
        }
    }

    private static func writeHead(_ major: UInt8, _ value: UInt64, to writer: inout ByteWriter) {
        switch value {
        case ..<24: writer.write(major | UInt8(value))
        case ...0xff:
            writer.write(major | 24)
            writer.write(UInt8(value))
        case ...0xffff:
            writer.write(major | 25)
            writer.write(UInt16(value))
        case ...0xffff_ffff:
            writer.write(major | 26)
            writer.write(UInt32(value))
        default:
            writer.write(major | 27)
            writer.write(value)
        }
    }

    /// Decodes exactly one value. Integers and lengths longer than the shortest form, shorter floats, tags, indefinite lengths and
    /// duplicate keys are rejected. Canonically equivalent keys are duplicates: an object could hold only one of them.
    package init(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "structured message")
        self = try Self.decode(&reader, depth: 1)
        try reader.finish()
    }

    private static func decode(_ reader: inout ByteReader, depth: Int) throws(MalformedInput) -> StructuredValue {
        guard depth <= maximumDepth else { throw MalformedInput("structured message: nested too deeply") }
        let initial: UInt8 = try reader.readInteger()
        switch initial {
        case Simple.null: return .null
        case Simple.true: return .bool(true)
        case Simple.false: return .bool(false)
        case Simple.double:
            let value = Double(bitPattern: try reader.readInteger())
            guard value.isFinite else { throw MalformedInput("structured message: a number that is not finite") }
            return .number(value)
        default: break
        }
        let argument = try readArgument(initial, &reader)
        switch initial & 0xe0 {
        case Major.unsigned where argument <= UInt64(Int64.max): return .integer(Int64(argument))
        case Major.negative where argument <= UInt64(Int64.max): return .integer(-1 - Int64(argument))
        case Major.bytes: return .binary(Array(try reader.readBytes(Int(clamping: argument))))
        case Major.text: return .string(try readText(argument, &reader))
        case Major.array:
            // Each element takes at least one byte, so the remaining bytes bound the count.
            guard argument <= UInt64(reader.remaining) else { throw MalformedInput("structured message: truncated") }
            var elements: [StructuredValue] = []
            for _ in 0..<argument { elements.append(try decode(&reader, depth: depth + 1)) }
            return .array(elements)
        case Major.map:
            guard argument <= UInt64(reader.remaining) else { throw MalformedInput("structured message: truncated") }
            var members: [String: StructuredValue] = [:]
            for _ in 0..<argument {
                let head: UInt8 = try reader.readInteger()
                guard head & 0xe0 == Major.text else { throw MalformedInput("structured message: a key that is not a text") }
                let key = try readText(try readArgument(head, &reader), &reader)
                guard members.updateValue(try decode(&reader, depth: depth + 1), forKey: key) == nil else {
                    throw MalformedInput("structured message: a duplicate key")
                }
            }
            return .object(members)
        default: throw MalformedInput("structured message: an unsupported value")
        }
    }

    private static func readText(_ count: UInt64, _ reader: inout ByteReader) throws(MalformedInput) -> String {
        guard let text = String(validating: try reader.readBytes(Int(clamping: count)), as: UTF8.self) else {
            throw MalformedInput("structured message: a text that is not valid UTF-8")
        }
        return text
    }

    private static func readArgument(_ initial: UInt8, _ reader: inout ByteReader) throws(MalformedInput) -> UInt64 {
        let (value, least): (UInt64, UInt64) =
            switch initial & 0x1f {
            case let small where small < 24: (UInt64(small), 0)
            case 24: (UInt64(try reader.readInteger(UInt8.self)), 24)
            case 25: (UInt64(try reader.readInteger(UInt16.self)), 0x100)
            case 26: (UInt64(try reader.readInteger(UInt32.self)), 0x1_0000)
            case 27: (try reader.readInteger(UInt64.self), 0x1_0000_0000)
            default: throw MalformedInput("structured message: an unsupported value")
            }
        guard value >= least else { throw MalformedInput("structured message: a number that is not in its shortest form") }
        return value
    }

    private enum Major {
        static let unsigned: UInt8 = 0x00
        static let negative: UInt8 = 0x20
        static let bytes: UInt8 = 0x40
        static let text: UInt8 = 0x60
        static let array: UInt8 = 0x80
        static let map: UInt8 = 0xa0
    }

    private enum Simple {
        static let `false`: UInt8 = 0xf4
        static let `true`: UInt8 = 0xf5
        static let null: UInt8 = 0xf6
        static let double: UInt8 = 0xfb
    }
}
