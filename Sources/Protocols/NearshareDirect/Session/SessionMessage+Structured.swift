package import NearshareBase

extension SessionMessage {
    /// Creates a text message: bytes of UTF-8.
    public init(text: String) {
        self.init(bytes: Array(text.utf8))
    }

    /// The bytes as text; nil for a structured message and for invalid UTF-8. Escape it with `TerminalText.escaped` before
    /// showing it on a terminal.
    public var text: String? { kind == .bytes ? String(validating: bytes, as: UTF8.self) : nil }

    /// Creates a structured message.
    /// - Throws: An error for a value that cannot be encoded: numbers that are not finite, or values that nest too deeply.
    package init(_ value: StructuredValue) throws {
        self.init(kind: .structured, bytes: try value.encoded())
    }

    /// Creates a structured message from an `Encodable` value; arrays of `UInt8` become byte strings.
    /// - Throws: `EncodingError` for a value that cannot be encoded: an integer that does not fit into `Int64`, a number that is
    ///   not finite, or values that nest too deeply; and errors that the type throws.
    public init(encoding value: some Encodable) throws {
        self.init(kind: .structured, bytes: try StructuredValue.encoding(of: value))
    }

    /// The value of a structured message; nil for a message of another kind.
    /// - Throws: `MalformedInput` when the sender has encoded it incorrectly.
    package var structured: StructuredValue? {
        get throws {
            kind == .structured ? try StructuredValue(decoding: bytes[...]) : nil
        }
    }

    /// Decodes a structured message as a program's own type, or as a `StructuredValue`.
    /// - Throws: `DecodingError` when the message does not match the type; its case `dataCorrupted` when the message is of another
    ///   kind, or the sender has encoded it incorrectly; and errors that the type throws.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        do {
            guard let value = try structured else { throw MalformedInput("message: it is not structured") }
            return try value.decode(type)
        } catch let error as MalformedInput {
            throw DecodingError.dataCorrupted(
                DecodingError.Context(codingPath: [], debugDescription: error.description, underlyingError: error))
        }
    }
}
