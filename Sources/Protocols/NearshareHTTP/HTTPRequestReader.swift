/// The permitted size of the body of a request.
package struct HTTPBodyLimit: Sendable, Hashable {
    package var byteCount: Int
    /// The size of the parts in which the body is read; nil for the whole body.
    package var partByteCount: Int?

    package init(byteCount: Int, partByteCount: Int? = nil) {
        (self.byteCount, self.partByteCount) = (byteCount, partByteCount)
    }
}

/// A request with its body, or with one part of its body.
package struct HTTPRequestPart: Sendable, Hashable {
    package let request: HTTPRequest
    package let bytes: [UInt8]
    /// The position of the part in the body, counted from 0.
    package let number: Int
    /// Whether the body ends with this part.
    package let isLast: Bool
}

/// Divides the bytes of a connection into requests. Holds one head, and one body or one part of it.
package struct HTTPRequestReader: Sendable {
    /// A request whose body has not been read to its end.
    private struct OpenRequest {
        let request: HTTPRequest
        let partByteCount: Int
        var remaining: Int
        var number = 0
    }

    private var buffer = HTTPHeadBuffer()
    private var open: OpenRequest?

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
        let part = try nextPart { (request) throws(HTTPStatus) in HTTPBodyLimit(byteCount: try limit(request)) }
        return part.map { ($0.request, $0.bytes) }
    }

    /// The next complete request, or the next complete part of its body. A request without a body has one empty part.
    /// - Parameter limit: returns the permitted size of the body, once a request's head is complete.
    /// - Returns: nil when more bytes are needed.
    /// - Throws: the status of the response after which the connection is closed.
    package mutating func nextPart(
        limit: (HTTPRequest) throws(HTTPStatus) -> HTTPBodyLimit
    ) throws(HTTPStatus) -> HTTPRequestPart? {
        if open == nil, let request = try readHead(streamsBody: false) {
            let limit = try limit(request)
            guard request.contentLength <= limit.byteCount else { throw .contentTooLarge }
            open = OpenRequest(
                request: request, partByteCount: max(1, limit.partByteCount ?? .max), remaining: request.contentLength)
        }
        guard var current = open else { return nil }
        let count = min(current.partByteCount, current.remaining)
        guard buffer.bytes.count >= count else { return nil }
        current.remaining -= count
        let part = HTTPRequestPart(
            request: current.request, bytes: buffer.removeFirst(count), number: current.number, isLast: current.remaining == 0)
        // Bounded by the size of the body.
        current.number += 1
        open = part.isLast ? nil : current
        return part
    }

    /// The next head, whose body the caller reads with an ``HTTPBodyDecoder``.
    /// - Returns: nil when more bytes are needed.
    package mutating func nextHead() throws(HTTPStatus) -> HTTPRequest? { try readHead(streamsBody: true) }

    /// Removes the bytes that follow the head.
    package mutating func removeRest() -> [UInt8] { buffer.removeFirst(buffer.bytes.count) }

    private mutating func readHead(streamsBody: Bool) throws(HTTPStatus) -> HTTPRequest? {
        guard let head = try buffer.next() else { return nil }
        return try HTTPRequest(head, streamsBody: streamsBody)
    }
}
