// Not by `nil`: in an optional value that would mean `null` where nothing is meant.
extension StructuredValue: ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    /// `true` or `false`.
    package init(booleanLiteral value: Bool) { self = .bool(value) }
    /// A whole number.
    package init(integerLiteral value: Int64) { self = .integer(value) }
    /// A number with a fraction.
    package init(floatLiteral value: Double) { self = .number(value) }
    /// A text.
    package init(stringLiteral value: String) { self = .string(value) }
    /// An array.
    package init(arrayLiteral elements: StructuredValue...) { self = .array(elements) }
    /// An object; of a key that stands there twice the last counts.
    package init(dictionaryLiteral members: (String, StructuredValue)...) {
        self = .object(Dictionary(members) { $1 })
    }
}

extension StructuredValue {
    /// What an object holds under a key; nil where it holds nothing, or this is no object.
    package subscript(key: String) -> StructuredValue? {
        if case .object(let members) = self { members[key] } else { nil }
    }

    /// What stands at a place of an array; nil beyond its end, or where this is no array.
    package subscript(index: Int) -> StructuredValue? {
        guard case .array(let elements) = self, elements.indices.contains(index) else { return nil }
        return elements[index]
    }
}
