internal import FoundationEssentials
internal import Nearshare
internal import NearshareService

/// Structured values as JSON. Bytes become an object with one member: `{"$base64": "…"}`.
enum StructuredJSON {
    private static let binaryKey = "$base64"

    /// - Throws: ``CommandFailure`` for invalid JSON.
    static func value(of text: String) throws -> StructuredValue {
        guard let value = try? JSONDecoder().decode(StructuredValue.self, from: Data(text.utf8)) else {
            throw CommandFailure(.usage, "invalid JSON; quote it for the shell, as in '{\"temperature\": 21.5}'")
        }
        return try withBytes(value)
    }

    private static func withBytes(_ value: StructuredValue) throws -> StructuredValue {
        switch value {
        case .array(let elements): return .array(try elements.map(withBytes))
        case .object(let members):
            if members.count == 1, case .string(let text)? = members[binaryKey] {
                guard let bytes = Data(base64Encoded: text) else {
                    throw CommandFailure(.usage, "the value of \(binaryKey) must be base64 text")
                }
                return .binary(Array(bytes))
            }
            return .object(try members.mapValues(withBytes))
        default: return value
        }
    }

    static func json(_ value: StructuredValue) -> JSONValue {
        switch value {
        case .null: .null
        case .bool(let truth): .bool(truth)
        case .integer(let number): .integer(number)
        case .number(let number): .rate(number)
        case .string(let text): .string(text)
        case .binary(let bytes): .object([binaryKey: .string(Data(bytes).base64EncodedString())])
        case .array(let elements): .array(elements.map(json))
        case .object(let members): .object(members.mapValues(json))
        }
    }

    /// The value as one line of text.
    static func text(_ value: StructuredValue) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return (try? encoder.encode(json(value))).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }
}
