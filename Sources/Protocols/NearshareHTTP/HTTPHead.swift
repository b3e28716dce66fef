/// The first line and the fields of a message (RFC 9112), strictly decoded. Folded fields are rejected.
struct HTTPHead {
    /// Limit on the bytes of a head.
    static let maximumByteCount = 8192
    /// Limit on the number of fields.
    static let maximumFieldCount = 64

    let firstLine: ArraySlice<UInt8>
    /// The values by their names in lower case; several values of one name are joined by commas.
    let fields: [String: String]

    /// Decodes a head without its final empty line.
    /// - Throws: the status with which a server rejects it.
    init(_ head: ArraySlice<UInt8>) throws(HTTPStatus) {
        guard head.allSatisfy({ $0 == 0x0d || $0 == 0x0a || $0 == 0x09 || $0 >= 0x20 && $0 != 0x7f }) else { throw .badRequest }
        guard let lines = Self.lines(of: head), let firstLine = lines.first else { throw .badRequest }
        guard lines.count - 1 <= Self.maximumFieldCount else { throw .headTooLarge }
        var fields: [String: String] = [:]
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: 0x3a), Self.isToken(line[..<colon]), let name = Self.text(line[..<colon])
            else { throw .badRequest }
            let key = name.lowercased()
            let value = String(decoding: Self.trimmed(line[line.index(after: colon)...]), as: UTF8.self)
            // Two values of a field by which messages are told apart could be read differently by two readers.
            if let earlier = fields[key] {
                guard !Self.singleFields.contains(key) else { throw .badRequest }
                fields[key] = "\(earlier), \(value)"
            } else {
                fields[key] = value
            }
        }
        (self.firstLine, self.fields) = (firstLine, fields)
    }

    /// The framing that the fields name; nil for none. A message with both fields could be divided in two ways (RFC 9112, section
    /// 6.3).
    func framing() throws(HTTPStatus) -> HTTPBodyDecoder.Framing? {
        if let coding = fields["transfer-encoding"] {
            guard coding.isEqualIgnoringCase(to: "chunked") else { throw .notImplemented }
            guard fields["content-length"] == nil else { throw .badRequest }
            return .chunked
        }
        guard let text = fields["content-length"] else { return nil }
        guard (1...18).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let length = UInt64(text)
        else { throw .badRequest }
        return .length(length)
    }

    /// Whether the field Connection has an option.
    func hasConnectionOption(_ option: String) -> Bool {
        fields["connection"]?.utf8.split(separator: 0x2c).contains {
            String(decoding: $0.filter { $0 != 0x20 && $0 != 0x09 }, as: UTF8.self).isEqualIgnoringCase(to: option)
        } ?? false
    }

    private static let singleFields: Set<String> = [
        "content-length", "host", "origin", "sec-fetch-site", "transfer-encoding", "connection", "range",
        "if-range", "expect",
    ]

    /// The lines, each of which ends with CR LF but the last.
    /// - Returns: nil for a CR or LF that stands alone, for an empty line and for a folded one.
    private static func lines(of head: ArraySlice<UInt8>) -> [ArraySlice<UInt8>]? {
        var lines: [ArraySlice<UInt8>] = []
        for (index, line) in head.split(separator: 0x0a, omittingEmptySubsequences: false).enumerated() {
            let isLast = line.endIndex == head.endIndex
            guard isLast || line.last == 0x0d else { return nil }
            let content = isLast ? line : line.dropLast()
            guard let first = content.first, !content.contains(0x0d), index == 0 || first != 0x20 && first != 0x09 else {
                return nil
            }
            lines.append(content)
        }
        return lines
    }

    /// Printable ASCII as a text; nil for other bytes.
    static func text(_ bytes: ArraySlice<UInt8>) -> String? {
        bytes.allSatisfy { (0x21...0x7e).contains($0) } ? String(decoding: bytes, as: UTF8.self) : nil
    }

    private static func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        var rest = bytes.drop { $0 == 0x20 || $0 == 0x09 }
        while rest.last == 0x20 || rest.last == 0x09 { rest.removeLast() }
        return rest
    }

    /// Whether bytes are a token (RFC 9110, section 5.6.2).
    static func isToken(_ bytes: ArraySlice<UInt8>) -> Bool {
        !bytes.isEmpty
            && bytes.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5a, 0x61...0x7a: true
                default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
                }
            }
    }
}

/// The received bytes of a connection, from which heads are taken.
struct HTTPHeadBuffer: Sendable {
    private(set) var bytes: [UInt8] = []
    /// The bytes that contain no end of a head.
    private var scannedCount = 0

    mutating func append(_ new: UnsafeRawBufferPointer) { bytes.append(contentsOf: new) }

    /// Removes bytes that are no part of a head.
    mutating func removeFirst(_ count: Int) -> [UInt8] {
        defer {
            bytes.removeFirst(count)
            scannedCount = 0
        }
        return Array(bytes[..<count])
    }

    /// Removes and decodes the next head.
    /// - Returns: nil when more bytes are needed.
    mutating func next() throws(HTTPStatus) -> HTTPHead? {
        // Some peers end a body with an empty line that its length does not count (RFC 9112, section 2.2).
        var emptyByteCount = 0
        while bytes[emptyByteCount...].starts(with: [0x0d, 0x0a]) { emptyByteCount += 2 }
        if emptyByteCount > 0 { _ = removeFirst(emptyByteCount) }
        guard let end = headEnd() else {
            guard bytes.count < HTTPHead.maximumByteCount else { throw .headTooLarge }
            return nil
        }
        guard end <= HTTPHead.maximumByteCount else { throw .headTooLarge }
        let head = try HTTPHead(bytes[..<end])
        _ = removeFirst(end + 4)
        return head
    }

    /// The index of the CR LF CR LF that ends the head.
    private mutating func headEnd() -> Int? {
        var index = max(0, scannedCount - 3)
        while index + 4 <= bytes.count {
            if bytes[index] == 0x0d, bytes[index + 1] == 0x0a, bytes[index + 2] == 0x0d, bytes[index + 3] == 0x0a {
                return index
            }
            index += 1
        }
        scannedCount = bytes.count
        return nil
    }
}
