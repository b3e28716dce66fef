public import NearshareBase

extension SessionMessage {
    /// A text in UTF-8, as bytes that both programs take for one.
    public init(text: String) {
        self.init(bytes: Array(text.utf8))
    }

    /// The bytes as a text; nil for a structured message, and for bytes that are no UTF-8. Strangers' text is shown on a terminal
    /// through `TerminalText.escaped` only.
    public var text: String? { kind == .bytes ? String(validating: bytes, as: UTF8.self) : nil }

    /// A structured message: what JSON can say, and bytes.
    /// - Throws: `StructuredValue.Invalid` for what can't be sent.
    public init(_ value: StructuredValue) throws {
        self.init(kind: .structured, bytes: try value.encoded())
    }

    /// A structured message of what a type says of itself through `Encodable`; arrays of `UInt8` go as bytes.
    /// - Throws: `EncodingError` and `StructuredValue.Invalid` for what can't be sent.
    public init(encoding value: some Encodable) throws {
        try self.init(StructuredValue(encoding: value))
    }

    /// The value of a structured message; nil for other kinds.
    /// - Throws: `MalformedInput` when its sender has made it wrongly.
    public var structured: StructuredValue? {
        get throws {
            kind == .structured ? try StructuredValue(decoding: bytes[...]) : nil
        }
    }

    /// Reads a structured message as a type of the program's own.
    /// - Throws: `MalformedInput` or `DecodingError` when the sender says something else, or the message is of another kind.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        guard let value = try structured else { throw MalformedInput("message: it is not structured") }
        return try value.decode(type)
    }
}
