import NearshareHTTP
import Testing

@Suite("bodies of requests") struct HTTPBodyDecoderTests {
    /// Decodes bytes in pieces; the rest is what is behind the body.
    private func decode(
        _ framing: HTTPBodyDecoder.Framing, _ text: String, pieceByteCount: Int = .max
    ) throws -> (content: String, rest: String, isComplete: Bool) {
        var decoder = HTTPBodyDecoder(framing)
        var content: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty, !decoder.isComplete {
            let piece = Array(rest.prefix(pieceByteCount))
            let (count, range) = try piece.withUnsafeBytes { try decoder.decode($0) }
            content += piece[range]
            rest = rest.dropFirst(count)
        }
        return (String(decoding: content, as: UTF8.self), String(decoding: rest, as: UTF8.self), decoder.isComplete)
    }

    @Test(arguments: [1, 2, 3, 100]) func `lengths and chunks are decoded in any pieces`(size: Int) throws {
        let counted = try decode(.length(4), "abcdGET", pieceByteCount: size)
        #expect(counted == ("abcd", "GET", true))
        let text = "3\r\nabc\r\n0A;name=value\r\n0123456789\r\n0\r\nA: b\r\n\r\nGET"
        #expect(try decode(.chunked, text, pieceByteCount: size) == ("abc0123456789", "GET", true))
        #expect(try decode(.length(0), "GET") == ("", "GET", true))
        #expect(try decode(.chunked, "5\r\nab", pieceByteCount: size) == ("ab", "", false))
    }

    @Test(
        "F10: malformed chunks are rejected",
        arguments: [
            "\r\n", "x\r\n", "-1\r\n", "3\nabc", "3\r\nabcd", "3\r\nabc\n", "0x3\r\nabc\r\n", "1000000000000000\r\n",
            String(repeating: "0", count: 300),
        ])
    func malformed(text: String) {
        #expect(throws: HTTPStatus.badRequest) { try decode(.chunked, text) }
    }

    @Test("F10: fields after the last chunk have a limit")
    func trailers() {
        #expect(throws: HTTPStatus.headTooLarge) { try decode(.chunked, "0\r\n" + String(repeating: "A: b\r\n", count: 2000)) }
    }

    @Test("F10: a body has one length")
    func framings() throws {
        func head(_ fields: String) throws -> HTTPRequest? {
            var reader = HTTPRequestReader()
            Array("POST / HTTP/1.1\r\nHost: x\r\n\(fields)\r\n\r\nrest".utf8).withUnsafeBytes { reader.append($0) }
            let request = try reader.nextHead()
            #expect(reader.removeRest() == Array("rest".utf8))
            return request
        }
        #expect(try head("Transfer-Encoding: chunked")?.framing == .chunked)
        #expect(try head("Content-Length: 99999999999")?.framing == .length(99_999_999_999))
        #expect(try head("Expect: 100-continue")?.expectsContinue == true)
        #expect(throws: HTTPStatus.badRequest) { try head("Transfer-Encoding: chunked\r\nContent-Length: 4") }
        #expect(throws: HTTPStatus.notImplemented) { try head("Transfer-Encoding: gzip, chunked") }
        #expect(throws: HTTPStatus.badRequest) { try head("Content-Length: 9999999999999999999") }
    }
}
