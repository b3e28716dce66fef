/// The head of an HTTP/1.1 request (RFC 9112), strictly decoded. Folded fields, upgrades and transfer codings other than
/// `chunked` are rejected.
package struct HTTPRequest: Sendable, Hashable {
    /// Limit on the request line and the fields, in bytes. Browsers send less than 2 KiB where no cookies are set.
    package static let maximumHeadByteCount = 8192
    /// Limit on the number of fields.
    package static let maximumFieldCount = 64

    /// The method, such as `GET`.
    package let method: String
    /// The path of the target, without its query: printable ASCII that begins with a slash.
    package let path: String
    /// The query of the target, without its question mark; empty where there is none.
    package let query: String
    /// The value of the field Host: the authority that the client means.
    package let host: String
    /// The value of the field Origin; nil where there is none.
    package let origin: String?
    /// The value of the field Sec-Fetch-Site; nil where there is none.
    package let fetchSite: String?
    /// The value of the field If-Range: the version of the content for which alone the range is meant.
    package let ifRange: String?
    /// The size of the body; 0 for one in chunks.
    package let contentLength: Int
    /// The length of the body, for requests whose bodies may be large.
    package let framing: HTTPBodyDecoder.Framing
    /// Whether the client waits for the permission to send the body (RFC 9110, section 10.1.1).
    package let expectsContinue: Bool
    /// The part of the content that the client asks for; nil for all of it.
    package let range: HTTPRange?
    /// Whether the client closes the connection after the response.
    package let closesConnection: Bool

    /// Decodes a head without its final empty line.
    /// - Parameter streamsBody: whether the body may be of any size, and in chunks; otherwise it has a length below 1 GB.
    /// - Throws: the status of the response that rejects it.
    init(head: ArraySlice<UInt8>, streamsBody: Bool = false) throws(HTTPStatus) {
        guard head.allSatisfy({ $0 == 0x0d || $0 == 0x0a || $0 == 0x09 || $0 >= 0x20 && $0 != 0x7f }) else { throw .badRequest }
        let lines = Self.lines(of: head)
        guard let lines, let requestLine = lines.first else { throw .badRequest }
        let parts = requestLine.split(separator: 0x20, omittingEmptySubsequences: false)
        guard parts.count == 3, let method = Self.text(parts[0]), let target = Self.text(parts[1]),
            Self.isToken(parts[0]), target.hasPrefix("/")
        else { throw .badRequest }
        guard parts[2].elementsEqual("HTTP/1.1".utf8) else { throw .versionNotSupported }
        guard lines.count - 1 <= Self.maximumFieldCount else { throw .headTooLarge }
        var fields: [String: String] = [:]
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: 0x3a), Self.isToken(line[..<colon]), let name = Self.text(line[..<colon])
            else { throw .badRequest }
            let key = name.lowercased()
            let value = String(decoding: Self.trimmed(line[line.index(after: colon)...]), as: UTF8.self)
            // Two values of a field by which requests are told apart could be read differently by two readers.
            if let earlier = fields[key] {
                guard !Self.singleFields.contains(key) else { throw .badRequest }
                fields[key] = "\(earlier), \(value)"
            } else {
                fields[key] = value
            }
        }
        guard fields["upgrade"] == nil else { throw .notImplemented }
        guard let host = fields["host"] else { throw .badRequest }
        let framing = try Self.framing(fields)
        switch framing {
        case .chunked where !streamsBody: throw .notImplemented
        case .length(let length) where !streamsBody && length > Self.maximumContentLength: throw .badRequest
        case .length(let length): contentLength = Int(clamping: length)
        case .chunked: contentLength = 0
        }
        self.framing = framing
        self.method = method
        self.host = host
        path = String(target.prefix { $0 != "?" })
        query = String(target.dropFirst(path.count + 1))
        expectsContinue = fields["expect"]?.lowercased() == "100-continue"
        origin = fields["origin"]
        fetchSite = fields["sec-fetch-site"]
        range = fields["range"].flatMap { HTTPRange($0) }
        ifRange = fields["if-range"]
        closesConnection =
            fields["connection"]?.lowercased().split(separator: ",").contains {
                $0.filter { $0 != " " && $0 != "\t" } == "close"
            }
            ?? false
    }

    /// Limit on bodies that are held in memory.
    private static let maximumContentLength: UInt64 = 999_999_999

    /// A request with both fields could be divided in two ways (RFC 9112, section 6.3).
    private static func framing(_ fields: [String: String]) throws(HTTPStatus) -> HTTPBodyDecoder.Framing {
        if let coding = fields["transfer-encoding"] {
            guard coding.lowercased() == "chunked" else { throw .notImplemented }
            guard fields["content-length"] == nil else { throw .badRequest }
            return .chunked
        }
        guard let text = fields["content-length"] else { return .length(0) }
        guard (1...18).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let length = UInt64(text)
        else { throw .badRequest }
        return .length(length)
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
    private static func text(_ bytes: ArraySlice<UInt8>) -> String? {
        bytes.allSatisfy { (0x21...0x7e).contains($0) } ? String(decoding: bytes, as: UTF8.self) : nil
    }

    private static func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        var rest = bytes.drop { $0 == 0x20 || $0 == 0x09 }
        while rest.last == 0x20 || rest.last == 0x09 { rest.removeLast() }
        return rest
    }

    /// Whether bytes are a token (RFC 9110, section 5.6.2).
    private static func isToken(_ bytes: ArraySlice<UInt8>) -> Bool {
        !bytes.isEmpty
            && bytes.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5a, 0x61...0x7a: true
                default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
                }
            }
    }
}
