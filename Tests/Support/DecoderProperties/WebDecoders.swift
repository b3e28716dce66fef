import NearshareBase
import NearshareHTTP
import NearshareWeb

extension DecoderProperty {
    static let web = [httpRequest, pageOffer]

    /// Requests are the same however their bytes are divided, and keep their limits.
    private static let httpRequest = Self(
        name: "http-request",
        seeds: [
            "GET /AAAQEAYE HTTP/1.1\r\nHost: 192.168.1.5:29743\r\nAccept: */*\r\nSec-Fetch-Site: none\r\n\r\n",
            "POST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabcGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        ].map { Array($0.utf8) }
    ) { bytes throws(Violation) in
        let whole = requests(in: bytes, pieceByteCount: max(1, bytes.count))
        let single = requests(in: bytes, pieceByteCount: 1)
        try require(whole.requests == single.requests && whole.error == single.error, "other requests in pieces")
        for request in whole.requests {
            try require(request.path.hasPrefix("/") && request.path.utf8.allSatisfy { (0x21...0x7e).contains($0) }, "a path")
            try require((0...maximumBodyByteCount).contains(request.contentLength), "a body beyond its limit")
        }
        return !whole.requests.isEmpty
    }

    private static let maximumBodyByteCount = 100

    private static func requests(in bytes: [UInt8], pieceByteCount: Int) -> (requests: [HTTPRequest], error: HTTPStatus?) {
        var reader = HTTPRequestReader()
        var found: [HTTPRequest] = []
        for start in stride(from: 0, to: bytes.count, by: pieceByteCount) {
            bytes[start..<min(start + pieceByteCount, bytes.count)].withUnsafeBytes { reader.append($0) }
            do throws(HTTPStatus) {
                while let next = try reader.next(limit: { _ in maximumBodyByteCount }) { found.append(next.request) }
            } catch {
                return (found, error)
            }
        }
        return (found, nil)
    }

    private static let pageOffer = Self(
        name: "page-offer",
        seeds: bytes(
            "0001 00 01 61 00 0000000000000001 0000000000000000",
            "0001 02 00 0a 746578742f706c61696e 00000000000000ff 7fffffffffffffff")
    ) { bytes throws(Violation) in
        guard let content = try? PageOffer(decoding: bytes) else { return false }
        let offer = content.offer
        try require(content.entries.count == Int(offer.itemCount), "entries and items differ")
        try require(content.entries.reduce(0) { $0 + ($1.size ?? 0) } == offer.totalSize, "the sizes do not add up")
        return true
    }
}
