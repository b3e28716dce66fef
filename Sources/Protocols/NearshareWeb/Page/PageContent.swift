internal import NearshareBase
internal import NearshareCrypto
internal import NearshareHTTP

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
        // 32 bytes are 43 digits and one of padding.
        return "sha256-\(BaseEncoding.base64.encode(SHA256Hasher.digest(Array(page[start..<end]))))="
    }
}
