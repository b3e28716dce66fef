/// The head of an HTTP/1.1 request (RFC 9112), strictly decoded. Folded fields, upgrades and transfer codings other than
/// `chunked` are rejected. So are targets in absolute form, which only clients of proxies send.
package struct HTTPRequest: Sendable, Hashable {
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
    /// The value of the field If-Range (RFC 9110, section 13.1.5): the range counts only for content of this version.
    package let ifRange: String?
    /// The size of the body; 0 for one in chunks.
    package let contentLength: Int
    /// The framing of the body (RFC 9112, section 6), for requests whose bodies may be large.
    package let framing: HTTPBodyDecoder.Framing
    /// Whether the client waits for the permission to send the body (RFC 9110, section 10.1.1).
    package let expectsContinue: Bool
    /// The part of the content that the client asks for; nil for all of it.
    package let range: HTTPRange?
    /// Whether the client closes the connection after the response.
    package let closesConnection: Bool

    /// - Parameter streamsBody: whether the body may be of any size, and in chunks; otherwise it has a length below 1 GB.
    /// - Throws: the status of the response that rejects it.
    init(_ head: HTTPHead, streamsBody: Bool = false) throws(HTTPStatus) {
        let parts = head.firstLine.split(separator: 0x20, omittingEmptySubsequences: false)
        guard parts.count == 3, let method = HTTPHead.text(parts[0]), let target = HTTPHead.text(parts[1]),
            HTTPHead.isToken(parts[0]), target.hasPrefix("/")
        else { throw .badRequest }
        guard parts[2].elementsEqual("HTTP/1.1".utf8) else { throw .versionNotSupported }
        let fields = head.fields
        guard fields["upgrade"] == nil else { throw .notImplemented }
        guard let host = fields["host"] else { throw .badRequest }
        let framing = try head.framing() ?? .length(0)
        switch framing {
        case .chunked where !streamsBody: throw .notImplemented
        case .length(let length) where !streamsBody && length > Self.maximumContentLength: throw .contentTooLarge
        case .length(let length): contentLength = Int(clamping: length)
        case .chunked: contentLength = 0
        }
        self.framing = framing
        self.method = method
        self.host = host
        path = String(target.prefix { $0 != "?" })
        query = String(target.dropFirst(path.count + 1))
        expectsContinue = fields["expect"]?.isEqualIgnoringCase(to: "100-continue") ?? false
        origin = fields["origin"]
        fetchSite = fields["sec-fetch-site"]
        range = fields["range"].flatMap { HTTPRange($0) }
        ifRange = fields["if-range"]
        closesConnection = head.hasConnectionOption("close")
    }

    /// Limit on lengths that a request without a streamed body may name. The reader has smaller ones for each path.
    private static let maximumContentLength: UInt64 = 999_999_999
}
