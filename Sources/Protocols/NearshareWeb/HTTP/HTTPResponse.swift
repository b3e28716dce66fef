/// A response with its body.
package struct HTTPResponse: Sendable, Hashable {
    package var status: HTTPStatus
    package var contentType = "application/octet-stream"
    /// The policy for the page's own content; nil for what is not a page.
    package var contentSecurityPolicy: String?
    package var body: [UInt8] = []

    package init(_ status: HTTPStatus, body: [UInt8] = []) {
        self.status = status
        self.body = body
    }

    /// The bytes on the connection.
    /// - Parameter closes: whether the connection is closed behind it.
    package func encoded(closes: Bool) -> [UInt8] {
        var head = "HTTP/1.1 \(status.rawValue) \(status.reason)\r\n"
        head += "Content-Type: \(contentType)\r\nContent-Length: \(body.count)\r\n"
        head += "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
        head += "X-Frame-Options: DENY\r\nCross-Origin-Resource-Policy: same-origin\r\n"
        head += "Content-Security-Policy: \(contentSecurityPolicy ?? "default-src 'none'; frame-ancestors 'none'")\r\n"
        if closes { head += "Connection: close\r\n" }
        return Array((head + "\r\n").utf8) + body
    }
}
