internal import NearshareCrypto

/// The page itself: one file with its style and script inside.
enum PageContent {
    /// The response with the page. Its policy permits the style and the script of the page by their digests, and no others.
    static var response: HTTPResponse {
        var response = HTTPResponse(.ok, body: PackageResources.page_html)
        response.contentType = "text/html; charset=utf-8"
        response.contentSecurityPolicy =
            "default-src 'none'; script-src '\(digest("script"))'; style-src '\(digest("style"))'; connect-src 'self'; "
            + "img-src blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        return response
    }

    /// The source expression of an element's content (Content Security Policy level 3, section 2.3.1).
    private static func digest(_ element: String) -> String {
        let page = PackageResources.page_html[...]
        let start = page.firstRange(of: "<\(element)>".utf8)?.upperBound ?? page.endIndex
        let end = page[start...].firstRange(of: "</\(element)>".utf8)?.lowerBound ?? page.endIndex
        return "sha256-\(base64(SHA256Hasher.digest(Array(page[start..<end]))))"
    }

    /// Base64 (RFC 4648, section 4).
    private static func base64(_ bytes: [UInt8]) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        var text: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            let bits = group.reduce(UInt32(0)) { $0 << 8 | UInt32($1) } << (8 * (3 - group.count))
            for index in 0..<4 {
                text.append(index <= group.count ? alphabet[Int(bits >> (18 - 6 * index) & 63)] : UInt8(ascii: "="))
            }
        }
        return String(decoding: text, as: UTF8.self)
    }
}
