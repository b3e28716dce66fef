extension StructuredValue {
    /// Converts a program's own type through `Encodable`. Arrays of `UInt8` become byte strings.
    /// - Throws: `EncodingError` for an integer that does not fit into `Int64` and for values that nest too deeply, and errors that
    ///   the type throws.
    package init(encoding value: some Encodable) throws {
        self = try PartialValue.value(of: value, at: [])
    }

    /// Encodes a program's own type as CBOR. Its errors are of types that the program can name, unlike ``Invalid``.
    /// - Throws: `EncodingError` also for numbers that are not finite, and errors that the type throws.
    package static func encoding(of value: some Encodable) throws -> [UInt8] {
        let structured = try StructuredValue(encoding: value)
        do throws(Invalid) {
            return try structured.encoded()
        } catch {
            throw error.encodingError(of: value, at: [])
        }
    }
}

extension StructuredValue.Invalid {
    /// The error of the standard library for it. It has the value's type in place of the value, whose description could be long, and
    /// recurse without a bound.
    fileprivate func encodingError(of value: Any, at path: [any CodingKey]) -> EncodingError {
        .invalidValue(
            type(of: value), EncodingError.Context(codingPath: path, debugDescription: description, underlyingError: self))
    }
}

/// A value under construction, which `Encodable` fills in any order.
private final class PartialValue {
    enum Content {
        case nothing
        case value(StructuredValue)
        /// - Parameter byteCount: The number of elements that were encoded as `UInt8`.
        case array([PartialValue], byteCount: Int)
        case object([String: PartialValue])
    }

    var content = Content.nothing

    var value: StructuredValue {
        switch content {
        // A type that encodes nothing becomes an empty object, as with JSONEncoder.
        case .nothing: .object([:])
        case .value(let value): value
        case .array(let elements, let byteCount) where byteCount > 0 && byteCount == elements.count:
            .binary(elements.map { $0.byte })
        case .array(let elements, _): .array(elements.map(\.value))
        case .object(let members): .object(members.mapValues(\.value))
        }
    }

    private var byte: UInt8 {
        if case .value(.integer(let value)) = content { UInt8(truncatingIfNeeded: value) } else { 0 }
    }

    func append(_ element: PartialValue, isByte: Bool = false) {
        guard case .array(let elements, let byteCount) = content else { return }
        // Releases the reference to the array first, so that appending does not copy the array.
        content = .nothing
        var all = elements
        all.append(element)
        content = .array(all, byteCount: byteCount + (isByte ? 1 : 0))
    }

    var count: Int { if case .array(let elements, _) = content { elements.count } else { 0 } }

    func set(_ key: any CodingKey, _ member: PartialValue) {
        guard case .object(var members) = content else { return }
        content = .nothing
        members[key.stringValue] = member
        content = .object(members)
    }

    /// - Parameter wrapperCount: The number of single-value containers directly around the value, which add no key to the path.
    static func value(of value: some Encodable, at path: [any CodingKey], wrapperCount: Int = 0) throws -> StructuredValue {
        // Bounds the recursion: a value may contain itself.
        guard path.count < StructuredValue.maximumDepth, wrapperCount < StructuredValue.maximumDepth else {
            throw StructuredValue.Invalid.tooDeep.encodingError(of: value, at: path)
        }
        switch value {
        case let value as StructuredValue: return value
        case let bytes as [UInt8]: return .binary(bytes)
        case let text as String: return .string(text)
        case let truth as Bool: return .bool(truth)
        case let number as Double: return .number(number)
        case let number as Float: return .number(Double(number))
        case let integer as any FixedWidthInteger:
            guard let fitting = Int64(exactly: integer) else {
                throw EncodingError.invalidValue(
                    value,
                    EncodingError.Context(codingPath: path, debugDescription: "an integer has at most 64 bits with its sign"))
            }
            return .integer(fitting)
        default:
            let result = PartialValue()
            try value.encode(to: ValueEncoder(result: result, codingPath: path, wrapperCount: wrapperCount))
            return result.value
        }
    }

    static func partial(of value: some Encodable, at path: [any CodingKey]) throws -> PartialValue {
        let result = PartialValue()
        result.content = .value(try Self.value(of: value, at: path))
        return result
    }
}

private struct ValueEncoder: Encoder {
    let result: PartialValue
    let codingPath: [any CodingKey]
    var wrapperCount = 0
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        if case .object = result.content {} else { result.content = .object([:]) }
        return KeyedEncodingContainer(KeyedEncoder(result: result, codingPath: codingPath))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        if case .array = result.content {} else { result.content = .array([], byteCount: 0) }
        return UnkeyedEncoder(result: result, codingPath: codingPath)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer {
        SingleValueEncoder(result: result, codingPath: codingPath, wrapperCount: wrapperCount)
    }
}

private struct SingleValueEncoder: SingleValueEncodingContainer {
    let result: PartialValue
    let codingPath: [any CodingKey]
    let wrapperCount: Int

    func encodeNil() { result.content = .value(.null) }
    func encode<Value: Encodable>(_ value: Value) throws {
        result.content = .value(try PartialValue.value(of: value, at: codingPath, wrapperCount: wrapperCount + 1))
    }
}

private struct KeyedEncoder<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let result: PartialValue
    let codingPath: [any CodingKey]

    func encodeNil(forKey key: Key) { nested(key).content = .value(.null) }
    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
        result.set(key, try PartialValue.partial(of: value, at: codingPath + [key]))
    }

    func nestedContainer<Nested: CodingKey>(keyedBy: Nested.Type, forKey key: Key) -> KeyedEncodingContainer<Nested> {
        encoder(key).container(keyedBy: keyedBy)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { encoder(key).unkeyedContainer() }
    func superEncoder() -> any Encoder { encoder(PlainKey("super")) }
    func superEncoder(forKey key: Key) -> any Encoder { encoder(key) }

    private func encoder(_ key: some CodingKey) -> ValueEncoder {
        ValueEncoder(result: nested(key), codingPath: codingPath + [key])
    }

    private func nested(_ key: some CodingKey) -> PartialValue {
        let member = PartialValue()
        result.set(key, member)
        return member
    }
}

private struct UnkeyedEncoder: UnkeyedEncodingContainer {
    let result: PartialValue
    let codingPath: [any CodingKey]

    var count: Int { result.count }

    func encodeNil() { nested().content = .value(.null) }
    func encode<Value: Encodable>(_ value: Value) throws {
        result.append(try PartialValue.partial(of: value, at: codingPath + [PlainKey(count)]), isByte: value is UInt8)
    }

    func nestedContainer<Nested: CodingKey>(keyedBy: Nested.Type) -> KeyedEncodingContainer<Nested> {
        encoder().container(keyedBy: keyedBy)
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { encoder().unkeyedContainer() }
    func superEncoder() -> any Encoder { encoder() }

    private func encoder() -> ValueEncoder {
        let path = codingPath + [PlainKey(count)]
        return ValueEncoder(result: nested(), codingPath: path)
    }

    private func nested() -> PartialValue {
        let element = PartialValue()
        result.append(element)
        return element
    }
}

/// A coding key that no type has declared: an array index, or `super`.
struct PlainKey: CodingKey {
    let stringValue: String
    let intValue: Int?

    init(_ text: String) {
        stringValue = text
        intValue = nil
    }

    init(_ index: Int) {
        stringValue = "\(index)"
        intValue = index
    }

    init?(stringValue: String) { self.init(stringValue) }
    init?(intValue: Int) { self.init(intValue) }
}
