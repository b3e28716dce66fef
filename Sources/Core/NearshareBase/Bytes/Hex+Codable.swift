/// The coding of identifiers, as texts of hexadecimal digits.
extension Hex {
    /// Decodes the bytes of an identifier.
    /// - Parameter name: of the identifier, with its article, for the error.
    static func decode(_ name: String, byteCount: Int, from decoder: any Decoder) throws -> [UInt8] {
        let container = try decoder.singleValueContainer()
        guard let bytes = decode(try container.decode(String.self)), bytes.count == byteCount else {
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "\(name) is \(2 * byteCount) hexadecimal digits")
        }
        return bytes
    }

    static func encode(_ bytes: [UInt8], to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(encode(bytes))
    }
}
