extension StructuredValue {
    /// Decodes a program's own type through `Decodable`. Byte strings are decoded as arrays of `UInt8`.
    ///
    /// Recursion is bounded to 16 levels, in keys and in single-value containers: a peer's value never nests deeper, and a
    /// type may decode itself.
    /// - Throws: `DecodingError` where the value does not match the type or nests deeper, and errors that the type throws.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        try read(type, at: [])
    }

    /// - Parameter wrapperCount: The number of single-value containers directly around the value, which add no key to the path.
    fileprivate func read<Value: Decodable>(
        _ type: Value.Type, at path: [any CodingKey], wrapperCount: Int = 0
    ) throws -> Value {
        guard path.count < Self.maximumDepth, wrapperCount < Self.maximumDepth else {
            throw DecodingError.dataCorrupted(
                DecodingError.Context(codingPath: path, debugDescription: "a value nests at most \(Self.maximumDepth) levels"))
        }
        let found: Any? =
            switch type {
            case is StructuredValue.Type: self
            case is [UInt8].Type: bytes
            case is String.Type: text
            case is Bool.Type: truth
            case is Double.Type: double
            case is Float.Type: double.map { Float($0) }
            case let integer as any FixedWidthInteger.Type: self.integer(integer)
            default: nil
            }
        // Unwraps first, because a cast of nil to an optional type would succeed.
        if let found, let found = found as? Value { return found }
        switch type {
        case is StructuredValue.Type, is String.Type, is Bool.Type, is Double.Type, is Float.Type,
            is any FixedWidthInteger.Type:
            throw mismatch(type, path)
        default: return try Value(from: ValueDecoder(value: self, codingPath: path, wrapperCount: wrapperCount))
        }
    }

    private var bytes: [UInt8]? { if case .binary(let bytes) = self { bytes } else { nil } }
    private var text: String? { if case .string(let text) = self { text } else { nil } }
    private var truth: Bool? { if case .bool(let truth) = self { truth } else { nil } }

    private var double: Double? {
        switch self {
        case .number(let number): number
        case .integer(let integer): Double(integer)
        default: nil
        }
    }

    private func integer<Integer: FixedWidthInteger>(_ type: Integer.Type) -> Integer? {
        switch self {
        case .integer(let integer): Integer(exactly: integer)
        case .number(let number): Integer(exactly: number)
        default: nil
        }
    }

    fileprivate func mismatch(_ type: Any.Type, _ path: [any CodingKey]) -> DecodingError {
        .typeMismatch(type, DecodingError.Context(codingPath: path, debugDescription: "the message holds \(kind) there"))
    }

    private var kind: String {
        switch self {
        case .null: "null"
        case .bool: "true or false"
        case .integer, .number: "a number, or one that does not fit"
        case .string: "a text"
        case .binary: "bytes"
        case .array: "an array"
        case .object: "an object"
        }
    }
}

private struct ValueDecoder: Decoder {
    let value: StructuredValue
    let codingPath: [any CodingKey]
    var wrapperCount = 0
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard case .object(let members) = value else { throw value.mismatch([String: StructuredValue].self, codingPath) }
        return KeyedDecodingContainer(KeyedDecoder(members: members, codingPath: codingPath))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        switch value {
        case .array(let elements): UnkeyedDecoder(elements: elements, codingPath: codingPath)
        case .binary(let bytes): UnkeyedDecoder(elements: bytes.map { .integer(Int64($0)) }, codingPath: codingPath)
        default: throw value.mismatch([StructuredValue].self, codingPath)
        }
    }

    func singleValueContainer() -> any SingleValueDecodingContainer {
        SingleValueDecoder(value: value, codingPath: codingPath, wrapperCount: wrapperCount)
    }
}

private struct SingleValueDecoder: SingleValueDecodingContainer {
    let value: StructuredValue
    let codingPath: [any CodingKey]
    let wrapperCount: Int

    func decodeNil() -> Bool { value == .null }
    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        try value.read(type, at: codingPath, wrapperCount: wrapperCount + 1)
    }
}

private struct KeyedDecoder<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let members: [String: StructuredValue]
    let codingPath: [any CodingKey]

    var allKeys: [Key] { members.keys.compactMap { Key(stringValue: $0) } }
    func contains(_ key: Key) -> Bool { members[key.stringValue] != nil }
    func decodeNil(forKey key: Key) throws -> Bool { try member(key) == .null }
    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        try member(key).read(type, at: codingPath + [key])
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        try decoder(key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try decoder(key).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder { try decoder(PlainKey("super")) }
    func superDecoder(forKey key: Key) throws -> any Decoder { try decoder(key) }

    private func decoder(_ key: some CodingKey) throws -> ValueDecoder {
        ValueDecoder(value: try member(key), codingPath: codingPath + [key])
    }

    private func member(_ key: some CodingKey) throws -> StructuredValue {
        if let member = members[key.stringValue] { return member }
        throw DecodingError.keyNotFound(
            key, DecodingError.Context(codingPath: codingPath, debugDescription: "the message has no \(key.stringValue)"))
    }
}

private struct UnkeyedDecoder: UnkeyedDecodingContainer {
    let elements: [StructuredValue]
    let codingPath: [any CodingKey]
    var currentIndex = 0

    var count: Int? { elements.count }
    var isAtEnd: Bool { currentIndex >= elements.count }

    mutating func decodeNil() throws -> Bool {
        guard try element(StructuredValue.self) == .null else { return false }
        currentIndex += 1
        return true
    }

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        let value = try element(type).read(type, at: codingPath + [PlainKey(currentIndex)])
        currentIndex += 1
        return value
    }

    mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) throws -> KeyedDecodingContainer<Nested> {
        try next(type).container(keyedBy: type)
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try next([StructuredValue].self).unkeyedContainer()
    }

    mutating func superDecoder() throws -> any Decoder { try next(StructuredValue.self) }

    private mutating func next(_ type: Any.Type) throws -> ValueDecoder {
        let decoder = ValueDecoder(value: try element(type), codingPath: codingPath + [PlainKey(currentIndex)])
        currentIndex += 1
        return decoder
    }

    private func element(_ type: Any.Type) throws -> StructuredValue {
        guard isAtEnd else { return elements[currentIndex] }
        throw DecodingError.valueNotFound(
            type, DecodingError.Context(codingPath: codingPath, debugDescription: "the message has no more there"))
    }
}
