/// Divides the bytes of a connection into requests. Holds one head or one body.
package struct HTTPRequestReader: Sendable {
    private var buffer = HTTPHeadBuffer()
    private var head: HTTPRequest?

    package init() {}

    /// Appends received bytes.
    package mutating func append(_ bytes: UnsafeRawBufferPointer) { buffer.append(bytes) }

    /// The next complete request.
    /// - Parameter limit: returns the permitted size of the body, once a request's head is complete.
    /// - Returns: nil when more bytes are needed.
    /// - Throws: the status of the response after which the connection is closed.
    package mutating func next(
        limit: (HTTPRequest) throws(HTTPStatus) -> Int
    ) throws(HTTPStatus) -> (request: HTTPRequest, body: [UInt8])? {
        if head == nil { head = try readHead(limit) }
        guard let head, buffer.bytes.count >= head.contentLength else { return nil }
        self.head = nil
        return (head, buffer.removeFirst(head.contentLength))
    }

    /// The next head, whose body the caller reads with an ``HTTPBodyDecoder``.
    /// - Returns: nil when more bytes are needed.
    package mutating func nextHead() throws(HTTPStatus) -> HTTPRequest? { try readHead(streamsBody: true) }

    /// Removes the bytes that follow the head.
    package mutating func removeRest() -> [UInt8] { buffer.removeFirst(buffer.bytes.count) }

    private mutating func readHead(_ limit: (HTTPRequest) throws(HTTPStatus) -> Int) throws(HTTPStatus) -> HTTPRequest? {
        guard let request = try readHead(streamsBody: false) else { return nil }
        guard request.contentLength <= (try limit(request)) else { throw .contentTooLarge }
        return request
    }

    private mutating func readHead(streamsBody: Bool) throws(HTTPStatus) -> HTTPRequest? {
        guard let head = try buffer.next() else { return nil }
        return try HTTPRequest(head, streamsBody: streamsBody)
    }
}
