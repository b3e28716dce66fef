internal import NearshareBase
package import NearshareHTTP

/// An unencrypted download of an item, or of a part of it.
package struct UnencryptedPageDownload: Sendable, Hashable {
    package let offer: PageMachine.OfferID
    package let item: UInt32
    /// The size of the whole item.
    package let size: UInt64
    /// The bytes of the response.
    package let bytes: Range<UInt64>
    /// The response without its body.
    package let head: HTTPResponse
    let path: String

    init(
        path: String, download: UnencryptedPagePaths.Download, item: PageShare.Item, size: UInt64, request: HTTPRequest
    ) throws(HTTPStatus) {
        let version = "\"\(path)\""
        // A range of another version of the content would not fit to the bytes that the browser has.
        let range = request.ifRange == nil || request.ifRange == version ? request.range : nil
        guard let bytes = range.map({ $0.bytes(of: size) }) ?? 0..<size else { throw .rangeNotSatisfiable }
        var head = HTTPResponse(range == nil ? .ok : .partialContent)
        head.fields = [
            "Accept-Ranges: bytes", "ETag: \(version)",
            // RFC 6266 and RFC 8187.
            "Content-Disposition: attachment; filename*=UTF-8''\(Self.percentEncoded(item.name.bytes))",
        ]
        if range != nil {
            head.fields.append("Content-Range: bytes \(bytes.lowerBound)-\(bytes.upperBound - 1)/\(size)")
        }
        (offer, self.item, self.path) = (download.offer, download.item, path)
        (self.size, self.bytes, self.head) = (size, bytes, head)
    }

    /// Bytes as characters of an extended value (RFC 8187, section 3.2.1): no name can end the field.
    private static func percentEncoded(_ bytes: [UInt8]) -> String {
        bytes.map { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2d, 0x2e, 0x5f, 0x7e: String(UnicodeScalar(byte))
            default: "%" + Hex.encode([byte]).uppercased()
            }
        }.joined()
    }
}
