/// A response with its body.
package struct HTTPResponse: Sendable, Hashable {
    package var status: HTTPStatus
    package var contentType = "application/octet-stream"
    /// The policy for the page's own content; nil for what is not a page.
    package var contentSecurityPolicy: String?
    /// Further fields of the head, without their ends of line.
    package var fields: [String] = []
    package var body: [UInt8] = []

    package init(_ status: HTTPStatus, body: [UInt8] = []) {
        self.status = status
        self.body = body
    }

    /// The bytes on the connection.
    /// - Parameter closes: whether the connection is closed behind it.
    package func encoded(closes: Bool) -> [UInt8] { head(length: UInt64(body.count), closes: closes) + body }

    /// The head for a body that is written after it.
    package func head(length: UInt64, closes: Bool) -> [UInt8] {
        var head = "HTTP/1.1 \(status.rawValue) \(status.reason)\r\n"
        // A response without content has no length either (RFC 9110, section 8.6).
        if status != .noContent { head += "Content-Type: \(contentType)\r\nContent-Length: \(length)\r\n" }
        head += "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
        head += "X-Frame-Options: DENY\r\nCross-Origin-Resource-Policy: same-origin\r\n"
        head += "Content-Security-Policy: \(contentSecurityPolicy ?? "default-src 'none'; frame-ancestors 'none'")\r\n"
        if closes { head += "Connection: close\r\n" }
        for field in fields { head += "\(field)\r\n" }
        return Array((head + "\r\n").utf8)
    }
}
