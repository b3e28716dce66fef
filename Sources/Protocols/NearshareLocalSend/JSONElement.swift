internal import NearshareBase

/// A value of JSON (RFC 8259) that a peer has sent. Objects keep the order of their members, which is that of the files.
indirect enum JSONElement: Sendable, Hashable {
    case null
    case bool(Bool)
    /// A whole number that is not negative.
    case integer(UInt64)
    /// Another number, which no field of the protocol has.
    case number
    case string(String)
    case array([JSONElement])
    case object([Member])

    struct Member: Sendable, Hashable {
        let name: String
        let value: JSONElement
    }

    /// Limit on the nesting of values, the outermost one counted.
    static let maximumDepth = 8
    /// Limit on the values of a text: a thousand files with all their fields.
    static let maximumCount = 20_000
    /// Limit on the name of a member, in bytes: a file's identifier is one.
    static let maximumNameByteCount = 256
    /// Limit on a text, in bytes; that of a message, in the member ``longTextName``, may be longer. Long texts are never compared or
    /// hashed as `String`: it would normalise them, which takes quadratic time for a run of combining marks (F10).
    static let maximumTextByteCount = 4_096
    static let longTextName = "preview"

    /// Decodes a text that is one value.
    init(decoding bytes: [UInt8]) throws(MalformedInput) {
        var reader = JSONReader(bytes)
        self = try reader.readWhole()
    }

    var members: [Member]? { if case .object(let members) = self { members } else { nil } }
    var string: String? { if case .string(let text) = self { text } else { nil } }
    var integer: UInt64? { if case .integer(let number) = self { number } else { nil } }
    var isNull: Bool { self == .null }

    /// The value of a member; nil where there is none.
    subscript(_ name: String) -> JSONElement? { members?.first { $0.name.utf8.elementsEqual(name.utf8) }?.value }

    /// A word of a protocol or a media type: a short text of ASCII.
    var word: String? {
        string.flatMap { text in text.utf8.count <= 255 && text.utf8.allSatisfy { $0 < 0x80 } ? text : nil }
    }

    /// The value as JSON.
    var text: String {
        switch self {
        case .null, .number: "null"
        case .bool(let value): "\(value)"
        case .integer(let number): "\(number)"
        case .string(let text): Self.quoted(text)
        case .array(let elements): "[\(elements.map(\.text).joined(separator: ","))]"
        case .object(let members):
            "{\(members.map { "\(Self.quoted($0.name)):\($0.value.text)" }.joined(separator: ","))}"
        }
    }

    /// An object of members in this order.
    static func members(_ members: KeyValuePairs<String, JSONElement>) -> JSONElement {
        .object(members.map { Member(name: $0.key, value: $0.value) })
    }

    private static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": quoted += "\\\(scalar)"
            // Safe: below 0x20.
            case _ where scalar.value < 0x20: quoted += "\\u00" + Hex.encode([UInt8(scalar.value)])
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}

/// Reads JSON within limits on depth and number of values.
private struct JSONReader {
    private let bytes: [UInt8]
    private var index = 0
    private var count = 0

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    mutating func readWhole() throws(MalformedInput) -> JSONElement {
        let value = try readValue(depth: 1)
        skipSpace()
        guard index == bytes.count else { throw MalformedInput("JSON: bytes after the value") }
        return value
    }

    private var next: UInt8? { index < bytes.count ? bytes[index] : nil }

    private mutating func skipSpace() {
        while let byte = next, byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d { index += 1 }
    }

    /// Skips white space and one byte.
    /// - Returns: false where another byte follows.
    private mutating func skip(_ byte: UInt8) -> Bool {
        skipSpace()
        guard next == byte else { return false }
        index += 1
        return true
    }

    /// - Parameter textLimit: limit on the value if it is a text, in bytes.
    private mutating func readValue(
        depth: Int, textLimit: Int = JSONElement.maximumTextByteCount
    ) throws(MalformedInput) -> JSONElement {
        count += 1
        guard depth <= JSONElement.maximumDepth else { throw MalformedInput("JSON: too deep") }
        guard count <= JSONElement.maximumCount else { throw MalformedInput("JSON: too many values") }
        skipSpace()
        switch next {
        case UInt8(ascii: "{"): return try readObject(depth: depth)
        case UInt8(ascii: "["): return try readArray(depth: depth)
        case UInt8(ascii: "\""): return .string(try readString(upTo: textLimit))
        case UInt8(ascii: "t"): return try readWord("true", .bool(true))
        case UInt8(ascii: "f"): return try readWord("false", .bool(false))
        case UInt8(ascii: "n"): return try readWord("null", .null)
        default: return try readNumber()
        }
    }

    private mutating func readWord(_ word: StaticString, _ value: JSONElement) throws(MalformedInput) -> JSONElement {
        let text = word.description.utf8
        guard bytes[index...].starts(with: text) else { throw MalformedInput("JSON: an unknown word") }
        index += text.count
        return value
    }

