import NearshareHTTP
import Testing

@Suite("responses of servers") struct HTTPResponseReaderTests {
    /// The responses in bytes that arrive in pieces, and the one that the end of the connection completes.
    private func read(
        _ text: String, limit: Int = 100, pieceByteCount: Int = .max
    ) throws -> (responses: [ReceivedHTTPResponse], last: ReceivedHTTPResponse?) {
        var reader = HTTPResponseReader(limit: limit)
        var responses: [ReceivedHTTPResponse] = []
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            Array(rest.prefix(pieceByteCount)).withUnsafeBytes { reader.append($0) }
            rest = rest.dropFirst(pieceByteCount)
            while let response = try reader.next() { responses.append(response) }
        }
        return (responses, reader.end())
    }

    private static let counted = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
    private static let chunked = "HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\n\r\n"

    @Test(arguments: [1, 2, 3, 1000]) func `responses are divided whatever arrives at once`(size: Int) throws {
        let empty = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
        let (responses, last) = try read(Self.counted + Self.chunked + empty, pieceByteCount: size)
        #expect(responses.map(\.status) == [200, 403, 204])
        #expect(responses.map { String(decoding: $0.body, as: UTF8.self) } == ["abc", "de", ""])
        #expect(responses.map(\.closesConnection) == [false, false, true])
        #expect(last == nil)
    }

    @Test(arguments: [1, 1000]) func `a body without a length ends with the connection`(size: Int) throws {
        let (responses, last) = try read("HTTP/1.0 200 OK\r\n\r\nabc", pieceByteCount: size)
        #expect(responses.isEmpty)
        #expect(last?.status == 200 && last?.body == Array("abc".utf8) && last?.closesConnection == true)
    }

    @Test func `a response that is cut off is none`() throws {
        for text in ["HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", "HTTP/1.1 200 OK\r\n", String(Self.chunked.dropLast())]
        {
            let (responses, last) = try read(text)
            #expect(responses.isEmpty && last == nil)
        }
    }

    @Test func `interim responses are dropped, a few of them`() throws {
        let interim = "HTTP/1.1 100 Continue\r\n\r\n"
        #expect(try read(interim + Self.counted).responses.map(\.status) == [200])
        #expect(throws: MalformedHTTPResponse.self) { try read(String(repeating: interim, count: 9) + Self.counted) }
    }

    @Test func `an old server closes unless it says otherwise`() throws {
        let head = "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n"
        #expect(try read(head + "\r\n").responses.map(\.closesConnection) == [true])
        #expect(try read(head + "Connection: Keep-Alive\r\n\r\n").responses.map(\.closesConnection) == [false])
    }

    @Test(
        "F15: responses that are too large are rejected before they are held",
        arguments: [
            "HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + String(repeating: "a", count: 101),
            "HTTP/1.1 200 OK\r\n\r\n" + String(repeating: "a", count: 101),
            "HTTP/1.1 200 OK\r\nA: " + String(repeating: "a", count: 8192),
            "HTTP/1.1 200 OK\r\n" + String(repeating: "A: b\r\n", count: 65) + "\r\n",
        ])
    func tooLarge(text: String) {
        #expect(throws: MalformedHTTPResponse.self) { try read(text) }
    }

    @Test(
        "F15: what is no response is rejected",
        arguments: [
            "HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 999 OK\r\n\r\n",
            "HTTP/1.1 101 Switching\r\n\r\n", "SSH-2.0-x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        ])
    func malformed(text: String) {
        #expect(throws: MalformedHTTPResponse.self) { try read(text) }
    }
}
