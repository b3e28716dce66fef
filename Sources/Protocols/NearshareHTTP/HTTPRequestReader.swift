/// Divides the bytes of a connection into requests. Holds one head or one body.
package struct HTTPRequestReader: Sendable {
    private var buffer: [UInt8] = []
    /// The bytes of the head that contain no end.
    private var scannedCount = 0
    private var head: HTTPRequest?

    package init() {}

    /// Appends received bytes.
    package mutating func append(_ bytes: UnsafeRawBufferPointer) { buffer.append(contentsOf: bytes) }

    /// The next complete request.
    /// - Parameter limit: returns the permitted size of the body, once a request's head is complete.
    /// - Returns: nil when more bytes are needed.
    /// - Throws: the status of the response after which the connection is closed.
    package mutating func next(
        limit: (HTTPRequest) throws(HTTPStatus) -> Int
    ) throws(HTTPStatus) -> (request: HTTPRequest, body: [UInt8])? {
        if head == nil { head = try readHead(limit) }
        guard let head, buffer.count >= head.contentLength else { return nil }
        self.head = nil
        let body = Array(buffer[..<head.contentLength])
        buffer.removeFirst(head.contentLength)
        return (head, body)
    }

    /// The next head, whose body the caller reads with an ``HTTPBodyDecoder``.
    /// - Returns: nil when more bytes are needed.
    package mutating func nextHead() throws(HTTPStatus) -> HTTPRequest? { try readHead(streamsBody: true) }

    /// Removes the bytes that follow the head.
    package mutating func removeRest() -> [UInt8] {
        defer { (buffer, scannedCount) = ([], 0) }
        return buffer
    }

    private mutating func readHead(_ limit: (HTTPRequest) throws(HTTPStatus) -> Int) throws(HTTPStatus) -> HTTPRequest? {
        guard let request = try readHead(streamsBody: false) else { return nil }
        guard request.contentLength <= (try limit(request)) else { throw .contentTooLarge }
        return request
    }

    private mutating func readHead(streamsBody: Bool) throws(HTTPStatus) -> HTTPRequest? {
        // Some clients end a body with an empty line that its length does not count (RFC 9112, section 2.2).
        var emptyByteCount = 0
        while buffer[emptyByteCount...].starts(with: [0x0d, 0x0a]) { emptyByteCount += 2 }
        if emptyByteCount > 0 {
            buffer.removeFirst(emptyByteCount)
            scannedCount = 0
        }
        guard let end = headEnd() else {
            guard buffer.count < HTTPRequest.maximumHeadByteCount else { throw .headTooLarge }
            return nil
        }
        guard end <= HTTPRequest.maximumHeadByteCount else { throw .headTooLarge }
        let request = try HTTPRequest(head: buffer[..<end], streamsBody: streamsBody)
        buffer.removeFirst(end + 4)
        scannedCount = 0
        return request
    }

    /// The index of the CR LF CR LF that ends the head.
    private mutating func headEnd() -> Int? {
        var index = max(0, scannedCount - 3)
        while index + 4 <= buffer.count {
            if buffer[index] == 0x0d, buffer[index + 1] == 0x0a, buffer[index + 2] == 0x0d, buffer[index + 3] == 0x0a {
                return index
            }
            index += 1
        }
        scannedCount = buffer.count
        return nil
    }
}
