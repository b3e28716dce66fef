import NearshareHTTP
import Testing

@Suite("requests of browsers") struct HTTPRequestTests {
    private func read(_ text: String, limit: Int = 1000) throws(HTTPStatus) -> (request: HTTPRequest, body: [UInt8])? {
        var reader = HTTPRequestReader()
        Array(text.utf8).withUnsafeBytes { reader.append($0) }
        return try reader.next { _ in limit }
    }

    @Test func `a request with a body is read, in any pieces`() throws {
        let text =
            "\r\nPOST /a/b?c HTTP/1.1\r\nHost: x:1\r\ncontent-length:  3 \r\nAccept: a\r\naccept: b\r\nConnection: close\r\n\r\nabc"
        for size in 1...text.utf8.count {
            var reader = HTTPRequestReader()
            var found: (request: HTTPRequest, body: [UInt8])?
            for start in stride(from: 0, to: text.utf8.count, by: size) {
                #expect(found == nil)
                Array(text.utf8)[start..<min(start + size, text.utf8.count)].withUnsafeBytes { reader.append($0) }
                found = try reader.next { _ in 3 }
            }
            let request = try #require(found)
            #expect(request.request.method == "POST" && request.request.path == "/a/b" && request.request.host == "x:1")
            #expect(request.body == Array("abc".utf8) && request.request.closesConnection)
        }
    }

    @Test func `a body is read in parts, of which only the last one is shorter`() throws {
        let text = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\nabcdefgGET /b HTTP/1.1\r\nHost: x\r\n\r\n"
        for size in 1...text.utf8.count {
            var reader = HTTPRequestReader()
            var parts: [HTTPRequestPart] = []
            for start in stride(from: 0, to: text.utf8.count, by: size) {
                Array(text.utf8)[start..<min(start + size, text.utf8.count)].withUnsafeBytes { reader.append($0) }
                while let part = try reader.nextPart(limit: { _ in HTTPBodyLimit(byteCount: 7, partByteCount: 3) }) {
                    parts.append(part)
                }
            }
            #expect(parts.map(\.request.path) == ["/a", "/a", "/a", "/b"])
            #expect(parts.map { String(decoding: $0.bytes, as: UTF8.self) } == ["abc", "def", "g", ""])
            #expect(parts.map(\.number) == [0, 1, 2, 0] && parts.map(\.isLast) == [false, false, true, true])
        }
        var reader = HTTPRequestReader()
        Array(text.utf8).withUnsafeBytes { reader.append($0) }
        #expect(throws: HTTPStatus.contentTooLarge) {
            try reader.nextPart { _ in HTTPBodyLimit(byteCount: 6, partByteCount: 3) }
        }
    }

    @Test func `two requests follow each other`() throws {
        var reader = HTTPRequestReader()
        let text = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nzGET /b HTTP/1.1\r\nHost: x\r\n\r\n"
        Array(text.utf8).withUnsafeBytes { reader.append($0) }
        #expect(try reader.next { _ in 9 }?.request.path == "/a")
        #expect(try reader.next { _ in 9 }?.request.path == "/b")
        #expect(try reader.next { _ in 9 } == nil)
    }

    @Test(
        "R1: a malformed head is rejected",
        arguments: [
            "GET / HTTP/1.1\r\n\r\n", "GET  / HTTP/1.1\r\nHost: x\r\n\r\n", "GET x HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET /\u{1} HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost : x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET /ä HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\ry\r\n\r\n", "GET / HTTP/1.1\r\n: x\r\n\r\n", "GET / HTTP/1.1 \r\nHost: x\r\n\r\n",
        ])
    func malformedHeads(text: String) {
        #expect(throws: HTTPStatus.badRequest) { try read(text) }
    }

    @Test("an empty line before a request is skipped; a list of options may contain close")
    func leniency() throws {
        #expect(try read("\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\nConnection: a, Close\r\n\r\n")?.0.closesConnection == true)
        #expect(try read("GET / HTTP/1.1\r\nHost: x\r\nConnection: disclose\r\n\r\n")?.0.closesConnection == false)
    }

    @Test("R1: other versions, codings and upgrades are rejected")
    func unsupported() {
        for version in ["1.0", "2"] {
            #expect(throws: HTTPStatus.versionNotSupported) { try read("GET / HTTP/\(version)\r\nHost: x\r\n\r\n") }
        }
        for text in [
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\n\r\n",
        ] {
            #expect(throws: HTTPStatus.notImplemented) { try read(text) }
        }
    }

    @Test("R1: heads and bodies have limits")
    func limits() {
        let many = (0..<65).map { "A\($0): b\r\n" }.joined()
        #expect(throws: HTTPStatus.headTooLarge) { try read("GET / HTTP/1.1\r\nHost: x\r\n\(many)\r\n") }
        let long = String(repeating: "a", count: 9000)
        #expect(throws: HTTPStatus.headTooLarge) { try read("GET / HTTP/1.1\r\nHost: x\r\nA: \(long)\r\n\r\n") }
        #expect(throws: HTTPStatus.headTooLarge) { try read("GET /\(long)") }
        #expect(throws: HTTPStatus.contentTooLarge) {
            try read("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n")
        }
    }
}
