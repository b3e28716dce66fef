/// Conversion to and from JSON and other formats, by `JSONEncoder`, `JSONDecoder` and their like. A byte string is encoded as
/// an array of numbers, and is decoded as one.
extension StructuredValue: Codable {
    public init(from decoder: any Decoder) throws {
        guard decoder.codingPath.count <= Self.maximumPathCount else {
            throw DecodingError.dataCorrupted(
                DecodingError.Context(codingPath: decoder.codingPath, debugDescription: "values nest too deeply"))
        }
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let truth = try? container.decode(Bool.self) {
            self = .bool(truth)
        } else if let integer = try? container.decode(Int64.self) {
            self = .integer(integer)
        } else if let number = try? container.decode(Double.self) {
            self = .number(number)
        } else if let text = try? container.decode(String.self) {
            self = .string(text)
        } else if let elements = try? container.decode([StructuredValue].self) {
            self = .array(elements)
        } else {
            self = .object(try container.decode([String: StructuredValue].self))
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let truth): try container.encode(truth)
        case .integer(let integer): try container.encode(integer)
        case .number(let number): try container.encode(number)
        case .string(let text): try container.encode(text)
        case .binary(let bytes): try container.encode(bytes)
        case .array(let elements): try container.encode(elements)
        case .object(let members): try container.encode(members)
        }
    }

    /// Limit on the nesting of decoded values, with that of the program's types around them. `JSONDecoder` takes time that grows with
    /// the third power of it: two seconds for 400 brackets.
    private static let maximumPathCount = 64
}