    private mutating func readObject(depth: Int) throws(MalformedInput) -> JSONElement {
        index += 1
        var members: [JSONElement.Member] = []
        var names: Set<[UInt8]> = []
        if skip(UInt8(ascii: "}")) { return .object([]) }
        repeat {
            skipSpace()
            let name = try readString(upTo: JSONElement.maximumNameByteCount)
            guard skip(UInt8(ascii: ":")) else { throw MalformedInput("JSON: a member without a colon") }
            // Two readers could choose different ones.
            guard names.insert(Array(name.utf8)).inserted else { throw MalformedInput("JSON: a member twice") }
            let isLong = name.utf8.elementsEqual(JSONElement.longTextName.utf8)
            let limit = isLong ? bytes.count : JSONElement.maximumTextByteCount
            members.append(JSONElement.Member(name: name, value: try readValue(depth: depth + 1, textLimit: limit)))
        } while skip(UInt8(ascii: ","))
        guard skip(UInt8(ascii: "}")) else { throw MalformedInput("JSON: an object without an end") }
        return .object(members)
    }

    private mutating func readArray(depth: Int) throws(MalformedInput) -> JSONElement {
        index += 1
        var elements: [JSONElement] = []
        if skip(UInt8(ascii: "]")) { return .array([]) }
        repeat { elements.append(try readValue(depth: depth + 1)) } while skip(UInt8(ascii: ","))
        guard skip(UInt8(ascii: "]")) else { throw MalformedInput("JSON: an array without an end") }
        return .array(elements)
    }

    /// Reads a number (RFC 8259, section 6).
    private mutating func readNumber() throws(MalformedInput) -> JSONElement {
        let start = index
        var isInteger = !skipOne(of: "-")
        let isZero = next == UInt8(ascii: "0")
        let digitCount = skipDigits()
        var isValid = isZero ? digitCount == 1 : digitCount > 0
        if skipOne(of: ".") {
            isInteger = false
            isValid = skipDigits() > 0 && isValid
        }
        if skipOne(of: "eE") {
            isInteger = false
            _ = skipOne(of: "+-")
            isValid = skipDigits() > 0 && isValid
        }
        guard isValid, index - start <= Self.maximumNumberByteCount else { throw MalformedInput("JSON: a number") }
        guard isInteger else { return .number }
        return UInt64(String(decoding: bytes[start..<index], as: UTF8.self)).map { .integer($0) } ?? .number
    }

    private static let maximumNumberByteCount = 32

    /// Skips one byte, where it is one of these.
    private mutating func skipOne(of choices: String) -> Bool {
        guard let byte = next, choices.utf8.contains(byte) else { return false }
        index += 1
        return true
    }

    /// - Returns: the number of digits.
    private mutating func skipDigits() -> Int {
        let start = index
        while let byte = next, (0x30...0x39).contains(byte) { index += 1 }
        return index - start
    }

    private mutating func readString(upTo limit: Int) throws(MalformedInput) -> String {
        guard next == UInt8(ascii: "\"") else { throw MalformedInput("JSON: a text without quotation marks") }
        index += 1
        var text: [UInt8] = []
        while let byte = next {
            index += 1
            guard text.count <= limit else { throw MalformedInput("JSON: a text that is too long") }
            switch byte {
            case UInt8(ascii: "\""):
                guard let text = String(validating: text, as: UTF8.self) else { throw MalformedInput("JSON: not UTF-8") }
                return text
            case UInt8(ascii: "\\"): text += try readEscape().utf8
            case ..<0x20: throw MalformedInput("JSON: a control character")
            default: text.append(byte)
            }
        }
        throw MalformedInput("JSON: a text without an end")
    }

    private mutating func readEscape() throws(MalformedInput) -> String {
        guard let byte = next else { throw MalformedInput("JSON: an escape without an end") }
        index += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return String(UnicodeScalar(byte))
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{c}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"): break
        default: throw MalformedInput("JSON: an unknown escape")
        }
        let unit = try readUnit()
        if UTF16.isLeadSurrogate(unit), bytes[index...].starts(with: [UInt8(ascii: "\\"), UInt8(ascii: "u")]) {
            index += 2
            return String(decoding: [unit, try readUnit()], as: UTF16.self)
        }
        // A surrogate without its other half becomes U+FFFD.
        return String(decoding: [unit], as: UTF16.self)
    }

    private mutating func readUnit() throws(MalformedInput) -> UInt16 {
        guard bytes.count - index >= 4, let digits = Hex.decode(String(decoding: bytes[index..<(index + 4)], as: UTF8.self))
        else { throw MalformedInput("JSON: an escape") }
        index += 4
        // Safe: a byte each.
        return UInt16(digits[0]) << 8 | UInt16(digits[1])
    }
}
