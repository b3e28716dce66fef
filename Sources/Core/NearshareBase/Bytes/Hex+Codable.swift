/// The coding of identifiers, as texts of hexadecimal digits.
extension Hex {
    /// Decodes the bytes of an identifier from a text.
    /// - Parameters:
    ///   - kind: the kind of identifier with its article, such as "a peer id", for the error.
    ///   - byteCount: the length of the identifier; a text of another length is an error.
    static func decodeIdentifier(_ kind: String, byteCount: Int, from decoder: any Decoder) throws -> [UInt8] {
        let container = try decoder.singleValueContainer()
        guard let bytes = decode(try container.decode(String.self)), bytes.count == byteCount else {
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "\(kind) is \(2 * byteCount) hexadecimal digits")
        }
        return bytes
    }

    static func encode(_ bytes: [UInt8], to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(encode(bytes))
    }
}
