// Not ExpressibleByNilLiteral: `nil` for an optional value would mean `null` instead of no value.
extension StructuredValue: ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    /// `true` or `false`.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    /// A 64-bit integer from a literal.
    public init(integerLiteral value: Int64) { self = .integer(value) }
    /// A text.
    public init(stringLiteral value: String) { self = .string(value) }
    /// An ordered list from a literal.
    public init(arrayLiteral elements: StructuredValue...) { self = .array(elements) }
    /// An object; the last of duplicate keys counts.
    public init(dictionaryLiteral members: (String, StructuredValue)...) {
        self = .object(Dictionary(members) { $1 })
    }
}

extension StructuredValue {
    /// The member of an object; nil for a missing key, and for a value that is not an object.
    package subscript(key: String) -> StructuredValue? {
        if case .object(let members) = self { members[key] } else { nil }
    }

    /// The element of an array; nil for an index out of range, and for a value that is not an array.
    package subscript(index: Int) -> StructuredValue? {
        guard case .array(let elements) = self, elements.indices.contains(index) else { return nil }
        return elements[index]
    }
}
